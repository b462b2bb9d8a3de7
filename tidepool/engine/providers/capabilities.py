"""What a plugin understands, as it says itself when it is greeted or configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tidepool.engine.providers.contract import ProviderError
from tidepool.engine.values import Value
from tidepool.engine.wire import Encoder, WireError


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Without any of them a plugin is sent the plainest form of everything."""

    secrets: bool = False
    resources: bool = False
    outputs: bool = False
    preview: bool = False
    autonaming: bool = False
    byte_strings: bool = False

    @classmethod
    def of_handshake(cls, response: Any) -> Capabilities:
        """From a ``ProviderHandshakeResponse``; a plugin that knows the handshake knows previews."""
        return cls(
            secrets=response.accept_secrets,
            resources=response.accept_resources,
            outputs=response.accept_outputs,
            preview=True,
            autonaming=response.supports_autonaming_configuration,
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
            autonaming=response.supports_autonaming_configuration,
        )

    def sending(self, *, unknowns: bool, elide_assets: bool = False) -> Sending:
        """How properties are sent to the plugin."""
        return _sending(self, unknowns, elide_assets)


@dataclass(frozen=True, slots=True)
class Sending:
    """Properties on their way to a plugin."""

    encoder: Encoder

    def struct(self, properties: Mapping[str, Value]) -> Any:
        """``properties`` as a message.

        Raises:
            ProviderError: when the plugin cannot take them.
        """
        try:
            return self.encoder.struct(properties)
        except WireError as e:
            raise ProviderError(str(e)) from e


@cache
def _sending(capabilities: Capabilities, unknowns: bool, elide_assets: bool) -> Sending:
    encoder = Encoder(
        secrets=capabilities.secrets,
        resources=capabilities.resources,
        unknowns=unknowns,
        byte_strings=capabilities.byte_strings,
        elide_assets=elide_assets,
    )
    return Sending(encoder)
