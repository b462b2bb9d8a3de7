"""Sets of whole numbers, kept as runs: sorted, none touching the next, so that equal sets are equal lists."""

from __future__ import annotations

Run = tuple[int, int]
"""The first and the last of numbers in a row."""


def runs_of_numbers(numbers: list[int]) -> list[Run]:
    """The numbers, each of which is there once, as runs."""
    first, last = min(numbers), max(numbers)
    if last - first + 1 == len(numbers):
        return [(first, last)]
    runs = []
    previous = first
    numbers.sort()
    for number in numbers:
        if number > previous + 1:
            runs.append((first, previous))
            first = number
        previous = number
    runs.append((first, previous))
    return runs


def merged(runs: list[Run]) -> list[Run]:
    """``runs`` sorted, those that touch or overlap made one."""
    found: list[Run] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def common(ones: list[Run], others: list[Run]) -> list[Run]:
    """The numbers that are in both."""
    found = []
    i = j = 0
    while i < len(ones) and j < len(others):
        first, last = max(ones[i][0], others[j][0]), min(ones[i][1], others[j][1])
        if first <= last:
            found.append((first, last))
        if ones[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(ones: list[Run], others: list[Run]) -> list[Run]:
    """The numbers of ``ones`` that are not in ``others``."""
    left = []
    j = 0
    for first, last in ones:
        while j < len(others) and others[j][1] < first:
            j += 1
        k = j
        while k < len(others) and others[k][0] <= last:
            if first < others[k][0]:
                left.append((first, others[k][0] - 1))
            first = others[k][1] + 1
            k += 1
        if first <= last:
            left.append((first, last))
    return left
