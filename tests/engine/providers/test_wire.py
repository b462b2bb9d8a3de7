from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine import value_json, wire
from tidepool.engine.value_json import SIGNATURE_KEY
from tidepool.engine.values import (
    UNKNOWN,
    Archive,
    Asset,
    Output,
    ResourceReference,
    Secret,
    contains_secrets,
    contains_unknowns,
    specials,
    without_outputs,
    without_secrets,
)
from tidepool.engine.wire import WireError

URN = "urn:pulumi:dev::p::a:b:C::n"

_texts = st.text().filter(lambda t: t not in wire.UNKNOWN_STRINGS)
_keys = st.text(max_size=8).filter(lambda k: k != SIGNATURE_KEY)
_hashes = st.sampled_from(["", "0" * 64])
_assets = st.one_of(
    st.builds(Asset, _hashes, path=st.text(min_size=1)),
    st.builds(Asset, _hashes, uri=st.text(min_size=1)),
    st.builds(Asset, _hashes, text=st.text(min_size=1)),
)
_archives = st.one_of(
    st.builds(Archive, _hashes, path=st.text(min_size=1)),
    st.builds(Archive, _hashes, assets=st.dictionaries(_keys, _assets, max_size=3)),
)
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False),
    _texts,
    st.just(UNKNOWN),
    _assets,
    _archives,
    st.builds(
        ResourceReference,
        st.just(URN),
        st.sampled_from([None, UNKNOWN, "i-1"]),
        st.sampled_from(["", "1.2.3"]),
    ),
)


def _secret(value: Any) -> Any:
    return value if isinstance(value, Secret) else Secret(value)


def _extend(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(_keys, children, max_size=3),
        st.builds(_secret, children),
        st.builds(Output, children, st.booleans(), st.sampled_from([(), (URN,)])),
    )


_properties = st.dictionaries(_keys, st.recursive(_leaves, _extend, max_leaves=8), max_size=4)


@given(_properties)
def test_what_is_sent_with_everything_kept_comes_back_as_it_was(properties: dict[str, Any]) -> None:
    assert wire.from_struct(wire.to_struct(properties, outputs=True)) == properties


@given(_properties)
def test_without_outputs_what_they_hold_is_sent(properties: dict[str, Any]) -> None:
    sent = wire.from_struct(wire.to_struct(properties))
    assert not any(isinstance(v, Output) for v in specials(sent))
    assert without_secrets(sent) == without_secrets(without_outputs(properties))
    assert contains_secrets(sent) == contains_secrets(properties)


@given(_properties)
def test_what_a_receiver_does_not_understand_is_not_sent(properties: dict[str, Any]) -> None:
    message = wire.to_struct(properties, secrets=False, resources=False, unknowns=False)
    received = wire.from_struct(message)
    assert not contains_secrets(received)
    assert not contains_unknowns(received)
    assert not any(isinstance(v, ResourceReference) for v in specials(received))


def test_whole_numbers_come_back_as_integers() -> None:
    message = wire.to_struct({"a": 3.0, "b": 3.5, "c": 1e300, "d": True})
    received = wire.from_struct(message)
    assert {k: type(v) for k, v in received.items()} == {"a": int, "b": float, "c": float, "d": bool}


@pytest.mark.parametrize("sentinel", sorted(wire.UNKNOWN_STRINGS))
def test_every_kind_of_unknown_is_understood(sentinel: str) -> None:
    message = struct_pb2.Struct()
    message.fields["v"].string_value = sentinel
    message.fields["l"].list_value.values.add().string_value = sentinel
    assert wire.from_struct(message) == {"v": UNKNOWN, "l": [UNKNOWN]}
    assert wire.Decoder(unknowns=False).properties(message) == {"l": [None]}
    with pytest.raises(WireError, match="unknown"):
        wire.Decoder(reject_unknowns=True).properties(message)


