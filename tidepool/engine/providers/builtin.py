"""The package ``pulumi``: what the engine itself provides. Source: ``pkg/resource/deploy/builtins.go``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final, NoReturn

from tidepool.engine import urn as urns
from tidepool.engine.errors import EngineError
from tidepool.engine.providers.contract import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    Existing,
    InvokeResult,
    Provider,
    ProviderError,
    ReadResult,
    UpdateResult,
)
from tidepool.engine.resource import ResourceState as State
from tidepool.engine.values import UNKNOWN, Properties, Secret, contains_secrets, equal

STASH: Final = "pulumi:index:Stash"

#: The outputs of a stack by name; raises EngineError where there is no such stack.
StackOutputs = Callable[[str], Properties]
#: The live state of a resource by URN; None where there is none.
ResourceState = Callable[[str], State | None]
#: Shows a warning about a URN.
Warn = Callable[[str, str], None]


class BuiltinProvider(Provider):
    """Stack references and stashes; no process is behind it."""

    kind = "builtin resources"

    def __init__(
        self,
        stack_outputs: StackOutputs,
        resource_state: ResourceState,
        warn: Warn = lambda _urn, _text: None,
    ) -> None:
        self._stack_outputs = stack_outputs
        self._resource_state = resource_state
        self._warn = warn

    # -- configuration: whatever is given is taken, and never a change

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        return CheckResult({})

    async def diff_config(self, *_: Any) -> DiffResult:
        return DiffResult("none")

    async def configure(self, urn: str, id: str, inputs: Properties) -> None:
        """Nothing to configure."""

    # -- resources

    async def check(
        self, urn: str, olds: Properties, news: Properties, random_seed: bytes, preview: bool
    ) -> CheckResult:
        match urns.type_of(urn):
            case "pulumi:pulumi:StackReference":
                self._warn(
                    urn,
                    'The "pulumi:pulumi:StackReference" resource type is deprecated. '
                    "Update your SDK or if already up to date raise an issue at https://github.com/pulumi/pulumi/issues.",
                )
                failure = _only(news, "name")
                if failure is None and not (isinstance(news["name"], str) or news["name"] is UNKNOWN):
                    failure = CheckFailure("name", 'property "name" must be a string')
            case "pulumi:index:Stash":
                failure = _only(news, "input")
            case _:
                _unrecognized(urn)
        return CheckResult({}, (failure,)) if failure is not None else CheckResult(news)

    async def diff(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        """A reference to another stack is another resource; a stash takes a new input."""
        match urns.type_of(urn):
            case "pulumi:pulumi:StackReference":
                if equal(old.inputs.get("name"), new_inputs.get("name")):
                    return DiffResult("none")
                return DiffResult("some", replace_keys=("name",))
            case "pulumi:index:Stash":
                if equal(old.inputs.get("input"), new_inputs.get("input")):
                    return DiffResult("none")
                return DiffResult("some", changed_keys=("input",))
            case _:
                _unrecognized(urn)

    async def create(self, urn: str, inputs: Properties, timeout_s: float, preview: bool) -> CreateResult:
        id = "" if preview else str(uuid.uuid4())
        match urns.type_of(urn):
            case "pulumi:pulumi:StackReference":
                return CreateResult(id, self._read_stack(inputs["name"]))
            case "pulumi:index:Stash":
                return CreateResult(id, {"input": inputs["input"], "output": inputs["input"]})
            case _:
                _unrecognized(urn)

    async def update(
        self,
        urn: str,
        old: Existing,
        new_inputs: Properties,
        timeout_s: float,
        ignore_changes: tuple[str, ...],
        preview: bool,
    ) -> UpdateResult:
        """A stash remembers what was stashed first."""
        if urns.type_of(urn) != STASH:
            _unrecognized(urn)
        return UpdateResult({"input": new_inputs["input"], "output": old.outputs.get("output")})

    async def read(self, urn: str, old: Existing, timeout_s: float = 0) -> ReadResult:
        """Read the other stack anew; a stash is what it was."""
        match urns.type_of(urn):
            case "pulumi:pulumi:StackReference":
                for key in old.inputs:
                    if key != "name":
                        raise ProviderError(f'unknown property "{key}"', state_unknown=True)
                if "name" not in old.inputs:
                    raise ProviderError("stack reference can not be imported", state_unknown=True)
                return ReadResult(
                    old.id, old.inputs, self._read_stack(old.outputs.get("name", old.inputs["name"]))
                )
            case "pulumi:index:Stash":
                if not old.inputs:
                    raise ProviderError("stash can not be imported", state_unknown=True)
                return ReadResult(old.id, old.inputs, old.outputs)
            case _:
                _unrecognized(urn)

    # -- functions

    async def invoke(self, token: str, args: Properties, preview: bool) -> InvokeResult:
        match token:
            case "pulumi:pulumi:readStackOutputs":
                return InvokeResult(self._read_stack(_required_text(args, "name")))
            case "pulumi:pulumi:getResource":
                return InvokeResult(self._get_resource(_required_text(args, "urn")))
            case "pulumi:pulumi:readStackResourceOutputs":
                raise ProviderError(
                    f"{token} is not supported by the embedded engine; the Pulumi CLI does it. "
                    "pulumi:pulumi:readStackOutputs reads the outputs of a stack itself"
                )
            case _:
                raise ProviderError(f"unrecognized function name: '{token}'")

    # -- within

    def _read_stack(self, name: Any) -> Properties:
        if not isinstance(name, str):
            raise ProviderError("the name of the stack must be a string that is known")
        try:
            outputs = self._stack_outputs(name)
        except EngineError as e:
            raise ProviderError(str(e), state_unknown=True) from e
        return {
            "name": name,
            "outputs": outputs,
            "secretOutputNames": sorted(k for k, v in outputs.items() if contains_secrets(v)),
        }

    def _get_resource(self, urn: str) -> Properties:
        state = self._resource_state(urn)
        if state is None:
            raise ProviderError(f"unknown resource {urn}")
        return {"urn": urn, "id": state.id, "provider": state.provider, "state": state.outputs}


def _only(news: Properties, key: str) -> CheckFailure | None:
    for other in news:
        if other != key:
            return CheckFailure(other, f'unknown property "{other}"')
    return None if key in news else CheckFailure(key, f'missing required property "{key}"')


def _required_text(args: Properties, key: str) -> str:
    value = args.get(key)
    if isinstance(value, Secret):
        value = value.element
    if not isinstance(value, str):
        raise ProviderError(f"missing required property '{key}', a string")
    return value


def _unrecognized(urn: str) -> NoReturn:
    raise ProviderError(f"unrecognized resource type '{urns.type_of(urn)}'")
