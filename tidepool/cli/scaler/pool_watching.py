"""What `watch` shows of converged pools, worked out of a `Record`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidepool.cli.scaler.conversion_words import deadline, holds, phase_words, what_comes
from tidepool.cli.scaler.record import Record
from tidepool.cluster.roles import Role
from tidepool.conversion.record import Conversion
from tidepool.scaling.decision import Decision, MachineStanding, Standing


@dataclass(frozen=True, slots=True)
class MovingView:
    """A conversion under way: of which machine, to what, since when, how far, what holds it, until when and what then."""

    node: str
    to: Role
    since: datetime
    words: str
    by: str
    reason: str
    holds: tuple[str, ...]
    deadline: datetime | None
    what_comes: str


@dataclass(frozen=True, slots=True)
class PoolWatch:
    """A pool: how many of its machines have which role (None: on their way, or not known), and how they stand.

    ``trouble`` tells of machines that are set back; empty without.
    """

    name: str
    machines: int
    roles: Mapping[Role | None, int]
    standings: Mapping[MachineStanding, int]
    moving: tuple[MovingView, ...]
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class WaitingPodsView:
    """Pods that wait for one reason, by their names."""

    standing: Standing
    reason: str
    pods: tuple[str, ...]


def pool_watches(record: Record, decision: Decision) -> Iterator[PoolWatch]:
    """A view of each pool of the spec."""
    going = (
        [each for each in (record.state.pools.conversions or ()) if each.is_under_way] if record.state else []
    )
    for pool in record.spec.pools if record.spec else ():
        views = {node: view for node, view in decision.machines.items() if view.pool == pool.name}
        moving = {each.order.node for each in going if each.order.pool == pool.name}
        roles = Counter(None if node in moving else view.role for node, view in views.items())
        back = decision.memory.pools.backoffs
        late = [
            f"{node}: {back[node].text}"
            for node in sorted(views)
            if node in back and back[node].until > record.now
        ]
        yield PoolWatch(
            name=pool.name,
            machines=pool.machines,
            roles=roles,
            standings=Counter(view.standing for view in views.values()),
            moving=tuple(_moving(each, record.now) for each in going if each.order.pool == pool.name),
            trouble="; ".join(late),
        )


def waiting_pods(decision: Decision) -> tuple[WaitingPodsView, ...]:
    """The pods that wait, by what they wait for."""
    groups: dict[tuple[Standing, str], list[str]] = {}
    for each in decision.waiting_pods.values():
        groups.setdefault((each.standing, each.reason), []).append(each.pod)
    return tuple(WaitingPodsView(standing, why, tuple(pods)) for (standing, why), pods in groups.items())


def _moving(conversion: Conversion, now: datetime) -> MovingView:
    order = conversion.order
    return MovingView(
        node=order.node,
        to=order.to,
        since=order.at,
        words=phase_words(conversion),
        by=order.by,
        reason=order.reason,
        holds=tuple(holds(conversion)),
        deadline=deadline(conversion),
        what_comes=what_comes(conversion, now),
    )
