"""The graph that a program registers, as Pulumi's mocks see it: resources with their parents, dependencies and secrets."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import json
import runpy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pulumi
import yaml
from google.protobuf.json_format import MessageToDict
from pulumi.runtime import mocks, rpc, set_all_config
from pulumi.runtime.mocks import MockResourceArgs
from pulumi.runtime.settings import get_project, get_root_resource, get_stack

from tidepool.cluster.frozen import FrozenDict

#: That of every image.
DIGEST: Final = "d" * 64


def provider_outputs(args: MockResourceArgs) -> Mapping[str, Any]:
    """Return what the provider would give for a resource beside its inputs; nothing for resources of other providers."""
    made: Mapping[str, Mapping[str, Any]] = {
        "tidepool:image:Image": {"digest": DIGEST},
        "tidepool:keys:MungeKey": {"key": "munge-key"},
        "tidepool:keys:SshKey": {"publicKey": "ssh-ed25519 PUBLIC", "privateKey": "PRIVATE"},
        "tidepool:keys:Authority": {
            "certificate": f"CERTIFICATE of {args.name}",
            "key": f"KEY of {args.name}",
        },
        "tidepool:keys:Certificate": {
            "certificate": f"CERTIFICATE of {args.name}",
            "key": f"KEY of {args.name}",
        },
        "tidepool:keys:SigningKey": {"publicKey": "PUBLIC", "privateKey": "PRIVATE"},
        "tidepool:keys:EncryptionKey": {"key": "KEY"},
        "tidepool:kubernetes:Access": {
            "server": "https://10.77.0.6:6443",
            "authorityCertificate": "CERTIFICATE",
        },
        "tidepool:kubernetes:ControlPlane": {"version": "v1.36.3"},
        "tidepool:local:Volume": {"path": f"/volumes/{args.name}"},
        "tidepool:local:Machine": {"connection": connection(args.name, str(args.inputs.get("stack")))},
        "tidepool:slurm:Configuration": {"digest": "of the files"},
    }
    return made.get(args.typ, {})


def connection(machine: str, stack: str = "dev") -> Mapping[str, str]:
    """Return the connection of a machine of this machine."""
    return {"kind": "local", "stack": stack, "machine": machine}


_STACK: Final = "pulumi:pulumi:Stack"
_LAST_OUTPUTS: Final = "pulumi:pulumi:readStackOutputs"
#: Gives a resource's outputs beside its inputs.
Outputs = Callable[[mocks.MockResourceArgs], Mapping[str, Any]]


@dataclass(frozen=True)
class Registered:
    """One registration. Resources are named by type and name: ``tidepool:local:Machine cpu-1``."""

    urn: str
    type: str
    name: str
    custom: bool
    parent: str
    inputs: Mapping[str, Any]
    #: Names of inputs that are secret, or have a secret within.
    secrets: frozenset[str]
    #: All that it depends on.
    depends_on: frozenset[str]
    #: Those with which it is replaced.
    replace_with: frozenset[str]
    #: It is replaced when this changes; None where nothing but its inputs counts.
    replacement_trigger: Any
    #: What each input depends on, where it does.
    by_input: Mapping[str, frozenset[str]]
    #: The provider that was named for it, if one was.
    provider: str = ""
    #: It goes before another one comes in its place. Pulumi's ``delete_before_replace``.
    delete_before_replace: bool = False
    #: Inputs that make it another one when they change, whatever its plugin says.
    replace_on_changes: frozenset[str] = frozenset()
    #: It is left where it is when the stack has it no more.
    retain_on_delete: bool = False
    #: Inputs that may be otherwise in the world.
    ignore_changes: frozenset[str] = frozenset()
    #: How long making it may take, where the program says so: ``90s``.
    create_timeout: str = ""


@dataclass
class Graph:
    """All that was registered, by type and name, and the outputs of components."""

    resources: dict[str, Registered] = field(default_factory=dict)
    outputs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    secret_outputs: dict[str, frozenset[str]] = field(default_factory=dict)
    #: Those of the stack.
    exports: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Registered:
        """Return the resource of that type and name: ``graph["tidepool:local:Machine cpu-1"]``.

        Raises:
            KeyError: there is none; names those of the type.
        """
        if name not in self.resources:
            same = [each for each in self.resources if each.split()[0] == name.split(maxsplit=1)[0]]
            raise KeyError(f"no {name} was registered; of its type there are: {', '.join(same) or 'none'}")
        return self.resources[name]

    def of_type(self, type: str) -> dict[str, Registered]:
        """Return by name all resources of a type."""
        return {each.name: each for each in self.resources.values() if each.type == type}

    @property
    def children(self) -> dict[str, str]:
        """The parent of each resource; of those at the top, an empty text."""
        return {name: each.parent for name, each in self.resources.items()}


#: Of all programs of this process: Pulumi makes one of its own where a thread has none, and nobody closes that.
_LOOP: Final = asyncio.new_event_loop()
atexit.register(_LOOP.close)


def ensure_event_loop() -> None:
    """Set the event loop of which Pulumi's outputs are futures; tests that ran before may have taken it away."""
    asyncio.set_event_loop(_LOOP)


