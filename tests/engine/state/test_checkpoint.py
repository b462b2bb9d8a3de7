from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.engine.state import recordings
from tidepool.engine import json_text
from tidepool.engine.resource import (
    CustomTimeouts,
    MalformedCheckpoint,
    PendingOperation,
    ResourceState,
    Snapshot,
    decode_resource,
    encode_resource,
)
from tidepool.engine.state.checkpoint import (
    ENGINE_VERSION,
    UnsupportedCheckpoint,
    decode_deployment,
    encode_deployment,
    encode_untyped,
    features_of,
    magic_of,
    rfc3339,
    unwrap_checkpoint,
    wrap_checkpoint,
)
from tidepool.engine.state.references import IntegrityError, verify_integrity
from tidepool.engine.state.secrets import Blind, NoSecrets, PassphraseCrypter
from tidepool.engine.values import Archive, Asset, Secret, contains_secrets

NOW = datetime(2026, 11, 21, 10, 30, 40, 120000, tzinfo=UTC)
URN = "urn:pulumi:dev::recorded::"
STACK = ResourceState(f"{URN}pulumi:pulumi:Stack::recorded-dev", "pulumi:pulumi:Stack", custom=False)
PROVIDER = ResourceState(f"{URN}pulumi:providers:p::default", "pulumi:providers:p", custom=True, id="1")


def thing(name: str, **fields: Any) -> ResourceState:
    known: dict[str, Any] = {
        "custom": True,
        "provider": f"{PROVIDER.urn}::1",
        "id": name,
        "parent": STACK.urn,
    }
    return ResourceState(f"{URN}p:index:Thing::{name}", "p:index:Thing", **(known | fields))


@pytest.mark.parametrize("stack", recordings.STACKS)
def test_what_the_cli_wrote_is_written_back_byte_for_byte(
    stack: str, crypters: dict[str, PassphraseCrypter]
) -> None:
    recorded = recordings.file_of(stack).read_bytes()
    document = json_text.loads(recorded)
    snapshot = decode_deployment(document["checkpoint"]["latest"], crypters[stack])
    verify_integrity(snapshot)
    untyped = encode_untyped(snapshot, crypters[stack], NOW)
    written = wrap_checkpoint(f"organization/recorded/{stack}", untyped)
    # Only what names the moment and the writer differs, ...
    written["checkpoint"]["latest"]["manifest"] = document["checkpoint"]["latest"]["manifest"]
    # ... and Python's spelling of very small numbers.
    assert json_text.dumps(written).replace("1e-07", "1e-7").encode() == recorded


def test_what_was_recorded_is_understood(crypters: dict[str, PassphraseCrypter]) -> None:
    document = json.loads(recordings.file_of("whole").read_text(encoding="utf-8"))
    snapshot = decode_deployment(document["checkpoint"]["latest"], crypters["whole"])
    by_name = {state.urn.rsplit("::", 1)[1]: state for state in snapshot.resources}
    a, b, hidden = by_name["a"], by_name["b"], by_name["hidden"]
    assert a.outputs["token"] == Secret({"user": "root", "password": "s3cr3t<&>"})
    assert a.outputs["text"] == "<a href='x'>&amp;\u2028é😀\u0001\u007f</a>"
    assert a.outputs["plain"] == Secret("x")
    assert a.custom_timeouts == CustomTimeouts(create_s=300, delete_s=90)
    assert a.replace_on_changes == ("bar", "baz[0]", "version")
    assert b.retain_on_delete
    assert b.protect
    assert b.deleted_with == a.urn
    assert b.dependencies == (a.urn,)
    doc, archive = b.inputs["doc"], b.inputs["archive"]
    assert isinstance(doc, Asset)
    assert doc.text == "hello <world>"
    assert isinstance(archive, Archive)
    assert archive.assets is not None
    assert isinstance(archive.assets["sub"], Archive)
    assert hidden.hide_diff == ("plain", "nested.deep[0]")
    assert hidden.replacement_trigger == "t1"
    assert hidden.replace_with == (a.urn,)
    assert "" in a.stack_trace  # frames without a position are kept


def test_a_step_that_was_cut_off_is_pending(crypters: dict[str, PassphraseCrypter]) -> None:
    document = json.loads(recordings.file_of("cut").read_text(encoding="utf-8"))
    snapshot = decode_deployment(document["checkpoint"]["latest"], crypters["cut"])
    (pending,) = snapshot.pending_operations
    assert pending.type == "creating"
    assert pending.resource.inputs["slow"] is True


