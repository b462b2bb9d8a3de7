"""A provider in a process of its own, spoken to over gRPC: its resources.

Source: Pulumi's ``sdk/go/common/resource/plugin/provider_plugin.go``.
"""

from __future__ import annotations

from typing import Any

from tidepool.engine import rpc
from tidepool.engine.providers import messages
from tidepool.engine.providers.contract import (
    CheckResult,
    CreateResult,
    DiffResult,
    DiffUnavailable,
    InitializationFailed,
    ProviderDied,
    ProviderError,
    ReadResult,
    UpdateResult,
)
from tidepool.engine.providers.plugin_calls import CallablePlugin
from tidepool.engine.providers.plugin_configuration import AnswerOf, Configured, about
from tidepool.engine.values import Properties


class PluginProvider(CallablePlugin):
    """Speaks to a plugin. All methods are those of :class:`~tidepool.engine.providers.contract.Provider`."""

    async def check(
        self,
        urn: str,
        olds: Properties,
        news: Properties,
        random_seed: bytes,
        preview: bool,
    ) -> CheckResult:
        """Validate and complete a resource's inputs."""
        c = await self.ready()
        if not c.known:
            return CheckResult(news)
        encode = c.capabilities.sending(unknowns=preview)
        request = self._protocol.CheckRequest(
            **about(urn),
            olds=encode.struct(olds),
            news=encode.struct(news),
            randomSeed=random_seed,
        )
        response = await self._call("Check", request, urn)
        with AnswerOf(self.name, "Check"):
            inputs = messages.decoder(preview).properties(response.inputs)
        if not c.capabilities.secrets:
            inputs = messages.with_secrets_of(inputs, news)
        return CheckResult(inputs, messages.failures(response.failures))

    async def diff(
        self,
        urn: str,
        id: str,
        old_inputs: Properties,
        old_outputs: Properties,
        new_inputs: Properties,
        ignore_changes: tuple[str, ...],
    ) -> DiffResult:
        """Compare a resource's state with new inputs.

        Raises:
            DiffUnavailable: where the provider's own configuration is not known.
        """
        c = await self.ready()
        if not c.known:
            raise DiffUnavailable(
                "The provider for this resource has inputs that are not known during preview.\n"
                "This preview may not correctly represent the changes that will be applied during an update."
            )
        encode = c.capabilities.sending(unknowns=True, elide_assets=True)
        request = self._protocol.DiffRequest(
            id=id,
            **about(urn),
            old_inputs=encode.struct(old_inputs),
            olds=encode.struct(old_outputs),
            news=encode.struct(new_inputs),
            ignoreChanges=ignore_changes,
        )
        return messages.diff_result(await self._call("Diff", request, urn))

    async def create(self, urn: str, inputs: Properties, timeout_s: float, preview: bool) -> CreateResult:
        """Make the resource; in a preview say, as far as it is known, what it would be."""
        c = await self.ready()
        if preview and not c.known:
            return CreateResult("", {})
        if preview and not c.capabilities.preview:
            return CreateResult("", inputs)
        self._require_known(c, urn)
        request = self._protocol.CreateRequest(
            **about(urn),
            properties=c.capabilities.sending(unknowns=preview).struct(inputs),
            timeout=timeout_s,
            preview=preview,
        )
        try:
            response = await self._connection.call("Create", request, urn)
        except rpc.Failure as failure:
            # As the CLI has it, a create that failed left nothing behind.
            raise self._failed(failure, c.capabilities, "", inputs, None, of_state=False) from failure
        if not response.id and not preview:
            raise ProviderError(
                f"plugin {self.name} returned no id from the creation of '{urn}'", state_unknown=True
            )
        outputs = self._outputs("Create", response.properties, c.capabilities, inputs, preview)
        return CreateResult(response.id, outputs, response.refresh_before_update)

    async def read(
        self, urn: str, id: str, inputs: Properties, outputs: Properties, timeout_s: float = 0
    ) -> ReadResult:
        """Find out what the resource is now."""
        try:
            c = await self.ready()
        except ProviderDied:
            raise
        except ProviderError as error:
            raise ProviderError(str(error), state_unknown=True) from error
        if not c.known:
            return ReadResult("", {}, {})
        encode = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.ReadRequest(
            id=id,
            **about(urn),
            properties=encode.struct(outputs),
            inputs=encode.struct(inputs),
            timeout=timeout_s,
        )
        try:
            response = await self._connection.call("Read", request, urn)
        except rpc.Failure as failure:
            raise self._failed(failure, c.capabilities, "", outputs, inputs) from failure
        found = self._outputs("Read", response.properties, c.capabilities, outputs, False)
        found_inputs = None
        if response.HasField("inputs"):
            found_inputs = self._outputs("Read", response.inputs, c.capabilities, inputs, False)
            found_inputs = messages.with_contents_of(found_inputs, inputs)
        return ReadResult(
            response.id,
            found_inputs,
            messages.with_contents_of(found, inputs),
            response.refresh_before_update,
        )

    async def update(
        self,
        urn: str,
        id: str,
        old_inputs: Properties,
        old_outputs: Properties,
        new_inputs: Properties,
        timeout_s: float,
        ignore_changes: tuple[str, ...],
        preview: bool,
    ) -> UpdateResult:
        """Change the resource in place; in a preview say, as far as it is known, what it would be."""
        c = await self.ready()
        if preview and not c.known:
            return UpdateResult({})
        if preview and not c.capabilities.preview:
            return UpdateResult(new_inputs)
        self._require_known(c, urn)
        encode_old = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.UpdateRequest(
            id=id,
            **about(urn),
            old_inputs=encode_old.struct(old_inputs),
            olds=encode_old.struct(old_outputs),
            news=c.capabilities.sending(unknowns=preview).struct(new_inputs),
            timeout=timeout_s,
            ignoreChanges=ignore_changes,
            preview=preview,
        )
        try:
            response = await self._connection.call("Update", request, urn)
        except rpc.Failure as failure:
            raise self._failed(failure, c.capabilities, id, new_inputs, None) from failure
        outputs = self._outputs("Update", response.properties, c.capabilities, new_inputs, preview)
        return UpdateResult(outputs, response.refresh_before_update)

    async def delete(
        self, urn: str, id: str, inputs: Properties, outputs: Properties, timeout_s: float
    ) -> None:
        """Remove the resource."""
        c = await self.ready()
        self._require_known(c, urn)
        encode = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.DeleteRequest(
            id=id,
            **about(urn),
            properties=encode.struct(outputs),
            old_inputs=encode.struct(inputs),
            timeout=timeout_s,
        )
        try:
            await self._connection.call("Delete", request, urn)
        except rpc.Failure as failure:
            raise messages.as_error(failure, of_state=True) from failure

    # -- within

    def _outputs(
        self, method: str, message: Any, capabilities: messages.Capabilities, sent: Properties, preview: bool
    ) -> Properties:
        with AnswerOf(self.name, method):
            outputs = messages.decoder(preview).properties(message)
        return outputs if capabilities.secrets else messages.with_secrets_of(outputs, sent)

    def _failed(
        self,
        failure: rpc.Failure,
        capabilities: messages.Capabilities,
        id: str,
        sent: Properties,
        sent_inputs: Properties | None,
        *,
        of_state: bool = True,
    ) -> ProviderError:
        """The error of a call on a resource, which may have left something that is to be kept."""
        detail = failure.detail("ErrorResourceInitFailed")
        if detail is None:
            return messages.as_error(failure, of_state=of_state)
        outputs = self._outputs(failure.code, detail.properties, capabilities, sent, False)
        inputs = None
        if detail.HasField("inputs"):
            inputs = self._outputs(failure.code, detail.inputs, capabilities, sent_inputs or {}, False)
            inputs = messages.with_contents_of(inputs, sent_inputs or {})
        return InitializationFailed(
            id or detail.id,
            messages.with_contents_of(outputs, sent_inputs or {}),
            inputs,
            tuple(detail.reasons),
        )

    def _require_known(self, configured: Configured, urn: str) -> None:
        if not configured.known:
            raise ProviderError(
                f"the configuration of provider {self.name} is not known, so '{urn}' cannot be changed"
            )
