"""Looks and decides once, for a person who asks. It acts on nothing, and writes nothing down."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from tidepool.cli import show
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.explain.record import Record, Source, fleet_of
from tidepool.cli.scaler_ports import machines_of, policies_of, pool_ports, pulumi_stack, warm_engine
from tidepool.cli.stack import Stack
from tidepool.clients.slurm import SlurmClient
from tidepool.scaling.act.act import adopted, applied, nodes_of
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decision import Decision, Launch, Remove
from tidepool.scaling.observe.kubernetes_watch import AtOnce
from tidepool.scaling.observe.observation import Observation
from tidepool.scaling.observe.observe import Observer, Unseen
from tidepool.scaling.ports import Intent, Kept
from tidepool.scaling.ports import Stack as ScaledStack


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
    """With what is seen and decided now, whether a daemon runs or not.

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
        after = applied(changed.read().fleets, decision.desired, {node: fleet_of(node) for node in nodes})
        places = decision.memory.locations
        return changed.preview(
            after, nodes, locations={name: places[name] for name in nodes if name in places}
        )


def _decided(stack: Stack, source: Source, record: Record) -> Record:
    stack.require_root()
    journal = source.journal
    kept, doing = (journal.kept(), journal.open_intents()) if journal else (Kept(), ())

    def open_slurm(connection: Mapping[str, Any]) -> SlurmClient:
        return stack.context.open_slurm(connection, stack.data)

    with warm_engine(stack) as engine:
        changed = pulumi_stack(stack, engine)
        machines = machines_of(stack, changed)
        pools = pool_ports(stack, AtOnce(), time.monotonic)
        observer = Observer(stack.name, changed, machines, open_slurm, policies_of(stack), pools=pools)
        with closing(observer):
            seen = observer.look(is_active=True)
    for what in seen.complaints.values():
        show.warn(what)
    state = _state(seen, kept, doing)
    return record.recomputed(state, decide(state, kept.memory))


def _state(seen: Observation, kept: Kept, doing: Collection[Intent]) -> ClusterState:
    """Return the state of the cluster that the daemon would decide on."""
    wish = adopted(
        kept.desired or {},
        seen.told.fleets,
        seen.recorded or (),
        nodes_of(doing, Launch),
        nodes_of(doing, Remove),
    )
    return seen.cluster_state(
        datetime.now(UTC),
        desired=wish,
        under_way=nodes_of(doing),
        power_up=kept.power_up,
        power_down=kept.power_down,
    )
