"""Machines of pools for people who look at Kubernetes alone, as `kubectl get poolmachines` tells of them. Texts are pure.

They are told of after all else was done, and nobody waits for it: it costs a conversion nothing, and what cannot be written
holds up nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from tidepool.clients.kubernetes.contract import KubernetesClient, KubernetesError
from tidepool.clients.kubernetes.objects import Node, PoolMachine
from tidepool.cluster.roles import Role
from tidepool.conversion.next_step import SAID
from tidepool.conversion.record import Conversion

_NAMED: Final = 4
_UNTOLD: Final = "no conversion of it is known: it has served so for long, or since it was made"


def pool_machine(
    name: str,
    pool: str,
    stack: str,
    role: Role | None,
    conversions: Sequence[Conversion],
    *,
    node: str = "",
    jobs: Iterable[int] = (),
    amiss: str = "",
) -> PoolMachine:
    """Return what is told of a machine. ``conversions`` are its own, the newest first; ``amiss`` is what is wrong with it."""
    going = next((each for each in conversions if each.is_under_way), None)
    last = next((each for each in conversions if not each.is_under_way), None)
    taken = next((each for each in conversions if each.phase == "done" and each.order.to == role), None)
    if going is not None:
        how = f": {going.text}" if going.text else ""
        reason = f"{_ordered(going)}; it moves to {SAID[going.order.to]} ({going.phase}{how})"
    elif amiss:
        reason = amiss
    elif last is not None and last.phase == "failed":
        reason = f"its conversion to {SAID[last.order.to]} failed: {last.text}"
    else:
        reason = _ordered(taken) if taken is not None else _UNTOLD
    ids = sorted(jobs)
    more = ", ..." if len(ids) > _NAMED else ""
    return PoolMachine(
        name,
        stack,
        pool,
        SAID[role] if role is not None else "None",
        node or ("Absent" if role != "kubernetes" else "Unknown"),
        ", ".join(map(str, ids[:_NAMED])) + more,
        _moment(taken.ended) if taken is not None and taken.ended is not None else "",
        reason,
    )


def node_word(node: Node | None) -> str:
    """Return how Kubernetes has a machine, in a word."""
    if node is None:
        return "Absent"
    if not node.ready:
        return "NotReady"
    return "Held" if node.unschedulable else "Ready"


def show(client: KubernetesClient, stack: str, wanted: Collection[PoolMachine]) -> None:
    """Have it told of the machines of a stack, and of no others: what is so already is not written.

    Raises:
        KubernetesError: it cannot be; where the API server knows no such kind, as `NotFound`.
    """
    there = {each.name: each for each in client.pool_machines(stack)}
    for machine in wanted:
        if there.pop(machine.name, None) != machine:
            client.put_pool_machine(machine)
    for name in there:
        client.delete_pool_machine(name)


def without_failing(write: Callable[[], None]) -> None:
    """Write, where that can be: an API server that does not know the kind, or gives no right to it, shows nothing."""
    try:
        write()
    except KubernetesError:
        return


def _ordered(conversion: Conversion) -> str:
    return f"{conversion.order.by}: {conversion.order.reason}"


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
