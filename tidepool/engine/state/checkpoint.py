"""The checkpoint: a stack's snapshot as JSON, byte-compatible with Pulumi's file backend.

Pure functions between JSON values (dicts as :func:`json.loads` gives them) and the engine's values; what is
said of keys in :mod:`tidepool.engine.resource` holds of ``VersionedCheckpoint`` and ``DeploymentV3``, too.

Three nested forms:

- a *deployment* is the snapshot itself: manifest, secrets provider, resources, pending operations;
- a *checkpoint* is the stack file: ``{"version", "features"?, "checkpoint": {"stack", "latest"}}``;
- an *untyped deployment* is what ``stack export`` prints: ``{"version", "features"?, "deployment"}``.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

from tidepool.engine.errors import EngineError
from tidepool.engine.resource import (
    MalformedCheckpoint,
    OperationType,
    PendingOperation,
    SecretsProvider,
    Snapshot,
    decode_resource,
    encode_resource,
)
from tidepool.engine.state.references import IntegrityError, normalize_urn_references
from tidepool.engine.value_json import contains_byte_strings

#: The Pulumi CLI whose formats these are; written to the manifest.
ENGINE_VERSION: Final = "v3.260.0"
SCHEMA_VERSION: Final = 3
#: Deployments that need a feature of the reader carry this version and the features' names.
FEATURES_SCHEMA_VERSION: Final = 4
#: Features by the fields of resources that need them.
_FEATURE_FIELDS: Final = {
    "refreshBeforeUpdate": "refresh_before_update",
    "views": "view_of",
    "hooks": "resource_hooks",
    "taint": "taint",
    "replaceWith": "replace_with",
}
_BYTE_STRING: Final = "byteString"
SUPPORTED_FEATURES: Final = frozenset({*_FEATURE_FIELDS, _BYTE_STRING})


class Crypter(Protocol):
    """Encrypts and decrypts the JSON text of secrets."""

    def encrypt(self, plaintext: str, /) -> str:
        """The ciphertext of ``plaintext``."""

    def decrypt(self, ciphertext: str, /) -> str:
        """The plaintext of ``ciphertext``."""


class UnsupportedCheckpoint(EngineError):
    """The state was written in a format, or with a feature, that this engine cannot keep up."""


def rfc3339(moment: datetime) -> str:
    """``moment`` (with a time zone) as checkpoints write times: UTC, no trailing zeros in the fraction."""
    text = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return text + "Z"


def decode_deployment(raw: dict[str, Any], crypter: Crypter) -> Snapshot:
    """The snapshot that ``raw`` (a ``DeploymentV3``) describes. Its integrity is not verified here.

    Raises:
        IntegrityError: when the manifest's checksum is wrong.
        MalformedCheckpoint: when a resource is malformed.
    """
    manifest = raw.get("manifest") or {}
    if (manifest.get("magic") or "") != magic_of(manifest.get("version") or ""):
        raise IntegrityError("magic cookie mismatch; possible tampering/corruption detected")
    decrypt = crypter.decrypt
    provider = raw.get("secrets_providers") or {}
    return Snapshot(
        resources=tuple([decode_resource(r, decrypt) for r in raw.get("resources") or ()]),
        pending_operations=tuple(
            PendingOperation(decode_resource(op["resource"], decrypt), cast(OperationType, op["type"]))
            for op in raw.get("pending_operations") or ()
        ),
        secrets_provider=(
            SecretsProvider(provider["type"], provider.get("state") or {}) if provider.get("type") else None
        ),
        unknown_fields={k: v for k, v in raw.items() if k not in _DEPLOYMENT_KEYS},
    )


def encode_deployment(snapshot: Snapshot, crypter: Crypter, now: datetime) -> dict[str, Any]:
    """``snapshot`` as a ``DeploymentV3`` taken at ``now``: aliases resolved, secrets encrypted.

    The secrets provider written is the crypter's own where it has one (it made the ciphertexts),
    otherwise the snapshot's.
    """
    snapshot = normalize_urn_references(snapshot)
    begin_pass = getattr(crypter, "begin_pass", None)
    if begin_pass is not None:
        begin_pass()  # lets unchanged secrets keep their ciphertexts
    encrypt = crypter.encrypt
    out: dict[str, Any] = {"manifest": manifest_of(now)}
    provider: SecretsProvider | None = getattr(crypter, "provider", None) or snapshot.secrets_provider
    if provider is not None:
        out["secrets_providers"] = {"type": provider.type}
        if provider.state:
            out["secrets_providers"]["state"] = provider.state
    if snapshot.resources:
        out["resources"] = [encode_resource(state, encrypt) for state in snapshot.resources]
    if snapshot.pending_operations:
        out["pending_operations"] = [
            {"resource": encode_resource(op.resource, encrypt), "type": op.type}
            for op in snapshot.pending_operations
        ]
    out["metadata"] = {}  # always there in Go; what was read overrides it
    out.update(snapshot.unknown_fields)
    return out


def features_of(snapshot: Snapshot) -> list[str]:
    """The features that a reader of ``snapshot`` must know, in order."""
    features = [
        feature
        for feature, field in _FEATURE_FIELDS.items()
        if any(getattr(state, field) for state in snapshot.resources)
    ]
    return sorted([*features, *([_BYTE_STRING] if _holds_byte_strings(snapshot) else [])])


def encode_untyped(snapshot: Snapshot, crypter: Crypter, now: datetime) -> dict[str, Any]:
    """``snapshot`` as ``stack export`` prints it."""
    features = features_of(snapshot)
    out: dict[str, Any] = {"version": FEATURES_SCHEMA_VERSION if features else SCHEMA_VERSION}
    if features:
        out["features"] = features
    out["deployment"] = encode_deployment(snapshot, crypter, now)
    return out


def wrap_checkpoint(stack: str, untyped: dict[str, Any]) -> dict[str, Any]:
    """The stack file that holds an untyped deployment."""
    out: dict[str, Any] = {"version": untyped["version"]}
    if untyped.get("features"):
        out["features"] = untyped["features"]
    inner: dict[str, Any] = {"stack": stack}
    if untyped.get("deployment") is not None:
        inner["latest"] = untyped["deployment"]
    out["checkpoint"] = inner
    return out


def unwrap_checkpoint(document: Any) -> dict[str, Any]:
    """The untyped deployment within a stack file; "deployment" is None where nothing was deployed yet.

    Raises:
        MalformedCheckpoint: when ``document`` is not a stack file.
        UnsupportedCheckpoint: when its version or a feature is not supported.
    """
    if not isinstance(document, dict) or not isinstance(document.get("checkpoint"), dict):
        raise MalformedCheckpoint("not a checkpoint: there is no object under 'checkpoint'")
    latest = document["checkpoint"].get("latest")
    if not (document.get("version") == 0 and latest is None):  # 0: the CLI's first write of a new stack
        verify_supported(document)
    if latest is not None and not isinstance(latest, dict):
        raise MalformedCheckpoint("not a checkpoint: 'checkpoint.latest' is not an object")
    out: dict[str, Any] = {"version": document.get("version") or SCHEMA_VERSION}
    if document.get("features"):
        out["features"] = document["features"]
    out["deployment"] = latest
    return out


def verify_supported(document: dict[str, Any]) -> None:
    """Refuse a checkpoint or untyped deployment whose version or features are not supported.

    Raises:
        UnsupportedCheckpoint: naming the version or the features.
    """
    version = document.get("version")
    if version not in (SCHEMA_VERSION, FEATURES_SCHEMA_VERSION):
        newer = isinstance(version, int) and version > FEATURES_SCHEMA_VERSION
        remedy = (
            "a newer Pulumi wrote it: use that Pulumi CLI"
            if newer
            else "let the Pulumi CLI rewrite it with `pulumi stack export` and `pulumi stack import`"
        )
        raise UnsupportedCheckpoint(
            f"the state has schema version {version!r}; this engine reads versions 3 and 4: {remedy}"
        )
    if version == FEATURES_SCHEMA_VERSION:
        unknown = sorted(set(document.get("features") or ()) - SUPPORTED_FEATURES)
        if unknown:
            raise UnsupportedCheckpoint(
                f"the state (schema version 4) needs features that this engine does not support: "
                f"{', '.join(unknown)}. Supported are {', '.join(sorted(SUPPORTED_FEATURES))}. "
                "Use the Pulumi CLI for this stack"
            )


def manifest_of(now: datetime) -> dict[str, Any]:
    """The manifest of a deployment that is written ``now``."""
    return {"time": rfc3339(now), "magic": magic_of(ENGINE_VERSION), "version": ENGINE_VERSION}


def magic_of(version: str) -> str:
    """The manifest's checksum for the engine version ``version``."""
    return hashlib.sha256(version.encode()).hexdigest() if version else ""


_DEPLOYMENT_KEYS: Final = frozenset({"manifest", "secrets_providers", "resources", "pending_operations"})


def _holds_byte_strings(snapshot: Snapshot) -> bool:
    states = [*snapshot.resources, *(op.resource for op in snapshot.pending_operations)]
    return any(
        contains_byte_strings(part)
        for state in states
        for part in (state.inputs, state.outputs, state.replacement_trigger)
    )