def register(
    program: Callable[[], object],
    outputs: Outputs = provider_outputs,
    *,
    preview: bool = False,
    by_urn: bool = False,
    project: str = "cluster",
    stack: str = "dev",
    last_outputs: Mapping[str, Any] | None = None,
) -> Graph:
    """Run a program against mocks; nothing of it is left for other tests.

    Args:
        program: what registers resources.
        outputs: of each resource beside its inputs; by default those of Tidepool's own provider, made up.
        preview: outputs that no input of the same name gives are unknown.
        by_urn: the graph's resources are by URN, for programs that have several of the same type and name.
        project: the name of Pulumi's project.
        stack: that of the stack.
        last_outputs: those of the stack's last `up`, for programs that ask for them; None where none may ask.

    Raises:
        pulumi.RunError: of the program.
    """
    recorder = _Recorder(outputs, preview, by_urn, last_outputs)
    ensure_event_loop()

    def whole() -> None:
        program()
        # Mocks end a program before the stack's outputs are registered.
        exported = getattr(get_root_resource(), "outputs", {})
        for name, value in exported.items():
            found = partial(recorder.graph.exports.__setitem__, name)
            pulumi.Output.from_input(value).apply(found, run_with_unknowns=True)

    def run() -> None:
        mocks.set_mocks(recorder.mocks, project, stack, preview, monitor=recorder)
        mocks.test(whole)()  # type: ignore[no-untyped-call]

    contextvars.copy_context().run(run)
    return recorder.graph


class _Mocks(mocks.Mocks):
    def __init__(self, outputs: Outputs, preview: bool, last_outputs: Mapping[str, Any] | None) -> None:
        self._outputs = outputs
        self._preview = preview
        self._last_outputs = last_outputs

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if self._preview:
            return None, dict(args.inputs)
        return f"{args.name}-id", {**args.inputs, **self._outputs(args)}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        if args.token == _LAST_OUTPUTS and self._last_outputs is not None:
            return {"outputs": dict(self._last_outputs)}, []
        raise AssertionError(f"components ask nothing of the engine: {args.token}")


