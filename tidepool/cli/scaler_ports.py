"""The stack as the scaler sees and changes it, and the machines of its fleets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidepool.cli.stack import Stack
from tidepool.cli.stack_spec import described_spec
from tidepool.engine.errors import NotSupportedError
from tidepool.engine.state.layout import Layout, StackReference, backend_url, root_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tidepool.clients.kubernetes.contract import KubernetesReader
    from tidepool.cluster.spec import ClusterSpec
    from tidepool.engine.warm import WarmPulumiCommand
    from tidepool.infrastructures import Infrastructure
    from tidepool.scaling.observe.observe import PoolDoors
    from tidepool.scaling.observe.policies_file import PoliciesFile
    from tidepool.scaling.stack.pulumi_stack import PulumiStack

#: What the program imports, and what starts no threads.
_MODULES = ("tidepool.components", "tidepool.cluster.spec_reading")
_PLUGINS = ("tidepool",)
#: As `tidepool.cli.pools.model` and the provider have it.
_CONVERSIONS = "conversions.db"
#: The scaler itself watches nodes that boot: one that never comes up is not to hold up the next `up`.
_PLUGINS_SETTINGS = {"TIDEPOOL_NODE_PATIENCE_S": "4", "TIDEPOOL_MACHINE_PATIENCE_S": "15"}


def warm_engine(stack: Stack) -> WarmPulumiCommand:
    """The engine, kept warm for one operation after the other.

    Raises:
        EngineError: it is not there.
    """
    import tidepool
    from tidepool.engine.warm import warm_command

    root = stack.project.root
    watched = [
        Path(tidepool.__path__[0]),
        *(path for path in (root / "provider", root / "__main__.py") if path.exists()),
    ]
    env = {**stack.environment, **_PLUGINS_SETTINGS}
    return warm_command(env, folder=root, modules=_MODULES, plugins=_PLUGINS, watched=watched)


def pulumi_stack(stack: Stack, command: WarmPulumiCommand) -> PulumiStack:
    """The stack as the scaler changes it."""
    from tidepool.scaling.stack.pulumi_stack import PulumiStack, StackLocation

    checkpoint, locks, journal = _files(stack)
    location = StackLocation(
        name=stack.name,
        project=stack.project.name,
        folder=stack.project.root,
        data=stack.data / stack.name,
        environment=stack.settings,
        checkpoint=checkpoint,
        locks=locks,
        journal=journal,
        file=stack.file,
    )
    return PulumiStack(location, command, lambda: described_spec(stack))


def machines_of(stack: Stack, changed: PulumiStack) -> Infrastructure:
    """The machines of the stack, wherever a person had it brought up last."""
    from tidepool.cluster.failures import Transient
    from tidepool.infrastructures.several import machines_of_stack
    from tidepool.scaling.ports import StackError

    def spec() -> ClusterSpec:
        try:
            return changed.read().spec
        except StackError as error:
            raise Transient(str(error)) from error

    return machines_of_stack(spec, stack.name, stack.data)


def pool_ports(
    stack: Stack, beside: Executor, monotonic_s: Callable[[], float], wake: Callable[[], None] = lambda: None
) -> PoolDoors:
    """Ways to the Kubernetes of the stack's pools, at which is looked in ``beside``, and to the journal of conversions."""
    from tidepool.scaling.observe.kubernetes_watch import KubernetesWatch
    from tidepool.scaling.observe.observe import PoolDoors

    context = stack.context

    def open_kubernetes(access: Mapping[str, Any]) -> KubernetesReader:
        return context.open_kubernetes({"stack": stack.name, **access}, stack.data)

    return PoolDoors(
        KubernetesWatch(open_kubernetes, beside, monotonic_s, wake),
        lambda: context.open_conversions(stack.data / stack.name / _CONVERSIONS),
    )


def policies_of(stack: Stack) -> PoliciesFile:
    """The section ``scaling`` of the stack's file."""
    from tidepool.cli.errors import Failure
    from tidepool.engine.errors import EngineError
    from tidepool.scaling.observe.policies_file import PoliciesFile

    return PoliciesFile(stack.file, lambda: described_spec(stack).scaling, (Failure, EngineError))


def checkpoint_of(stack: Stack) -> Path | None:
    """The file of the stack's state, where the backend is a folder."""
    return _files(stack)[0]


def _files(stack: Stack) -> tuple[Path | None, Path | None, Path | None]:
    """The file of the state, the folder of its locks and the engine's journal, where the backend is a folder."""
    env = stack.environment
    try:
        url = backend_url(env, stack.project.backend_url)
        layout = Layout(root_of(url, Path(env.get("HOME") or Path.home()), stack.project.root))
    except NotSupportedError:
        return None, None, None
    ref = StackReference(stack.project.name, stack.name)
    return layout.checkpoint(ref), layout.locks(ref), layout.journal(ref)
