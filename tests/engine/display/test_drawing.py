"""How values, texts and numbers are drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.display import streams
from tidepool.engine.display import difference, markup, step_text, texts, words
from tidepool.engine.display.property_text import Pen
from tidepool.engine.display.settings import Settings
from tidepool.engine.events import Op, PropertyDiff
from tidepool.engine.values import UNKNOWN, Archive, Asset, Properties, ResourceReference, Secret

SETTINGS = Settings("preview", True, "dev", "proj")


def changed(old: Properties, new: Properties) -> list[str]:
    out: list[str] = []
    changes = difference.of_objects(old, new)
    assert changes is not None
    Pen(out, 1, signs=True).changes(changes)
    return markup.plain("".join(out)).splitlines()


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (1, 2, ["  ~ k: 1 => 2"]),
        (True, 1, ["  ~ k: true => 1"]),
        ("a\tb", 'a"b', ['  ~ k: "a\\tb" => "a\\"b"']),
        (UNKNOWN, "x", ['  ~ k: [unknown] => "x"']),
        ("x", Secret("[secret]"), ['  ~ k: "x" => [secret]']),
        ([1], {"a": 1}, ["  - k: [", "  -     [0]: 1", "    ]", "  + k: {", "      + a: 1", "    }"]),
        ([1, 2], [1], ["  ~ k: [", "        [0]: 1", "      - [1]: 2", "    ]"]),
        ("one\ntwo\n", "one\n2\n", ["  ~ k: ", "        one", "      - two", "      + 2"]),
        (
            '{"a": [1], "b": 2}',
            '{"a": [1, 3], "b": 2}',
            [
                "  ~ k: (json) {",
                "      ~ a: [",
                "            [0]: 1",
                "          + [1]: 3",
                "        ]",
                "        b: 2",
                "    }",
            ],
        ),
        ("a: 1\nb: 2", "a: 1\nb: 3", ["  ~ k: (yaml) {", "        a: 1", "      ~ b: 2 => 3", "    }"]),
        (
            Asset("0123456789", path="a"),
            Asset("9876543210", path="b"),
            ["  - k: asset(file:0123456) { a }", "  + k: asset(file:9876543) { b }"],
        ),
        (
            Archive("aa", {"x": Asset("1", text="t"), "y": Asset("2", path="p")}),
            Archive("bb", {"x": Asset("1", text="t"), "y": Asset("3", path="p")}),
            ["  ~ k: archive(assets:aa->bb) {", '      ~ "y": asset(file:2->3) { p }', "    }"],
        ),
    ],
)
def test_a_change_is_drawn(old: object, new: object, lines: list[str]) -> None:
    assert changed({"k": old}, {"k": new}) == lines


def test_null_is_no_value() -> None:
    assert changed({"a": None, "b": 1, "c": None}, {"a": 1, "b": None}) == ["  + a: 1", "  - b: 1"]
    assert difference.of_objects({"a": None, "__x": 1}, {"__x": 2}) is None


def test_a_reference_is_drawn_with_what_it_points_to() -> None:
    out: list[str] = []
    Pen(out, 1).object({"r": ResourceReference("urn:pulumi:s::p::t::n", UNKNOWN)})
    assert markup.plain("".join(out)).splitlines() == [
        "    r: {",
        '        URN: "urn:pulumi:s::p::t::n"',
        "        ID : [unknown]",
        '        PackageVersion: ""',
        "    }",
    ]


def detailed(
    paths: dict[str, str], old: Properties, new: Properties, hide: tuple[str, ...] = ()
) -> list[str]:
    diff = {path: PropertyDiff(kind, input_diff=True) for path, kind in paths.items()}  # type: ignore[arg-type]
    urn = streams.server("web")
    step = streams.step(
        Op.UPDATE,
        streams.state(urn, old, id="i"),
        streams.state(urn, new, hide_diff=hide),
        detailed_diff=diff,
    )
    text = step_text.difference_of(step, 0, SETTINGS, refresh=False)
    return markup.plain(text).splitlines()[3:]


def test_a_detailed_diff_is_drawn_as_the_provider_gave_it() -> None:
    old = {"a": {"b": 1, "c": 1}, "l": [1, 2], "same": 1, "gone": 1}
    new = {"a": {"b": 2, "c": 1}, "l": [1, 3], "same": 1, "more": {"x": 1}}
    paths = {"a.b": "update", "l[1]": "update-replace", "gone": "delete", "more.x": "add"}
    assert detailed(paths, old, new) == [
        "  ~ a   : {",
        "      ~ b: 1 => 2",
        "    }",
        "  - gone: 1",
        "  ~ l   : [",
        "      ~ [1]: 2 => 3",
        "    ]",
        "  + more: {",
        "      + x: 1",
        "    }",
    ]


def test_a_hidden_difference_is_only_named() -> None:
    lines = detailed(
        {"a.b": "update", "c": "update"}, {"a": {"b": 1}, "c": 1}, {"a": {"b": 2}, "c": 2}, ("a",)
    )
    assert lines == ["  ~ a (hidden)", "  ~ c: 1 => 2"]


def test_a_path_that_is_none_is_taken_for_a_key() -> None:
    assert detailed({"a[": "update"}, {"a[": 1}, {"a[": 2}) == ["  ~ a[: 1 => 2"]


def test_a_changed_provider_and_protection_are_in_the_header() -> None:
    urn = streams.server("web")
    step = streams.step(Op.DELETE, streams.state(urn, id="i-1", protect=True), None)
    text = markup.plain(step_text.header(step, 0, SETTINGS))
    assert text == f"- cloud:index/server:Server: (delete) 🔒\n    [id=i-1]\n    [urn={urn}]\n"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (10_000_000.0, "10000000"),
        (1.5, "1.5"),
        (-0.25, "-0.25"),
        (123456.5, "123456.5"),
        (1234567.5, "1.2345675e+06"),
        (0.00001, "1e-05"),
        (2**70, str(2**70)),
    ],
)
def test_numbers(number: float, text: str) -> None:
    assert texts.number(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_s_text_is_the_number(number: float) -> None:
    assert float(texts.number(number)) == number


def test_long_texts_are_cut() -> None:
    assert texts.truncated("a\nb\nc") == "a\nb\nc"
    assert texts.truncated("a\nb\nc\nd") == "a\nb\nc\n..."
    assert texts.truncated("x" * 151) == "x" * 150 + "..."


@pytest.mark.parametrize(
    "text", ["plain", "foo: bar", "1", '"x"', "{", "[1", "a: b: c\nd", "- a\n- b: [", "1: x\n[2]: y"]
)
def test_what_holds_no_structure_is_text(text: str) -> None:
    assert texts.structured(text) is None


def test_what_holds_structure() -> None:
    assert texts.structured(' {"a": [1]} ') == ({"a": [1]}, "json")
    assert texts.structured("a:\n  1: x\n") == ({"a": {"1": "x"}}, "yaml")


@given(st.text("ab\n", max_size=12), st.text("ab\n", max_size=12))
def test_the_runs_of_two_texts_are_the_texts(old: str, new: str) -> None:
    for runs in (texts.by_character(old, new), texts.by_line(old, new)):
        assert "".join(text for kind, text in runs if kind != "add") == old
        assert "".join(text for kind, text in runs if kind != "delete") == new


def test_markup_becomes_colours_or_nothing() -> None:
    text = "<{%fg 1%}>red<{%reset%}> <{%underline%}>line<{%unheard of%}>, <{%cut off"
    assert markup.plain(text) == "red line, "
    assert markup.render(text, color=True) == "\x1b[38;5;1mred\x1b[0m \x1b[4mline, "


def test_every_operation_has_its_words() -> None:
    for op in Op:
        assert len(words.sign(op)) == 2
        assert words.counted(op, is_preview=False)
        for word in (
            words.under_way(op),
            words.done(op, failed=True),
            words.planned(op, complete=True),
            words.color(op),
        ):
            assert isinstance(word, str)


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("aws:s3/bucket:Bucket", "aws:s3:Bucket"),
        ("aws:s3/bucketV2:BucketV2", "aws:s3:BucketV2"),
        ("aws:s3/other:Bucket", "aws:s3/other:Bucket"),
        ("pulumi:pulumi:Stack", "pulumi:pulumi:Stack"),
        ("strange", "strange"),
        ("a:b/c:C:d", "a:b/c:C:d"),
    ],
)
def test_types_are_shortened(token: str, text: str) -> None:
    assert words.display_type(token) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59, "59s"), (61, "1m1s"), (3603, "1h0m3s")])
def test_durations(seconds: int, text: str) -> None:
    assert words.duration(seconds) == text
