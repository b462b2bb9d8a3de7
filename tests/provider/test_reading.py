"""Inputs are read with all their mistakes at once, and what is not known yet is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any, Literal

import pytest
from google.protobuf.struct_pb2 import Value
from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster.boot import Variables
from tidepool.resources.model import Field, Model, condition, output, to_wire
from tidepool.resources.model import given as declared
from tidepool.resources.reading import differences, read
from tidepool.resources.values import UNKNOWN, has_secret, plain, property_value

_TEXT = st.text("a/.-ü0", max_size=5)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | _TEXT | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)


@dataclass(frozen=True)
class Below:
    """A part of a model."""

    name: str
    mode: str = "0644"
    cpus: float = field(default=1.0, metadata={"least": 1})
    environment: Variables = ()


class Example(Model):
    """A model with a property of each type."""

    name: Field[str] = declared()
    cpus: Field[float] = declared(least=0.01)
    mib: Field[int] = declared(default=4, least=4)
    keep: Field[bool] = declared(default=False)
    aliases: Field[Sequence[str]] = declared(default=())
    by_name: Field[Mapping[str, str]] = declared(default={})
    anything: Field[Mapping[str, Any]] = declared(default={})
    side: Field[Literal["left", "right"]] = declared(default="left")
    cidr: Field[IPv4Network | None] = declared(default=None)
    parts: Field[Sequence[Below]] = declared(default=())
    files: Field[Sequence[Below]] = declared(default=(), keyed_by="name")
    state: Field[str] = condition("well")
    made: Field[str] = output()


_LEAST = {"name": "cpu-1", "cpus": 1.5}


def _mistakes(inputs: dict[str, Any]) -> dict[str, str]:
    return {mistake.property: mistake.reason for mistake in read(Example, inputs, strict=True).mistakes}


def test_what_is_right_is_read_as_it_is() -> None:
    files = {"b": {"mode": "0600"}, "a": {"environment": {"B": "2", "A": "1"}}}
    found = read(
        Example,
        {
            **_LEAST,
            "mib": 64.0,
            "keep": True,
            "aliases": ["a"],
            "byName": {"a": "b"},
            "side": "right",
            "cidr": "10.0.0.0/8",
            "parts": [{"name": "x", "cpus": 2.0}],
            "files": files,
            "__defaults": [],
        },
        strict=True,
    )
    assert (found.mistakes, found.has_unknowns) == ((), False)
    assert found.value == Example(
        name="cpu-1",
        cpus=1.5,
        mib=64,
        keep=True,
        aliases=("a",),
        by_name={"a": "b"},
        side="right",
        cidr=IPv4Network("10.0.0.0/8"),
        parts=(Below("x", cpus=2.0),),
        files=(Below("a", environment=(("A", "1"), ("B", "2"))), Below("b", "0600")),
    )
    assert type(found.value.mib) is int


def test_what_is_left_out_is_as_its_default_and_outputs_are_read_where_they_are() -> None:
    left_out, made = read(Example, _LEAST).value, read(Example, {**_LEAST, "made": "there"}).value
    assert (left_out.mib, left_out.aliases, left_out.state, left_out.made) == (4, (), "well", "")
    assert made.made == "there"
    assert left_out != made


def test_all_mistakes_are_told_each_with_its_key_the_value_and_what_is_wanted() -> None:
    assert _mistakes(
        {
            "name": 3.0,
            "cpus": True,
            "mib": 4.5,
            "keep": "yes",
            "aliases": ["a", 7.0],
            "byName": [],
            "side": "up",
            "cidr": "10.0.0.1/8",
            "made": "by a program",
            "colour": "red",
        }
    ) == {
        "name": "it is 3; a text is wanted",
        "cpus": "it is true; a number is wanted",
        "mib": "it is 4.5; a whole number is wanted",
        "keep": "it is 'yes'; true or false is wanted",
        "aliases[1]": "it is 7; a text is wanted",
        "byName": "it is a list; a map is wanted",
        "side": "it is 'up'; allowed are 'left', 'right'",
        "cidr": "it is '10.0.0.1/8' (10.0.0.1/8 has host bits set); a range of IPv4 is wanted",
        **dict.fromkeys(
            ("colour", "made"),
            "there is no such input; known are aliases, anything, byName, cidr, cpus, files, keep, mib, name, parts, "
            "side, state",
        ),
    }
    assert _mistakes({"name": ""}) == {"name": "it is empty", "cpus": "it is missing; a number is wanted"}


def test_mistakes_below_are_told_with_their_whole_path() -> None:
    assert _mistakes(
        {
            **_LEAST,
            "parts": [{"name": "a"}, {"name": 1.0}, {"cpus": 0.0, "colour": "red"}],
            "files": {"/etc/x": {"mode": 4.0}, "/etc/y": "text"},
        }
    ) == {
        "parts[1].name": "it is 1; a text is wanted",
        "parts[2].colour": "there is no such input; known are cpus, environment, mode, name",
        "parts[2].name": "it is missing; a text is wanted",
        "parts[2].cpus": "it is 0; at least 1 is wanted",
        "files./etc/x.mode": "it is 4; a text is wanted",
        "files./etc/y": "it is 'text'; a map is wanted",
    }


def test_numbers_have_a_least() -> None:
    assert _mistakes({"name": "a", "cpus": 0.0, "mib": -1.0}) == {
        "cpus": "it is 0; at least 0.01 is wanted",
        "mib": "it is -1; at least 4 is wanted",
    }


def test_what_is_not_known_yet_is_no_mistake() -> None:
    unknown = {"name": UNKNOWN, "cpus": UNKNOWN, "aliases": ["a", UNKNOWN], "byName": {"a": UNKNOWN}}
    found = read(Example, {**unknown, "mib": UNKNOWN, "parts": [{"name": UNKNOWN}], "files": UNKNOWN})
    assert found.has_unknowns
    assert found.mistakes == ()


@given(st.dictionaries(st.sampled_from(sorted(each.wire for each in Example.properties.values())), _PLAIN))
def test_nothing_that_a_program_gives_breaks_the_reader(inputs: dict[str, Any]) -> None:
    value = read(Example, inputs, strict=True).value
    assert isinstance(value.name, str)
    assert isinstance(value.cpus, float)
    assert isinstance(value.mib, int)
    assert isinstance(value.keep, bool)
    assert all(isinstance(each, str) for each in value.aliases)


def test_what_is_stored_is_read_as_it_was() -> None:
    part = Below("x", cpus=2.0)
    assert to_wire(part) == {"name": "x", "cpus": 2.0}
    assert read(Below, to_wire(part)).value == part


def test_a_value_is_frozen_and_does_not_print_secrets() -> None:
    class Secret(Model):
        """A model with a secret."""

        key: Field[str] = declared(secret=True)
        name: Field[str] = declared()

    value = Secret(key="s.3cret", name="it")
    assert repr(value).endswith("Secret(name='it')")
    with pytest.raises(AttributeError, match="frozen"):
        value.name = "other"
    with pytest.raises(TypeError, match="needs name"):
        Secret(key="a")  # type: ignore[call-arg]


def test_a_difference_is_one_of_what_is_meant() -> None:
    old = {**_LEAST, "files": {"a": {"mode": "0644"}}, "aliases": []}
    assert differences(Example, old, {**_LEAST, "files": {"a": {}}, "state": "well", "keep": False}) == ()
    (change,) = differences(Example, old, {**old, "files": {"a": {"mode": "0600"}}})
    assert change.key == "files"


@given(_PLAIN)
def test_values_come_back_from_the_wire(value: Any) -> None:
    assert plain(Value.FromString(property_value(value).SerializeToString())) == value


def test_secrets_are_told_as_secrets() -> None:
    assert has_secret(property_value({"a": "b"}, secret=True))
    assert plain(property_value("x", secret=True)) == "x"