def test_an_unchanged_secret_keeps_its_ciphertext_and_a_new_equal_one_gets_its_own(
    crypters: dict[str, PassphraseCrypter],
) -> None:
    crypter = crypters["empty"]
    two = (thing("a", inputs={"s": Secret("x")}), thing("b", inputs={"s": Secret("x")}))
    snapshot = Snapshot((STACK, PROVIDER, *two))
    first = encode_deployment(snapshot, crypter, NOW)["resources"]
    ciphertexts = [r["inputs"]["s"]["ciphertext"] for r in first[2:]]
    assert len(set(ciphertexts)) == 2
    assert encode_deployment(snapshot, crypter, NOW)["resources"] == first
    more = replace(snapshot, resources=(*snapshot.resources, thing("c", inputs={"s": Secret("x")})))
    third = encode_deployment(more, crypter, NOW)["resources"]
    assert third[:4] == first
    assert third[4]["inputs"]["s"]["ciphertext"] not in ciphertexts


def test_unknown_keys_are_kept() -> None:
    raw = {"urn": STACK.urn, "custom": False, "type": STACK.type, "ofTheFuture": {"a": [1]}, "andMore": "x"}
    state = decode_resource(raw, NoSecrets().decrypt)
    assert state.unknown_fields == {"ofTheFuture": {"a": [1]}, "andMore": "x"}
    assert encode_resource(state, NoSecrets().encrypt) == raw
    deployment = {"manifest": {}, "resources": [raw], "metadata": {"integrity_error": {"error": "e"}}, "x": 1}
    encoded = encode_deployment(decode_deployment(deployment, NoSecrets()), NoSecrets(), NOW)
    assert encoded["metadata"] == {"integrity_error": {"error": "e"}}
    assert encoded["x"] == 1
    assert encoded["resources"] == [raw]


def test_the_manifest_says_who_wrote_it_and_when() -> None:
    manifest = encode_deployment(Snapshot(), NoSecrets(), NOW)["manifest"]
    assert manifest == {
        "time": "2026-11-21T10:30:40.12Z",
        "magic": magic_of(ENGINE_VERSION),
        "version": "v3.260.0",
    }
    assert rfc3339(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-01T00:00:00Z"


def test_features_raise_the_version() -> None:
    plain = Snapshot((STACK, PROVIDER, thing("a")))
    assert encode_untyped(plain, NoSecrets(), NOW)["version"] == 3
    states = (
        thing("b", refresh_before_update=True),
        thing("c", view_of=f"{URN}p:index:Thing::a"),
        thing("d", taint=True, replace_with=(f"{URN}p:index:Thing::a",)),
        thing("e", resource_hooks={"beforeCreate": ("h",)}, inputs={"b": "\udcff"}),
    )
    rich = replace(plain, resources=(*plain.resources, *states))
    encoded = encode_untyped(rich, NoSecrets(), NOW)
    assert encoded["version"] == 4
    assert encoded["features"] == features_of(rich)
    assert encoded["features"] == [
        "byteString",
        "hooks",
        "refreshBeforeUpdate",
        "replaceWith",
        "taint",
        "views",
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"version": 5, "checkpoint": {"latest": {}}}, "schema version 5"),
        ({"version": 2, "checkpoint": {"latest": {}}}, "schema version 2"),
        ({"version": 4, "features": ["taint", "warp"], "checkpoint": {"latest": {}}}, "warp"),
        ({"version": 4, "features": ["snippets-prototype"], "checkpoint": {}}, "snippets-prototype"),
    ],
)
def test_what_a_newer_pulumi_wrote_is_refused_by_name(document: Any, message: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=message):
        unwrap_checkpoint(document)


@pytest.mark.parametrize(
    "document", [None, [], {}, {"version": 3}, {"version": 3, "checkpoint": {"latest": []}}]
)
def test_what_is_no_checkpoint_is_refused(document: Any) -> None:
    with pytest.raises(MalformedCheckpoint, match="not a checkpoint"):
        unwrap_checkpoint(document)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"type": "t", "custom": True}, "missing required field 'urn'"),
        ({"urn": "u", "custom": True}, "missing required field 'type'"),
        ({"urn": "u", "type": "t", "id": "i"}, "'custom' is false"),
        ({"urn": "u", "type": "t", "inputs": [1]}, "'u' in the state is malformed"),
        ("text", "expected an object"),
    ],
)
def test_a_malformed_resource_is_named(raw: Any, message: str) -> None:
    with pytest.raises(MalformedCheckpoint, match=message):
        decode_resource(raw, NoSecrets().decrypt)


