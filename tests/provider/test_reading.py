"""Inputs are read with all their mistakes at once, and what is not known yet is none."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import UNKNOWN, plain, property_value

_TEXT = st.text("a/.-ü0", max_size=5)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | _TEXT | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)


def _mistakes(reader: Reader) -> dict[str, str]:
    return {mistake.property: mistake.reason for mistake in reader.mistakes}


def test_what_is_right_is_read_as_it_is() -> None:
    reader = Reader(
        {"name": "cpu-1", "cpus": 1.5, "mib": 64.0, "keep": True, "aliases": ["a"], "by": {"a": "b"}}
    )
    assert reader.text("name") == "cpu-1"
    assert reader.number("cpus", least=0.01) == 1.5
    assert reader.integer("mib") == 64
    assert reader.flag("keep", False) is True
    assert reader.texts("aliases") == ("a",)
    assert reader.texts_by_name("by") == {"a": "b"}
    reader.refuse_others()
    assert reader.mistakes == []


def test_all_mistakes_are_told_each_with_its_key_the_value_and_what_is_wanted() -> None:
    reader = Reader(
        {
            "name": 3.0,
            "cpus": True,
            "mib": 1.5,
            "keep": "yes",
            "aliases": ["a", 7.0],
            "empty": "",
            "colour": "red",
        }
    )
    reader.text("name")
    reader.number("cpus", least=0.01)
    reader.integer("mib")
    reader.flag("keep", False)
    reader.texts("aliases")
    reader.text("empty")
    reader.text("stack")
    reader.refuse_others()
    assert _mistakes(reader) == {
        "name": "it is 3; a text is wanted",
        "cpus": "it is true; a number is wanted",
        "mib": "it is 1.5; a whole number is wanted",
        "keep": "it is 'yes'; true or false is wanted",
        "aliases[1]": "it is 7; a text is wanted",
        "empty": "it is empty",
        "stack": "it is missing; a text is wanted",
        "colour": "there is no such input; known are aliases, cpus, empty, keep, mib, name, stack",
    }


def test_mistakes_below_are_told_with_their_whole_path() -> None:
    reader = Reader({"services": [{"name": "a"}, {"name": 1.0}], "files": {"/etc/x": {"mode": 4.0}}})
    for each in reader.maps("services"):
        each.text("name")
    for _, each in reader.maps_by_name("files"):
        each.text("mode")
    assert set(_mistakes(reader)) == {"services[1].name", "files./etc/x.mode"}


def test_numbers_have_a_least() -> None:
    reader = Reader({"cpus": 0.0, "mib": -1.0})
    reader.number("cpus", least=0.01)
    reader.integer("mib", least=4)
    assert reader.mistakes == [
        Mistake("cpus", "it is 0; at least 0.01 is wanted"),
        Mistake("mib", "it is -1; at least 4 is wanted"),
    ]


def test_what_is_not_known_yet_is_no_mistake() -> None:
    reader = Reader({"name": UNKNOWN, "aliases": ["a", UNKNOWN], "by": {"a": UNKNOWN}, "mib": UNKNOWN})
    reader.text("name")
    reader.texts("aliases")
    reader.texts_by_name("by")
    reader.integer("mib", least=4)
    assert reader.has_unknowns
    assert reader.mistakes == []


@given(st.dictionaries(st.sampled_from("abcdefg"), _PLAIN))
def test_nothing_that_a_program_gives_breaks_the_reader(inputs: dict[str, Any]) -> None:
    reader = Reader(inputs)
    assert isinstance(reader.text("a"), str)
    assert isinstance(reader.number("b", least=0), float)
    assert isinstance(reader.integer("c"), int)
    assert isinstance(reader.flag("d", False), bool)
    assert all(isinstance(each, str) for each in reader.texts("e"))
    for below in reader.maps("f"):
        below.text("a")
    reader.texts_by_name("g")
    reader.refuse_others()


@given(_PLAIN)
def test_values_come_back_from_the_wire(value: Any) -> None:
    from pulumi.provider.experimental.property_value import PropertyValue

    assert plain(PropertyValue.unmarshal(property_value(value).marshal())) == value


def test_secrets_are_told_as_secrets() -> None:
    assert property_value({"a": "b"}, secret=True).is_secret
    assert plain(property_value("x", secret=True)) == "x"