def test_unknown_items_of_a_list_are_left_out() -> None:
    message = wire.to_struct({"l": [1, UNKNOWN, 2], "n": None, "o": {"n": UNKNOWN}}, unknowns=False)
    assert wire.from_struct(message) == {"l": [1, 2], "n": None, "o": {}}


def test_a_reference_becomes_its_id_or_else_its_urn() -> None:
    custom = ResourceReference(URN, "i-1")
    component = ResourceReference(URN)
    assert wire.from_struct(wire.to_struct({"a": custom, "b": component}, resources=False)) == {
        "a": "i-1",
        "b": URN,
    }
    kept = wire.to_struct({"a": custom, "b": component})
    assert kept.fields["a"].struct_value.fields["name"].string_value == "n"
    assert kept.fields["a"].struct_value.fields["type"].string_value == "a:b:C"


def test_elided_assets_keep_their_hash_only() -> None:
    properties = {"a": Asset("1" * 64, text="long"), "z": Archive("2" * 64, assets={"x": Asset(text="y")})}
    received = wire.from_struct(wire.Encoder(elide_assets=True).struct(properties))
    assert received == {"a": Asset("1" * 64), "z": Archive("2" * 64)}


def test_an_empty_text_is_told_from_one_that_was_left_out() -> None:
    properties = {
        "a": Asset(value_json.EMPTY_ASSET_HASH, text=""),
        "z": Archive(wire.EMPTY_ARCHIVE_HASH, assets={}),
    }
    assert wire.from_struct(wire.Encoder(elide_assets=True).struct(properties)) == properties


def test_byte_strings_are_refused_where_the_receiver_cannot_take_them() -> None:
    raw = b"\xff\x00\xfe".decode("utf-8", "surrogateescape")
    with pytest.raises(WireError, match="'v' is a string that contains non-UTF8 bytes"):
        wire.to_struct({"v": raw})
    message = wire.Encoder(byte_strings=True).struct({"v": raw, "l": [raw]})
    assert wire.from_struct(message) == {"v": raw, "l": [raw]}


@pytest.mark.parametrize(
    ("signed", "complaint"),
    [
        ({SIGNATURE_KEY: value_json.SECRET_SIGNATURE}, "malformed secret: 'value' is missing"),
        ({SIGNATURE_KEY: value_json.RESOURCE_REFERENCE}, "malformed resource reference: 'urn' is missing"),
        ({SIGNATURE_KEY: value_json.RESOURCE_REFERENCE, "urn": URN, "id": 5}, "'id' is not a string"),
        ({SIGNATURE_KEY: wire.OUTPUT_SIGNATURE, "secret": "yes"}, "'secret' is not a bool"),
        ({SIGNATURE_KEY: wire.OUTPUT_SIGNATURE, "dependencies": [3]}, "not a list of URNs"),
        ({SIGNATURE_KEY: value_json.ASSET, "path": 3}, "malformed asset: 'path' is not a string"),
        ({SIGNATURE_KEY: value_json.ARCHIVE, "assets": {"a": "b"}}, "'a' is not an asset or archive"),
        ({SIGNATURE_KEY: value_json.BYTE_STRING, "value": "%"}, "not valid base64"),
        ({SIGNATURE_KEY: "of-no-kind"}, "unrecognized signature 'of-no-kind'"),
    ],
)
def test_messages_that_break_the_protocol_are_refused(signed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        wire.from_struct(wire.to_struct({"v": signed}))


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"])
def test_what_is_no_property_value_is_not_sent(value: object) -> None:
    with pytest.raises(WireError, match="is not a property value"):
        wire.to_struct({"v": value})


def test_names_must_be_strings_and_numbers_must_fit() -> None:
    with pytest.raises(WireError, match="names must be strings"):
        wire.to_struct({"o": {5: 1}})
    with pytest.raises(WireError, match="too large"):
        wire.to_struct({"v": 10**400})
