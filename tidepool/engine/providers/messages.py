"""Messages to and from plugins: what one understands, its answers in the engine's words, and what they repeat.

Old providers take no secrets: they are sent the bare values, and what comes back under the same key is
made secret again. And contents of assets are left out of some calls, so what comes back without its
contents gets them again. Source: ``provider_plugin.go`` (annotateSecrets, restoreElidedAssetContents).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidepool.engine.events import DiffKind, PropertyDiff
from tidepool.engine.providers.contract import CheckFailure, DiffResult, ProviderError, ProviderUnimplemented
from tidepool.engine.rpc import Failure
from tidepool.engine.values import (
    Archive,
    Asset,
    Output,
    Properties,
    Secret,
    Value,
    contains_secrets,
    specials,
    transform,
)
from tidepool.engine.wire import Decoder, Encoder, WireError

#: Answers in a preview may hold unknown values; others must not.
IN_PREVIEW: Final = Decoder(outputs=False)
KNOWN: Final = Decoder(outputs=False, reject_unknowns=True)
#: Of components: outputs keep their dependencies. Outside previews unknown values are left out.
COMPONENT_IN_PREVIEW: Final = Decoder()
COMPONENT: Final = Decoder(unknowns=False)

# By number, as in `PropertyDiff.Kind` and `DiffResponse.DiffChanges` of provider.proto.
_KINDS: Final[tuple[DiffKind, ...]] = (
    "add",
    "add-replace",
    "delete",
    "delete-replace",
    "update",
    "update-replace",
)
_CHANGES: Final = {1: "none", 2: "some"}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Without any of them a plugin is sent the plainest form of everything."""

    secrets: bool = False
    resources: bool = False
    outputs: bool = False
    preview: bool = False
    byte_strings: bool = False

    @classmethod
    def of_handshake(cls, response: Any) -> Capabilities:
        """From a ``ProviderHandshakeResponse``; a plugin that knows the handshake knows previews."""
        return cls(
            secrets=response.accept_secrets,
            resources=response.accept_resources,
            outputs=response.accept_outputs,
            preview=True,
            byte_strings=response.accepts_byte_string,
        )

    @classmethod
    def of_configure(cls, response: Any) -> Capabilities:
        """From a ``ConfigureResponse``, of plugins that do not know the handshake."""
        return cls(
            secrets=response.acceptSecrets,
            resources=response.acceptResources,
            outputs=response.acceptOutputs,
            preview=response.supportsPreview,
        )

    def sending(self, *, unknowns: bool, elide_assets: bool = False) -> Sending:
        """Return the form in which properties are sent to the plugin."""
        return Sending(
            secrets=self.secrets,
            resources=self.resources,
            unknowns=unknowns,
            byte_strings=self.byte_strings,
            elide_assets=elide_assets,
        )


class Sending(Encoder):
    """Properties on their way to a plugin. What it cannot take is a ProviderError."""

    __slots__ = ()

    def struct(self, properties: Mapping[str, Value]) -> Any:
        try:
            return super().struct(properties)
        except WireError as e:
            raise ProviderError(str(e)) from e


def decoder(preview: bool) -> Decoder:
    """For answers about custom resources."""
    return IN_PREVIEW if preview else KNOWN


def component_decoder(preview: bool) -> Decoder:
    """For answers about components."""
    return COMPONENT_IN_PREVIEW if preview else COMPONENT


def failures(messages: Any) -> tuple[CheckFailure, ...]:
    """Mistakes in inputs or arguments."""
    return tuple(CheckFailure(m.property, m.reason) for m in messages)


def diff_result(response: Any) -> DiffResult:
    """Return the content of a ``DiffResponse``. A kind of difference that is not known counts as an update."""
    detailed = None
    if response.hasDetailedDiff:
        detailed = {
            path: PropertyDiff(_KINDS[d.kind] if 0 <= d.kind < len(_KINDS) else "update", d.inputDiff)
            for path, d in response.detailedDiff.items()
        }
    return DiffResult(
        changes=_CHANGES.get(response.changes, "unknown"),  # type: ignore[arg-type]
        replace_keys=tuple(response.replaces),
        changed_keys=tuple(response.diffs),
        delete_before_replace=response.deleteBeforeReplace,
        detailed_diff=detailed,
    )


def urns_by_key(messages: Any) -> dict[str, tuple[str, ...]]:
    """The dependencies of each key."""
    return {key: tuple(message.urns) for key, message in messages.items()}


def as_error(failure: Failure, *, of_state: bool = False) -> ProviderError:
    """Return the error to raise for a failure that nothing more is known of.

    ``of_state`` says that the call was to tell or change what a resource is: then some kinds of failure
    leave that open.
    """
    text = failure.text
    cause = failure.detail("ErrorCause")
    if cause is not None:
        text = f"{text}: {cause.message}"
    wrong = failure.detail("InputPropertiesError")
    if wrong is not None:
        text += "".join(f"\n\t\t- property {e.property_path} has a problem: {e.reason}" for e in wrong.errors)
    text = text or f"the provider failed without a message ({failure.code})"
    if failure.code == "UNIMPLEMENTED":
        return ProviderUnimplemented(text)
    return ProviderError(
        text, state_unknown=of_state and failure.code in {"INTERNAL", "DATA_LOSS", "UNKNOWN"}
    )


def with_secrets_of(answer: Properties, sent: Mapping[str, Value]) -> Properties:
    """``answer`` with those values secret whose key held a secret in ``sent``.

    Objects are gone through key by key; of a list with a secret in it the whole list is made secret,
    since providers may change the order of lists.
    """
    result = dict(answer)
    for key, value in sent.items():
        if key not in result:
            continue
        returned = result[key]
        if isinstance(returned, dict) and isinstance(value, dict):
            result[key] = with_secrets_of(returned, value)
        elif not isinstance(returned, Secret) and contains_secrets(value):
            result[key] = Secret(returned)
    return result


def all_secret(answer: Properties) -> Properties:
    """``answer`` with every value secret: one of the arguments was, and nobody knows where it went."""
    return {
        k: v if isinstance(v, Secret) or (isinstance(v, Output) and v.secret) else Secret(v)
        for k, v in answer.items()
    }


def with_contents_of(answer: Properties, sent: Mapping[str, Value]) -> Properties:
    """``answer`` with assets and archives that lack their contents replaced by those of ``sent`` with the same hash."""
    known: dict[tuple[type, str], Asset | Archive] = {}
    for value in specials(dict(sent)):
        if isinstance(value, Asset | Archive):
            known[type(value), value.hash] = value
    if not known:
        return answer

    def leave(value: Value) -> Value:
        if isinstance(value, Asset | Archive) and _is_elided(value):
            return known.get((type(value), value.hash), value)
        return value

    restored: Properties = transform(answer, leave)
    return restored


def _is_elided(value: Asset | Archive) -> bool:
    # An empty text and an empty collection are contents, too.
    contents = value.text if isinstance(value, Asset) else value.assets
    return contents is None and value.path is None and value.uri is None
