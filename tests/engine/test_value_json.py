from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine import json_text
from tidepool.engine.value_json import (
    SIGNATURE_KEY,
    UNKNOWN_STRING,
    MalformedValue,
    contains_byte_strings,
    decode_value,
    encode_value,
)
from tidepool.engine.values import UNKNOWN, Archive, Asset, Output, ResourceReference, Secret

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda t: t != UNKNOWN_STRING)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=True)
ASSETS = st.builds(lambda text: Asset("ab" * 32, text=text), TEXTS.filter(bool)) | st.builds(
    lambda path: Asset("cd" * 32, path=path), TEXTS.filter(bool)
)
ARCHIVES = st.builds(lambda members: Archive("ef" * 32, members), st.dictionaries(TEXTS, ASSETS, max_size=3))
REFERENCES = st.builds(ResourceReference, TEXTS, st.none() | TEXTS, TEXTS)
ATOMS = st.none() | st.booleans() | NUMBERS | TEXTS | ASSETS | ARCHIVES | REFERENCES | st.just(UNKNOWN)


def _within(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    unnested = children.filter(lambda v: not isinstance(v, Secret))
    keys = TEXTS.filter(lambda k: k != SIGNATURE_KEY)
    return (
        st.lists(children, max_size=4)
        | st.dictionaries(keys, children, max_size=4)
        | st.builds(Secret, unnested)
    )


VALUES = st.recursive(ATOMS, _within, max_leaves=20)


def _encrypt(plaintext: str) -> str:
    return "sealed:" + plaintext[::-1]


def _decrypt(ciphertext: str) -> str:
    return ciphertext.removeprefix("sealed:")[::-1]


@given(VALUES)
def test_a_value_survives_the_way_through_a_file(value: Any) -> None:
    text = json_text.dumps(encode_value(value, _encrypt))
    assert decode_value(json_text.loads(text.encode()), _decrypt) == value


@given(VALUES)
def test_encoding_what_was_decoded_gives_the_same_text(value: Any) -> None:
    text = json_text.dumps(encode_value(value, _encrypt))
    again = encode_value(decode_value(json_text.loads(text.encode()), _decrypt), _encrypt)
    assert json_text.dumps(again) == text


@pytest.mark.parametrize(
    ("number", "text"),
    # What Go prints for the same float64.
    [
        (2.0, "2"),
        (-3.0, "-3"),
        (2.5, "2.5"),
        (1e20, "100000000000000000000"),
        (12345678901234567890, "12345678901234567000"),
        (-12345678901234567890.0, "-12345678901234567000"),
        (2**53 + 2, "9007199254740994"),
        (1e21, "1e+21"),
        (1e300, "1e+300"),
        (0.1, "0.1"),
    ],
)
def test_numbers_are_written_as_go_writes_them(number: float, text: str) -> None:
    assert json_text.dumps(encode_value(number, _encrypt)) == text


def test_not_a_number_keeps_its_bits() -> None:
    encoded = encode_value(math.nan, _encrypt)
    assert encoded == {SIGNATURE_KEY: "8ad145fe-0d11-4827-bfd7-1abcbf086f5c", "value": "7ff8000000000000"}
    assert math.isnan(decode_value(encoded, _decrypt))


def test_a_secret_within_a_secret_is_marked_but_sealed_once() -> None:
    value = Secret({"a": Secret("x")})
    encoded = encode_value(value, _encrypt)
    assert encoded["ciphertext"].count("sealed") == 1
    assert decode_value(encoded, _decrypt) == value


def test_the_text_that_is_encrypted_has_gos_escapes() -> None:
    plaintexts: list[str] = []

    def noted(plaintext: str) -> str:
        plaintexts.append(plaintext)
        return "sealed"

    encode_value(Secret({"b": "<&>\u2028é", "a": 1.0}), noted)
    assert plaintexts == ['{"a":1,"b":"\\u003c\\u0026\\u003e\\u2028é"}']


def test_an_integer_that_no_float64_holds_equals_what_a_program_sends() -> None:
    # Found by hypothesis: Python compares int and float exactly, and 61168516191587310 is no float64.
    assert decode_value([61168516191587310, {"n": 12345678901234567000}], _decrypt) == [
        61168516191587310.0,
        {"n": 12345678901234567890.0},
    ]
    with pytest.raises(MalformedValue, match="too large for a float64"):
        decode_value(10**400, _decrypt)


def test_an_output_is_kept_as_what_it_holds() -> None:
    assert encode_value(Output("x", dependencies=("urn",)), _encrypt) == "x"
    assert encode_value(Output(UNKNOWN), _encrypt) == UNKNOWN_STRING
    assert decode_value(encode_value(Output("x", secret=True), _encrypt), _decrypt) == Secret("x")


def test_bytes_that_are_not_text_survive() -> None:
    value = b"\xff\x00a".decode("utf-8", "surrogateescape")
    encoded = encode_value([value], _encrypt)
    assert encoded == [{SIGNATURE_KEY: "803fd3297a5875dc03ca845dda5d2a98", "value": "/wBh"}]
    assert decode_value(encoded, _decrypt) == [value]
    assert contains_byte_strings({"a": Secret([value])})
    assert not contains_byte_strings({"a": Secret(["é"])})


def test_nothing_plain_is_copied() -> None:
    value = {"a": [1, {"b": "x"}], "c": None}
    assert decode_value(value, _decrypt) is value
    assert encode_value(value, _encrypt) is value


def test_what_is_encoded_is_not_changed() -> None:
    value = {"b": 2.0, "a": [Secret("x")]}
    encode_value(value, _encrypt)
    assert value == {"b": 2.0, "a": [Secret("x")]}
    assert list(value) == ["b", "a"]


def test_an_id_written_by_a_cli_with_a_bug_is_understood() -> None:
    raw = {SIGNATURE_KEY: "5cf8f73096256a8f31e491e813e4eb8e", "urn": "u", "packageVersion": "1"}
    assert decode_value(raw | {"id": {"V": "i"}}, _decrypt) == ResourceReference("u", "i", "1")
    assert decode_value(raw | {"id": {"V": None}}, _decrypt) == ResourceReference("u", None, "1")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({SIGNATURE_KEY: "of the future"}, "signature 'of the future'"),
        ({SIGNATURE_KEY: "1b47061264138c4ac30d75fd1eb44270"}, "exactly one of"),
        (
            {SIGNATURE_KEY: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "a", "plaintext": "b"},
            "exactly one of",
        ),
        ({SIGNATURE_KEY: "5cf8f73096256a8f31e491e813e4eb8e"}, "missing urn"),
        ({SIGNATURE_KEY: "8ad145fe-0d11-4827-bfd7-1abcbf086f5c", "value": 1}, "hexadecimal"),
    ],
)
def test_what_cannot_be_understood_is_refused(raw: Any, message: str) -> None:
    with pytest.raises(MalformedValue, match=message):
        decode_value(raw, _decrypt)


def test_a_broken_secret_is_not_shown() -> None:
    raw = {SIGNATURE_KEY: "1b47061264138c4ac30d75fd1eb44270", "plaintext": '"hunter2'}
    with pytest.raises(MalformedValue) as caught:
        decode_value(raw, _decrypt)
    assert "hunter2" not in f"{caught.value}{caught.value.__cause__}"


def test_the_place_of_damage_is_named() -> None:
    with pytest.raises(json_text.JsonDamage, match="line 2, column 6"):
        json_text.loads(b'{\n"a": }')
    with pytest.raises(json_text.JsonDamage, match="line 2, column 2: not UTF-8"):
        json_text.loads(b'{\n"\xff": 1}')
    with pytest.raises(json_text.JsonDamage, match="empty"):
        json_text.loads(b"")
    with pytest.raises(json_text.JsonDamage, match="zero bytes"):
        json_text.loads(b"\0" * 100)
