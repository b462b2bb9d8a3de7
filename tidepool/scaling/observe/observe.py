"""Looks at Slurm, at the stack and at the machines, each as often as it is worth; believes nothing at once that is odd.

What changes by itself is looked at often: the queue. What only changes with something else, or seldom, is looked at
when there is a reason, or now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from tidepool.clients.slurm import Job, Node, NotFound, Partition, Reservation, SlurmClient, SlurmError
from tidepool.cluster.failures import InfrastructureError
from tidepool.cluster.hostlist import fold
from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import ClusterSpec
from tidepool.conversion.journal import Journal, as_driven
from tidepool.conversion.ports import ConversionError
from tidepool.conversion.record import Conversion, newest
from tidepool.infrastructures import Infrastructure, Machine
from tidepool.infrastructures.several import Listing, listing
from tidepool.scaling.cluster_state import ClusterState, PoolsState
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.account_watch import AccountWatch, Held
from tidepool.scaling.observe.kubernetes_watch import KubernetesWatch
from tidepool.scaling.observe.observation import Observation, PoolsRecheck, Recheck
from tidepool.scaling.observe.policies_file import PoliciesFile
from tidepool.scaling.observe.pool_machines import PoolMachinesWriter, pool_machine_states
from tidepool.scaling.observe.source import TIMES, PollInterval, Source, lost_nodes, unexplained
from tidepool.scaling.ports import NotUp, Stack, StackError, StackOutputs
from tidepool.scaling.usage import AccountUsage

_T = TypeVar("_T")

#: While something is going on, and while nothing is.
_NODES: Final = {True: PollInterval(0.1, 0.1, 5), False: PollInterval(0.006, 5, 30)}
_MACHINES: Final = {True: PollInterval(0.05, 1, 20), False: PollInterval(0.004, 15, 120)}
_PARTITIONS: Final = {True: PollInterval(0.02, 5, 30), False: PollInterval(0.002, 20, 120)}
#: They say which nodes people want to have for themselves, and from when on.
_RESERVATIONS: Final = {True: PollInterval(0.02, 2, 30), False: PollInterval(0.002, 10, 60)}
_STACK: Final = PollInterval(0.1, 0, 5)
_CONVERSIONS: Final = PollInterval(0.1, 0.1, 5)
#: How far back those that ended are of interest; a stay may be longer.
_CONVERSIONS_OF: Final = timedelta(hours=1)
_MOST_CONVERSIONS: Final = 10_000
#: What the cluster's own machines are called that have a number.
_OWN: Final = frozenset({"login"})


_NO_MEMORY: Final = Memory()


class Unseen(Exception):
    """There is nothing to decide on: hold still. The text is for a person.

    ``is_down`` says that there is no cluster, which is no failure.
    """

    def __init__(self, what: str, remedy: str = "", *, is_down: bool = False) -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.is_down = is_down


class PoolsUnseen(Exception):
    """No machine of a pool can be moved, and all else goes on. The text is for a person."""


@dataclass(slots=True)
class _Sources:
    jobs: Source[tuple[Job, ...]] = field(default_factory=Source)
    nodes: Source[tuple[Node, ...]] = field(default_factory=Source)
    partitions: Source[tuple[Partition, ...]] = field(default_factory=Source)
    reservations: Source[tuple[Reservation, ...]] = field(default_factory=Source)
    machines: Source[Listing] = field(default_factory=Source)
    stack: Source[StackOutputs] = field(default_factory=Source)
    conversions: Source[tuple[Conversion, ...]] = field(default_factory=Source)


@dataclass(frozen=True, slots=True)
class PoolDoors:
    """Access to converged pools: looks at their Kubernetes, and the journal of conversions."""

    kubernetes: KubernetesWatch
    #: Called where there is a pool; it may raise `ConversionError`.
    open_conversions: Callable[[], Journal]
    #: Tells people who look at Kubernetes where machines of pools are.
    writer: PoolMachinesWriter | None = None


class Observer:
    """Looks. ``open_slurm`` gives the client of the Slurm whose controller a connection names.

    ``machines`` is where the fleets' machines come from. Without ``pools``, nothing is known of machines of pools,
    and without ``accounts`` of what accounts have used. Not for several threads at once, but for `recheck`.
    """

    def __init__(
        self,
        name: str,
        stack: Stack,
        machines: Infrastructure,
        open_slurm: Callable[[Mapping[str, Any]], SlurmClient],
        policies: PoliciesFile | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
        pools: PoolDoors | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        accounts: AccountWatch | None = None,
    ) -> None:
        self._name = name
        self._stack = stack
        self._infrastructure = machines
        self._open_slurm = open_slurm
        self._policies = policies
        self._monotonic_s = monotonic_s
        self._pools = pools
        self._now = now
        self._accounts = accounts
        self._conversions: Journal | None = None
        self._slurm: SlurmClient | None = None
        self._controller: Mapping[str, Any] | None = None
        self._sources = _Sources()
        self._names: frozenset[str] = frozenset()
        self._version = ""
        #: By source, an answer that is doubted, and how often it was given in a row.
        self._answers: dict[str, tuple[Collection[str] | None, int]] = {}
        self._complaints: dict[str, str] = {}

    @property
    def slurm(self) -> SlurmClient:
        """The client of the cluster that was seen last."""
        assert self._slurm is not None, "nothing was seen yet"
        return self._slurm

    @property
    def cost_s(self) -> float:
        """Return how long the look at the queue took, which every look has."""
        return self._sources.jobs.cost_s

    def look(self, *, is_active: bool, reads_stack: bool = True, memory: Memory = _NO_MEMORY) -> Observation:
        """One look. ``is_active`` says that something is going on, so that more is looked at, and more often.

        Without ``reads_stack`` the stack is as it was: while it changes, its state says little. ``memory`` says what is
        known of budgets of accounts.

        Raises:
            Unseen: Slurm does not answer, or what it says is not believed yet; or there is no cluster.
        """
        told = self._read_stack(reads_stack)
        try:
            jobs, nodes = self._look_at_slurm(told, is_active)
            partitions = self._ask(self._sources.partitions, _PARTITIONS[is_active], self.slurm.partitions)
            reservations = self._ask(
                self._sources.reservations, _RESERVATIONS[is_active], self.slurm.reservations
            )
        except (SlurmError, OSError) as error:
            # Whatever is seen next is seen anew.
            self._sources = _Sources(stack=self._sources.stack, machines=self._sources.machines)
            raise _unseen(error) from error
        listed = self._list_machines(is_active)
        spec = self._policies.in_force(told.spec) if self._policies else told.spec
        self._complain("policies", self._policies.mistake if self._policies else "")
        pools = self._look_at_pools(told, is_active)
        used = self._look_at_accounts(told, spec, memory, is_active)
        return Observation(
            told,
            ClusterState(
                at=self._now(),
                spec=spec,
                nodes=nodes,
                jobs=jobs,
                partitions=partitions,
                reservations=reservations,
                machines=listed.machines if listed is not None else None,
                silent=frozenset(listed.silent) if listed is not None else frozenset(),
                recorded=None if "stack" in self._complaints else told.recorded,
                images=told.images,
                pools=pools,
                usage=used,
            ),
            self._lag_s(),
            dict(self._complaints),
        )

    def recheck(self, names: Collection[str], *, machines: bool = False) -> Recheck:
        """These nodes now. Those that Slurm does not know are missing.

        With ``machines``, also the machines that are listed, and what is recorded.

        Raises:
            Unseen: something of it cannot be seen.
        """
        try:
            jobs = self.slurm.jobs()
            found = self._nodes_of(names)
            listed = self._listed() if machines else None
            recorded = self._stack.read().recorded if machines else {}
        except (SlurmError, InfrastructureError, StackError, OSError) as error:
            raise _unseen(error) from error
        return Recheck(
            {node.name: node for node in found},
            jobs,
            listed.machines if listed is not None else None,
            recorded,
            frozenset(listed.silent) if listed is not None else frozenset(),
        )

    def recheck_pools(self, names: Collection[str], since_s: float) -> PoolsRecheck | None:
        """These machines of pools, from all sides: of Kubernetes what a look that began after ``since_s`` saw.

        None: there is no such look yet. Another thread makes it; ask again.

        Raises:
            PoolsUnseen: something of it cannot be seen that is of pools alone.
            Unseen: Slurm cannot be asked.
        """
        assert self._pools is not None, "there are no pools"
        seen, failure = self._pools.kubernetes.since(since_s)
        if failure:
            raise PoolsUnseen(failure)
        if seen is None:
            return None
        try:
            under_way = {
                name: as_driven(found) for name in names if (found := self.conversions.under_way(name))
            }
            recorded = self._stack.read().roles
        except (ConversionError, StackError) as error:
            raise PoolsUnseen(str(error)) from error
        bound = tuple(pod for pod in seen.pods if pod.node)
        nodes = {node.name: node for node in seen.nodes}
        return PoolsRecheck(self.recheck(names), nodes, bound, under_way, recorded, self._now())

    @property
    def conversions(self) -> Journal:
        """The journal of conversions.

        Raises:
            ConversionError: it cannot be opened.
        """
        assert self._pools is not None, "there are no pools"
        if self._conversions is None:
            self._conversions = self._pools.open_conversions()
        return self._conversions

    def show_pools(self, told: StackOutputs, cluster: ClusterState, decision: Decision) -> None:
        """Have people who look at Kubernetes see what was decided of machines of pools. Nobody waits for it."""
        if self._pools is not None and self._pools.writer is not None and decision.machines:
            self._pools.writer.show(told.kubernetes, pool_machine_states(cluster, decision))

    def expect(self) -> None:
        """Something was changed: look at all that it may have changed next time."""
        for source in (
            self._sources.nodes,
            self._sources.machines,
            self._sources.stack,
            self._sources.conversions,
        ):
            source.expire()
        if self._pools is not None:
            self._pools.kubernetes.expect()

    def _lag_s(self) -> Mapping[str, float]:
        now_s = self._monotonic_s()
        sources: Mapping[str, Source[Any]] = {
            each.name: getattr(self._sources, each.name) for each in fields(self._sources)
        }
        lags = {name: now_s - each.at_s for name, each in sources.items() if each.value is not None}
        if self._pools is not None and self._pools.kubernetes.lag_s != float("inf"):
            lags["kubernetes"] = self._pools.kubernetes.lag_s
        return lags

    def close(self) -> None:
        if self._slurm is not None:
            self._slurm.close()
        if self._pools is not None:
            self._pools.kubernetes.close()
            if self._pools.writer is not None:
                self._pools.writer.close()
        if self._conversions is not None:
            self._conversions.close()
            self._conversions = None
        if self._accounts is not None:
            self._accounts.close()

    # Slurm

    def _look_at_slurm(self, told: StackOutputs, is_active: bool) -> tuple[tuple[Job, ...], tuple[Node, ...]]:
        if self._slurm is None or self._controller != told.controller:
            if self._slurm is not None:
                self._slurm.close()
            self._slurm, self._controller = self._open_slurm(told.controller), told.controller
            self._sources = _Sources(stack=self._sources.stack)
            self._names = frozenset()
        if told.version != self._version:
            # A person may have taken fleets away, and their slots with them.
            self._names, self._version = frozenset(), told.version
            self._sources.nodes.expire()
        before = self._sources.jobs.value
        jobs = self._ask(self._sources.jobs, PollInterval(1, 0, 0), self.slurm.jobs)
        if jobs != before:
            self._sources.nodes.expire()
        nodes = self._ask(self._sources.nodes, _NODES[is_active], self.slurm.nodes)
        if unexplained(nodes, jobs):
            # What was looked at first may be older than what was looked at then.
            jobs = self._ask(self._sources.jobs, PollInterval(1, 0, 0), self.slurm.jobs)
            nodes = self._ask(self._sources.nodes, PollInterval(1, 0, 0), self.slurm.nodes)
        self._check_nodes(told, nodes)
        self._check_jobs(nodes, jobs)
        return jobs, nodes

    def _check_nodes(self, told: StackOutputs, nodes: tuple[Node, ...]) -> None:
        lost = lost_nodes(self._names, nodes)
        if told.spec.fleets and not nodes:
            lost = lost or frozenset({fleet.name for fleet in told.spec.fleets})
        if self._is_implausible("nodes", lost):
            self._sources.nodes.expire()
            raise Unseen(
                f"Slurm tells of {len(nodes)} nodes, and not of {fold(sorted(lost))} any more; it is asked again"
            )
        self._names = frozenset(node.name for node in nodes)

    def _check_jobs(self, nodes: tuple[Node, ...], jobs: tuple[Job, ...]) -> None:
        busy = unexplained(nodes, jobs)
        if self._is_implausible("jobs", busy):
            raise Unseen(f"Slurm tells of no job that runs, and {fold(busy)} has some; it is asked again")

    def _is_implausible(self, source: str, answer: Collection[str]) -> bool:
        if not answer:
            self._answers.pop(source, None)
            return False
        before, times = self._answers.get(source, (None, 0))
        times = times + 1 if answer == before else 1
        self._answers[source] = answer, times
        return times < TIMES

    def _nodes_of(self, names: Collection[str]) -> tuple[Node, ...]:
        if not names:
            return ()
        try:
            return self.slurm.nodes(fold(names))
        except NotFound:
            wanted = set(names)
            return tuple(node for node in self.slurm.nodes() if node.name in wanted)

    # The rest

    def _read_stack(self, reads: bool) -> StackOutputs:
        source, now_s = self._sources.stack, self._monotonic_s()
        if source.value is not None and not (reads and source.is_due(now_s, _STACK)):
            return source.value
        try:
            told = self._stack.read()
        except NotUp as error:
            self._sources = _Sources()
            raise Unseen(str(error), "`tidepool up` brings it up", is_down=True) from error
        except StackError as error:
            if source.value is None:
                raise Unseen(str(error)) from error
            self._complain("stack", str(error))
            return source.value
        self._complain("stack", "")
        now_s, began_s = self._monotonic_s(), now_s
        # Where nothing changed it costs next to nothing, which says nothing of the next time.
        if source.value is None or told.version != source.value.version:
            source.cost_s = now_s - began_s
        source.value, source.at_s = told, now_s
        return told

    def _list_machines(self, is_active: bool) -> Listing | None:
        try:
            found = self._ask(self._sources.machines, _MACHINES[is_active], self._listed)
        except (InfrastructureError, OSError) as error:
            self._complain("machines", str(error))
            return None
        said = [f"machines of {name}: {text}" for name, text in found.silent.items()]
        said += dict.fromkeys(machine.why for machine in found.machines if machine.why)
        self._complain("machines", "; ".join(said))
        return found

    def _look_at_pools(self, told: StackOutputs, is_active: bool) -> PoolsState:
        """After the stack was read: what a conversion came to is in its journal before it is in the state."""
        if not told.spec.pools or self._pools is None:
            return PoolsState()
        conversions, unread = self._ended_and_under_way(told)
        seen, unseen = self._pools.kubernetes.latest(told.kubernetes, told.roles, is_active=is_active)
        self._complain("kubernetes", self._pools.kubernetes.failure)
        self._complain("conversions", unread)
        unknown = [self._complaints.get("stack", ""), unread, unseen]
        return PoolsState(
            roles=None if "stack" in self._complaints else told.roles,
            kubernetes=seen,
            kubernetes_at=self._now() - timedelta(seconds=self._pools.kubernetes.lag_s) if seen else None,
            conversions=conversions,
            unseen="; ".join(filter(None, unknown)),
        )

    def _look_at_accounts(
        self, told: StackOutputs, spec: ClusterSpec, memory: Memory, is_active: bool
    ) -> AccountUsage | None:
        if self._accounts is None:
            return None
        used = self._accounts.latest(told.controller, spec, self._now(), memory, is_active=is_active)
        self._complain("accounts", self._accounts.failure)
        return used

    def hold_accounts(self, spec: ClusterSpec, spent: Collection[str], former: Collection[str]) -> Held:
        """Have Slurm begin no job of accounts that are ``spent``, as `AccountWatch.hold`."""
        return self._accounts.hold(spec, spent, former) if self._accounts is not None else Held()

    def _ended_and_under_way(self, told: StackOutputs) -> tuple[tuple[Conversion, ...] | None, str]:
        stays_s = max(pool.minimum_stay_s for pool in told.spec.pools)
        since = self._now() - max(_CONVERSIONS_OF, timedelta(seconds=stays_s))
        try:
            found = self._ask(
                self._sources.conversions,
                _CONVERSIONS,
                lambda: newest(
                    map(as_driven, self.conversions.conversions(since=since, limit=_MOST_CONVERSIONS))
                ),
            )
        except ConversionError as error:
            return None, str(error)
        return found, ""

    def _listed(self) -> Listing:
        found = listing(self._infrastructure, self._name)
        return replace(found, machines=tuple(each for each in found.machines if _is_of_a_node(each)))

    def _ask(self, source: Source[_T], poll: PollInterval, ask: Callable[[], _T]) -> _T:
        began_s = self._monotonic_s()
        if source.value is not None and not source.is_due(began_s, poll):
            return source.value
        value = ask()
        now_s = self._monotonic_s()
        source.value, source.at_s, source.cost_s = value, now_s, now_s - began_s
        return value

    def _complain(self, source: str, text: str) -> None:
        if text:
            self._complaints[source] = text
        else:
            self._complaints.pop(source, None)


def _unseen(error: Exception) -> Unseen:
    if isinstance(error, SlurmError):
        return Unseen(f"{error.what} ({error.where})", error.remedy)
    return Unseen(str(error))


def _is_of_a_node(machine: Machine) -> bool:
    """Return whether it is no machine of the cluster's own: ctl, login-1."""
    try:
        fleet, _ = fleet_and_number(machine.key.node)
    except ValueError:
        return False
    return fleet not in _OWN
