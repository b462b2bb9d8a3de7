#!/usr/bin/env python3
"""A task of an array: how many primes are there among 20,000 numbers, and what is their sum?"""

import os

WIDTH = 20_000


def primes(first, last):
    """The primes from ``first`` to before ``last``."""
    sieve = bytearray([1]) * last
    sieve[:2] = b"\0\0"
    for number in range(2, int(last**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, last, number)))
    return [number for number in range(first, last) if sieve[number]]


def answer(task):
    """The line that task number ``task`` prints."""
    found = primes(task * WIDTH, (task + 1) * WIDTH)
    return f"{task * WIDTH} to {(task + 1) * WIDTH - 1}: {len(found)} primes, sum {sum(found)}"


if __name__ == "__main__":
    print(answer(int(os.environ["SLURM_ARRAY_TASK_ID"])))