@contextmanager
def _a_loop_of_this_thread() -> Iterator[None]:
    """Registrations are made in threads, to each of which Pulumi would give an event loop that nobody closes."""
    if threading.current_thread() is threading.main_thread():
        yield
        return
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class _Recorder(mocks.MockMonitor):
    def __init__(
        self, outputs: Outputs, preview: bool, by_urn: bool, last_outputs: Mapping[str, Any] | None
    ) -> None:
        self.mocks = _Mocks(outputs, preview, last_outputs)
        self._by_urn = by_urn
        super().__init__(self.mocks)
        self.graph = Graph()
        self._names: dict[str, str] = {}

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """As engines make it: with the types of all parents, and without the stack's."""
        above = parent.split("::")[2] if parent else ""
        qualified = type_ if above in ("", _STACK) else f"{above}${type_}"
        return f"urn:pulumi:{get_stack()}::{get_project()}::{qualified}::{name}"

    def Invoke(self, request: Any) -> Any:  # noqa: N802 (of the protocol)
        with _a_loop_of_this_thread():
            return super().Invoke(request)  # type: ignore[no-untyped-call]

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (of the protocol)
        with _a_loop_of_this_thread():
            answer = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type == _STACK:
            self._names[answer.urn] = ""
            return answer
        name = answer.urn if self._by_urn else f"{request.type} {request.name}"
        assert name not in self.graph.resources, f"registered twice: {name}"
        self._names[answer.urn] = name
        plain, secrets = _read(request.object)
        self.graph.resources[name] = Registered(
            urn=answer.urn,
            type=request.type,
            name=request.name,
            custom=request.custom,
            parent=self._names[request.parent],
            inputs=plain,
            secrets=secrets,
            depends_on=self._named(request.dependencies),
            replace_with=self._named(request.replace_with),
            replacement_trigger=MessageToDict(request.replacement_trigger)
            if request.HasField("replacement_trigger")
            else None,
            by_input={
                key: self._named(found.urns)
                for key, found in request.propertyDependencies.items()
                if found.urns
            },
            provider=self._names.get(request.provider.rpartition("::")[0], ""),
            delete_before_replace=request.deleteBeforeReplace,
            replace_on_changes=frozenset(request.replaceOnChanges),
            retain_on_delete=request.retainOnDelete,
            ignore_changes=frozenset(request.ignoreChanges),
            create_timeout=request.customTimeouts.create,
        )
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 (of the protocol)
        if name := self._names[request.urn]:
            self.graph.outputs[name], self.graph.secret_outputs[name] = _read(request.outputs)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]

    def _named(self, urns: Any) -> frozenset[str]:
        return frozenset(self._names[urn] for urn in urns)


def _read(properties: Any) -> tuple[dict[str, Any], frozenset[str]]:
    read = rpc.deserialize_properties(properties, keep_unknowns=True)
    secrets = frozenset(key for key, value in read.items() if rpc.is_rpc_secret(value))
    return {key: rpc.unwrap_rpc_secret(value) for key, value in read.items()}, secrets


def project_graph(
    folder: Path,
    stack: str,
    *,
    outputs: Outputs = provider_outputs,
    preview: bool = False,
    last_outputs: Mapping[str, Any] = FrozenDict(),
) -> Graph:
    """Run a project's ``__main__.py`` against mocks, with the configuration in ``Pulumi.<stack>.yaml``.

    Args:
        folder: the project's, with Pulumi.yaml.
        stack: the stack's name.
        outputs: of each resource beside its inputs.
        preview: outputs that no input of the same name gives are unknown, as in a first preview.
        last_outputs: those of the stack's last `up`; none before the first.

    Raises:
        FileNotFoundError: the folder has no project, or no file for that stack.
        pulumi.RunError: of the program.
    """
    project = str(yaml.safe_load((folder / "Pulumi.yaml").read_text())["name"])
    written = yaml.safe_load((folder / f"Pulumi.{stack}.yaml").read_text()) or {}
    # The engine gives a program texts, and JSON for all that is none.
    config = {
        key if ":" in key else f"{project}:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in (written.get("config") or {}).items()
    }

    def program() -> None:
        set_all_config(config)
        with chdir(folder):
            runpy.run_path(str(folder / "__main__.py"), run_name="__main__")

    return register(
        program,
        outputs,
        preview=preview,
        project=project,
        stack=stack,
        last_outputs=last_outputs,
    )