def test_a_tampered_manifest_is_refused() -> None:
    with pytest.raises(IntegrityError, match="magic cookie mismatch"):
        decode_deployment({"manifest": {"version": "v3.260.0", "magic": "0"}}, NoSecrets())


def test_without_a_key_secrets_are_refused_or_blinded() -> None:
    latest = json.loads(recordings.file_of("whole").read_text(encoding="utf-8"))["checkpoint"]["latest"]
    with pytest.raises(Exception, match="PULUMI_CONFIG_PASSPHRASE"):
        decode_deployment(latest, NoSecrets())
    snapshot = decode_deployment(latest, Blind())
    assert contains_secrets(snapshot.resources[0].outputs["secret"])
    with pytest.raises(Exception, match="without its passphrase"):
        encode_deployment(snapshot, Blind(), NOW)


def test_references_by_an_alias_are_made_references_by_the_new_name() -> None:
    old, new = f"{URN}p:index:Old::a", f"{URN}p:index:Thing::a"
    inner = f"{URN}p:index:Old$p:index:Thing::inner"
    renamed = ResourceState(new, "p:index:Thing", custom=False, aliases=(old, old), parent=STACK.urn)
    child = replace(
        thing("x"), urn=inner, parent=old, dependencies=(old,), property_dependencies={"k": (old,)}
    )
    pending = PendingOperation(thing("p", aliases=(old,)), "creating")
    encoded = encode_deployment(Snapshot((STACK, PROVIDER, renamed, child), (pending,)), NoSecrets(), NOW)
    _, _, parent, fixed = encoded["resources"]
    assert "aliases" not in parent
    assert "aliases" not in encoded["pending_operations"][0]["resource"]
    assert fixed["urn"] == f"{URN}p:index:Thing$p:index:Thing::inner"
    assert fixed["parent"] == new
    assert fixed["dependencies"] == [new]
    assert fixed["propertyDependencies"] == {"k": [new]}


def test_one_alias_cannot_be_of_two_resources() -> None:
    twice = Snapshot((STACK, PROVIDER, thing("a", aliases=("urn:x",)), thing("b", aliases=("urn:x",))))
    with pytest.raises(IntegrityError, match="same alias"):
        encode_deployment(twice, NoSecrets(), NOW)


MISSING = f"{URN}p:index:Thing::missing"


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ((thing("a", parent=MISSING),), "its parent .*missing is missing"),
        ((thing("a", dependencies=(MISSING,)),), "its dependency .*missing is missing"),
        ((thing("a", property_dependencies={"k": (MISSING,)}),), "property k.* is missing"),
        ((thing("a", deleted_with=MISSING),), "its deletedWith .* is missing"),
        ((thing("a", replace_with=(MISSING,)),), "its replaceWith .* is missing"),
        (
            (thing("a", dependencies=(f"{URN}p:index:Thing::b",)), thing("b")),
            "its dependency .*b comes after it",
        ),
        ((thing("a", dependencies=(f"{URN}p:index:Thing::a",)),), "the resource itself"),
        ((thing("a"), thing("a")), "duplicate resource"),
        ((thing("a", provider="urn:pulumi:dev::recorded::pulumi:providers:q::d::7"),), "unknown provider"),
        ((thing("a", custom=False),), "non-empty ID"),
        ((replace(PROVIDER, urn=f"{PROVIDER.urn}2", id=""),), "not referenceable"),
    ],
)
def test_a_snapshot_that_contradicts_itself_is_refused(
    states: tuple[ResourceState, ...], message: str
) -> None:
    verify_integrity(Snapshot((STACK, PROVIDER)))
    with pytest.raises(IntegrityError, match=message):
        verify_integrity(Snapshot((STACK, PROVIDER, *states)))


def test_old_states_that_wait_for_their_deletion_may_share_a_urn() -> None:
    verify_integrity(
        Snapshot((STACK, PROVIDER, thing("a"), thing("a", delete=True), thing("a", delete=True)))
    )
    verify_integrity(Snapshot((STACK, thing("a", pending_replacement=True))))
