"""The language of --constraint, held against what Slurm 22.05.8 made of it and against evaluating it the long way."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.scaling.decide.demand.constraint import CannotTell, Constraint, Words, parse

#: By fleet; what real Slurm was asked had three nodes of each.
FLEETS = {
    "a": frozenset({"a", "x"}),
    "b": frozenset({"b", "x"}),
    "c": frozenset({"c"}),
    "t": frozenset({"t"}),
    "ab": frozenset({"a", "b", "x"}),
}
EACH = 3


def could_be(written: str, nodes: int) -> set[str]:
    """The fleets of which nodes may be taken, over all ways to take them; empty where there are not enough."""
    found: set[str] = set()
    constraint = parse(written)
    for choice in constraint.choices(max(nodes, constraint.least_nodes), FLEETS):
        if all(count <= EACH * len(those) for count, those in choice):
            found |= {fleet for _, those in choice for fleet in those}
    return found


# What Slurm did with it: `sbatch --test-only` for plain words, jobs that ran for brackets and counts.
@pytest.mark.parametrize(
    ("written", "nodes", "fleets"),
    [
        ("a|b&c", 1, set()),
        ("c&a|b", 1, {"b", "ab"}),
        ("c&(a|b)", 1, set()),
        ("c|a&b", 1, {"ab"}),
        ("a&b|c", 6, {"ab", "c"}),
        ("c|a&b", 4, set()),
        ("a|b", 9, {"a", "b", "ab"}),
        ("a|b", 10, set()),
        ("(a&b)|c", 2, {"ab", "c"}),
        ("c&x|t", 4, set()),
        ("a,b", 1, {"ab"}),
        ("a&", 1, {"a", "ab"}),
        ("[a|b]", 6, {"a", "b", "ab"}),
        ("[a|b]", 7, set()),
        ("[c|t]", 3, {"c", "t"}),
        ("[c|t]", 4, set()),
        ("[(a&x)|(c)]", 2, {"a", "ab", "c"}),
        ("[(a&b)|(c)|(a&x)]", 4, {"a", "ab"}),
        ("[a|c]&x", 2, {"a", "ab"}),
        ("x&[a|c]", 3, {"a", "ab"}),
        ("x&[c|t]", 3, set()),
        ("[a*2&c*3]", 1, {"a", "ab", "c"}),
        ("[a*2&c*3]", 6, {"a", "ab", "c"}),
        ("[(a&b)*2&c*1]", 3, {"ab", "c"}),
        ("[(a&b)*2&c*1]", 5, {"ab", "c"}),
        ("c*2", 5, set(FLEETS)),
        ("c*4", 5, set()),
        ("x*2", 7, set(FLEETS)),
        ("x&ab*2", 2, set()),
        ("(a|c)*2", 3, set(FLEETS)),
    ],
)
def test_as_slurm_takes_nodes(written: str, nodes: int, fleets: set[str]) -> None:
    assert could_be(written, nodes) == fleets


@pytest.mark.parametrize(
    "written",
    [
        "!a",
        "(a",
        "a)",
        "[a",
        "[a&b]",
        "((a))",
        "a*0",
        "a*",
        "*2",
        "[a*1|c*2]",
        "a*2&c*3",
        "a&|b",
        "a|[b|c]",
        "[]",
    ],
)
def test_what_slurm_refuses_or_nobody_can_tell_is_said_so(written: str) -> None:
    with pytest.raises(CannotTell, match="features"):
        parse(written)


def test_nothing_asks_for_nothing() -> None:
    assert parse("") == Constraint()
    assert list(Constraint().choices(2, FLEETS)) == [((2, tuple(FLEETS)),)]


_FEATURE = st.sampled_from("abcx")


@st.composite
def flat(draw: st.DrawFn) -> str:
    """Features and what stands in parentheses, joined by & and |."""
    text = ""
    for number in range(draw(st.integers(1, 4))):
        term = draw(_FEATURE)
        if draw(st.booleans()):
            term = f"({term}{draw(st.sampled_from('&|'))}{draw(_FEATURE)})"
        text += (draw(st.sampled_from("&|")) if number else "") + term
    return text


def long_way(written: str, features: frozenset[str]) -> bool:
    """From left to right, a symbol at a time, with Python's own operators on what has been found."""
    while "(" in written:
        before, _, rest = written.partition("(")
        inner, _, after = rest.partition(")")
        written = f"{before}{'YES' if long_way(inner, features) else 'NO'}{after}"
    words = written.replace("&", " & ").replace("|", " | ").split()
    truth = {"YES": True, "NO": False}
    found = truth.get(words[0], words[0] in features)
    for operator, word in zip(words[1::2], words[2::2], strict=True):
        has = truth.get(word, word in features)
        found = (found & has) if operator == "&" else (found | has)
    return found


@given(flat(), st.frozensets(_FEATURE))
def test_words_hold_as_evaluated_the_long_way(written: str, features: frozenset[str]) -> None:
    assert parse(written).every.hold(features) is long_way(written, features)


@st.composite
def grouped(draw: st.DrawFn) -> str:
    """A feature, or several in parentheses, which do not nest."""
    words = draw(st.lists(_FEATURE, min_size=1, max_size=3))
    text = words[0] + "".join(draw(st.sampled_from("&|")) + word for word in words[1:])
    return text if len(words) == 1 else f"({text})"


@given(st.lists(grouped(), min_size=1, max_size=3), st.integers(1, 6))
def test_alike_takes_all_nodes_of_one_alternative(alternatives: list[str], nodes: int) -> None:
    choices = list(parse(f"[{'|'.join(alternatives)}]").choices(nodes, FLEETS))
    assert choices == [
        ((nodes, tuple(fleet for fleet, has in FLEETS.items() if long_way(each, has))),)
        for each in alternatives
    ]


@given(st.lists(st.tuples(grouped(), st.integers(1, 3)), min_size=2, max_size=3), st.integers(1, 9))
def test_counts_have_nodes_enough_of_each(counted: list[tuple[str, int]], nodes: int) -> None:
    written = "&".join(f"{each}*{count}" for each, count in counted)
    constraint = parse(f"[{written}]")
    assert constraint.least_nodes == sum(count for _, count in counted)
    total = max(nodes, constraint.least_nodes)
    (choice,) = constraint.choices(total, FLEETS)
    assert sum(count for count, _ in choice) == total
    # Whichever nodes are taken, there are enough of each, and none that has nothing of what is asked for.
    for (each, count), (taken, those) in zip(counted, choice, strict=False):
        assert taken == count
        assert all(long_way(each, FLEETS[fleet]) for fleet in those)
    any_of = {f for f, has in FLEETS.items() if any(long_way(each, has) for each, _ in counted)}
    assert {fleet for _, those in choice for fleet in those} <= any_of


@given(st.text(alphabet="ab&|()[]*2, !", max_size=12))
def test_any_text_is_read_or_said_to_be_unreadable(written: str) -> None:
    try:
        constraint = parse(written)
    except CannotTell:
        return
    for nodes, fleets in product((1, 5), (FLEETS, {})):
        for choice in constraint.choices(max(nodes, constraint.least_nodes), fleets):
            assert sum(count for count, _ in choice) == max(nodes, constraint.least_nodes)
    assert isinstance(constraint.every, Words)
