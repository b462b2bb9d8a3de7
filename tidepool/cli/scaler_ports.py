"""The stack as the scaler sees and changes it; and one look and one decision through these ports, for a person who asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidepool.cli import show
from tidepool.cli.cluster import fleet_of
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.explain.record import Record, Source
from tidepool.cli.stack import Stack, state_files
from tidepool.cli.stack_spec import described_spec
from tidepool.clients.slurm.usage import AccountRecords
from tidepool.infrastructures.boot_times import BootTimes, ask_boot
from tidepool.infrastructures.connection import transport
from tidepool.scaling.act.act import LEAVING, adopted, applied, nodes_of, still_suspended
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decision import Decision, Launch, Suspend
from tidepool.scaling.observe.account_watch import AccountWatch
from tidepool.scaling.observe.kubernetes_watch import AtOnce
from tidepool.scaling.observe.observation import Observation
from tidepool.scaling.observe.observe import Observer, Unseen
from tidepool.scaling.ports import Intent, Kept
from tidepool.scaling.ports import Stack as ScaledStack

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tidepool.clients.kubernetes.contract import KubernetesClient
    from tidepool.cluster.spec import ClusterSpec
    from tidepool.engine.warm import WarmPulumiCommand
    from tidepool.infrastructures import Infrastructure
    from tidepool.scaling.observe.observe import PoolDoors
    from tidepool.scaling.observe.policies_file import PoliciesFile
    from tidepool.scaling.stack.pulumi_stack import PulumiStack


#: What the program imports, and what starts no threads.
_MODULES = ("tidepool.components", "tidepool.cluster.spec_reading")
_PLUGINS = ("tidepool",)
#: By SSH each is a login; nobody is in a hurry to know.
_QUESTIONS_AT_ONCE = 4
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

    checkpoint, locks, journal = state_files(stack)
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
    from tidepool.cli.pools import open_conversions
    from tidepool.scaling.observe.kubernetes_watch import KubernetesWatch
    from tidepool.scaling.observe.observe import PoolDoors
    from tidepool.scaling.observe.pool_machines import PoolMachinesWriter

    def open_kubernetes(access: Mapping[str, Any]) -> KubernetesClient:
        return stack.open_kubernetes({"stack": stack.name, **access})

    return PoolDoors(
        KubernetesWatch(open_kubernetes, beside, monotonic_s, wake),
        lambda: open_conversions(stack),
        PoolMachinesWriter(stack.name, open_kubernetes, lambda: open_conversions(stack), monotonic_s),
    )


def account_watch(
    stack: Stack, beside: Executor, monotonic_s: Callable[[], float], wake: Callable[[], None] = lambda: None
) -> AccountWatch:
    """The watch of what accounts of the stack have used, by slurmdbd's records, which are asked for in ``beside``."""
    return AccountWatch(
        lambda controller, cluster: AccountRecords(transport(controller, stack.data), cluster),
        beside,
        monotonic_s,
        wake,
    )


class BootQuestions:
    """Asks machines of the stack for the times of their boots, a few at a time; ``wake`` is called at each answer."""

    def __init__(self, data: Path, wake: Callable[[], None]) -> None:
        self._data, self._wake = data, wake
        self._beside = ThreadPoolExecutor(_QUESTIONS_AT_ONCE, thread_name_prefix="boots")

    def ask(self, connection: Mapping[str, Any]) -> Future[tuple[datetime, BootTimes]]:
        """`tidepool.scaling.daemon.launches.AskBoot`."""
        answer = self._beside.submit(self._answer, connection)
        answer.add_done_callback(lambda _: self._wake())
        return answer

    def _answer(self, connection: Mapping[str, Any]) -> tuple[datetime, BootTimes]:
        times = ask_boot(transport(connection, self._data))
        return datetime.now(UTC), times

    def close(self) -> None:
        """Ask no more."""
        self._beside.shutdown(wait=False, cancel_futures=True)


def policies_of(stack: Stack) -> PoliciesFile:
    """The section ``scaling`` of the stack's file."""
    from tidepool.engine.errors import EngineError
    from tidepool.scaling.observe.policies_file import PoliciesFile

    return PoliciesFile(stack.file, lambda: described_spec(stack).scaling, (Failure, EngineError))


def read_or_recompute(stack: Stack, source: Source) -> Record:
    """Read the journal where a daemon runs; else observe and decide now, where that is possible.

    Raises:
        Failure: there is neither.
    """
    record = source.read()
    if record.runs:
        return record
    try:
        return _decided(stack, source, record)
    except Unseen as error:
        if record.look is None:
            raise Failure(str(error), code=NOT_THERE) from error
        show.warn(f"{error}; what follows is what the last daemon saw")
        return record


def recompute(stack: Stack, source: Source) -> Record:
    """Observe and decide now, whether a daemon runs or not.

    Raises:
        Failure: Slurm does not answer, or there is no cluster.
    """
    try:
        return _decided(stack, source, source.read())
    except Unseen as error:
        raise Failure(str(error), code=NOT_THERE) from error


def preview(stack: Stack, decision: Decision, nodes: Collection[str]) -> str:
    """Preview an `up` of ``nodes``, and of no others, in Pulumi's words.

    Raises:
        StackError: Pulumi does not tell.
    """
    with warm_engine(stack) as engine:
        changed: ScaledStack = pulumi_stack(stack, engine)
        told, fleets = changed.read(), {node: fleet_of(node) for node in nodes}
        after = applied(told.fleets, decision.desired, fleets)
        new = {name for each in decision.actions if isinstance(each, Suspend) for name in each.nodes}
        places = decision.memory.locations
        return changed.preview(
            after,
            nodes,
            locations={name: places[name] for name in nodes if name in places},
            suspended=still_suspended(told.suspended, fleets, new),
        )


def _decided(stack: Stack, source: Source, record: Record) -> Record:
    stack.require_root()
    journal = source.journal
    kept, doing = (journal.kept(), journal.open_intents()) if journal else (Kept(), ())

    with warm_engine(stack) as engine:
        changed = pulumi_stack(stack, engine)
        machines = machines_of(stack, changed)
        pools = pool_ports(stack, AtOnce(), time.monotonic)
        accounts = account_watch(stack, AtOnce(), time.monotonic)
        observer = Observer(
            stack.name,
            changed,
            machines,
            stack.open_slurm,
            policies_of(stack),
            pools=pools,
            accounts=accounts,
        )
        with closing(observer):
            seen = observer.look(is_active=True, memory=kept.memory)
    for what in seen.complaints.values():
        show.warn(what)
    state = _state(seen, kept, doing)
    return record.recomputed(state, decide(state, kept.memory))


def _state(seen: Observation, kept: Kept, doing: Collection[Intent]) -> ClusterState:
    """Return the state of the cluster that the daemon would decide on."""
    wish = adopted(
        kept.desired or {},
        seen.told.fleets,
        seen.seen.recorded or (),
        nodes_of(doing, Launch),
        nodes_of(doing, LEAVING),
    )
    return replace(
        seen.seen,
        at=datetime.now(UTC),
        desired=wish,
        under_way=nodes_of(doing),
        power_up=kept.power_up,
        power_down=kept.power_down,
    )
