"""Desired state of a cluster: nodes, roles and placements by name, never by count, for a count removes the wrong node.

Programs and providers are told of it by environment variables, for an operation has no other arguments.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from tidepool.cluster import addresses
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import Slot, fleet_and_number

if TYPE_CHECKING:  # the provider, which asks whether it is forced, loads no models
    from tidepool.cluster.fleet import Fleet
    from tidepool.cluster.pool import ConvergedPool
    from tidepool.cluster.roles import Role


def node_placements(fleet: Fleet, nodes: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return, by node, the key of the infrastructure that its machine is from.

    ``known`` are those that are decided: by the scaler, or because the machine is there. Every other node is where there
    is room by `max_nodes`, the first in the fleet's order.

    Raises:
        ValueError: a node is known to be where the fleet has no infrastructure any more; or there is no room.
    """
    nodes = tuple(nodes)
    found = {node: known[node] for node in nodes if node in known}
    keys = [entry.key for entry in fleet.infrastructures]
    if strange := sorted({key for key in found.values() if key not in keys}):
        there = HostSet.from_names([node for node, key in found.items() if key == strange[0]])
        raise ValueError(
            f"{there} of fleet {fleet.name} is on {strange[0]}, and the fleet's infrastructures are {', '.join(keys)}: nodes "
            f"stay where they were made. Write {strange[0]} there again, last and with max_nodes: 0; when the scaler has "
            "taken its nodes away, leave it out"
        )
    taken = Counter(found.values())
    for node in nodes:
        if node in found:
            continue
        room = (each.key for each in fleet.infrastructures if taken[each.key] < fleet.most_nodes(each))
        key = next(room, None)
        if key is None:
            if len(keys) > 1:
                raise ValueError(
                    f"there is no room for {node} on any infrastructure of fleet {fleet.name}: raise max_nodes of one of "
                    f"{', '.join(keys)}, or lower min_nodes"
                )
            key = keys[0]  # of a fleet of one infrastructure the excess is the scaler's to drain
        found[node] = key
        taken[key] += 1
    return found


def placements_to_json(places: Mapping[str, str]) -> dict[str, str]:
    """Return a hostlist by key, as outputs and variables have it."""
    by_key: defaultdict[str, list[str]] = defaultdict(list)
    for node, key in places.items():
        by_key[key].append(node)
    return {key: str(HostSet.from_names(nodes)) for key, nodes in sorted(by_key.items())}


def read_placements(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the key of each node, from what `placements_to_json` gives.

    Raises:
        ValueError: it is not that.
    """
    return {node: key for key, nodes in stored.items() for node in HostSet(nodes)}


def node_set(fleet: Fleet, *, desired: str | None = None, last: str | None = None) -> HostSet:
    """The nodes that a fleet should have.

    Args:
        fleet: the fleet as the spec has it now.
        desired: a hostlist of the scaler's, which is taken as it is; None where no scaler speaks.
        last: a hostlist of those that the stack's outputs tell of, so that a person's `up` undoes no decision of
            the scaler; None where they tell of none. Where it is fewer than `min_nodes`, the first free slots are
            added. Nodes above `max_nodes` stay: they go when they are drained, which is the scaler's to do.

    Raises:
        ValueError: a name is no slot of the fleet, or is desired anew above `max_nodes`.
    """
    before = HostSet(last or "")
    if desired is not None:
        nodes = HostSet(desired)
        slots_of(fleet, nodes)
        if excess := [node for node in nodes - before if fleet_and_number(node)[1] > fleet.max_nodes]:
            raise ValueError(
                f"fleet {fleet.name} gets no node {excess[0]}: its max_nodes is {fleet.max_nodes}"
            )
        return nodes
    slots_of(fleet, before)
    free = (slot.node_name for slot in fleet.slots() if slot.node_name not in before)
    missing = max(0, fleet.min_nodes - len(before))
    return before | HostSet.from_names([name for name, _ in zip(free, range(missing), strict=False)])


def all_slots(fleet: Fleet, nodes: HostSet) -> tuple[Slot, ...]:
    """The slots that Slurm is told of, by number: those of the fleet, and of ``nodes`` above `max_nodes`.

    Those are there until somebody drains them, and Slurm must not forget them.
    """
    return tuple(sorted({*fleet.slots(), *slots_of(fleet, nodes)}, key=lambda slot: slot.number))


def slots_of(fleet: Fleet, nodes: HostSet) -> tuple[Slot, ...]:
    """The slots whose nodes are ``nodes``, by number; those above `max_nodes` too, as far as the subnet goes.

    Raises:
        ValueError: one of them is no slot of the fleet; says which are.
    """
    found = []
    for node in nodes:
        try:
            name, number = fleet_and_number(node)
        except ValueError:
            name, number = "", 0
        if name != fleet.name or number > addresses.capacity(fleet.subnet):
            raise ValueError(
                f"{node} is no node of fleet {fleet.name}: its slots are {fleet.name}-[1-{fleet.max_nodes}]; "
                f"raise max_nodes for more, up to the {addresses.capacity(fleet.subnet)} of {fleet.subnet}"
            )
        found.append(Slot(fleet.name, number, fleet.subnet))
    return tuple(sorted(found, key=lambda slot: slot.number))


def role_set(
    pool: ConvergedPool, *, desired: str | None = None, last: str | None = None
) -> Mapping[str, Role]:
    """The role of each of a pool's machines, by node name, in the order of its slots.

    Args:
        pool: the pool as the spec has it now.
        desired: a hostlist of the machines that are to serve Kubernetes, of the scaler's or of a person who converts; it
            is taken as it is. None where nobody speaks.
        last: the hostlist of those that the stack's outputs tell of, so that a person's `up` moves no machine that the
            scaler moved; None where there is none. Where a minimum is missed, or a maximum exceeded, the last machines
            that have the other role change.

    Raises:
        ValueError: a name is no machine of the pool, or the desired roles break a minimum or a maximum by more than ``last`` does;
            says which.
    """
    names = [slot.node_name for slot in pool.slots()]
    said = HostSet(last or "") if desired is None else HostSet(desired)
    if desired is not None and (unknown := [name for name in said if name not in set(names)]):
        raise ValueError(
            f"{unknown[0]} is no machine of the pool {pool.name}: its machines are {pool.name}-[1-{pool.machines}]"
        )
    # A machine that the pool no longer has serves nobody.
    roles: dict[str, Role] = {name: "kubernetes" if name in said else "slurm" for name in names}
    least, most = pool.least("kubernetes"), pool.most("kubernetes")
    least = max(least, pool.machines - pool.most("slurm"))
    most = min(most, pool.machines - pool.least("slurm"))
    serving = [name for name in names if roles[name] == "kubernetes"]
    if desired is not None:
        # Where a conversion failed fewer serve than should, and one after the other mends it.
        before = HostSet(last or "")
        were = [name for name in names if name in before]
        missed = 0 if last is None else _off(len(were), least, most)
        if _off(len(serving), least, most) > missed:
            raise ValueError(
                f"pool {pool.name}: {len(serving)} of its {pool.machines} machines would serve Kubernetes; between "
                f"{least} and {most} can, by slurm_min, slurm_max, kubernetes_min and kubernetes_max"
            )
        return roles
    others = [name for name in names if roles[name] == "slurm"]
    for name in others[len(others) - max(0, least - len(serving)) :]:
        roles[name] = "kubernetes"
    for name in serving[max(0, most) :]:
        roles[name] = "slurm"
    return roles


def _off(serving: int, least: int, most: int) -> int:
    """Count the machines by which a limit is missed."""
    return max(least - serving, serving - most, 0)


#: The variable of the nodes: JSON, by fleet a hostlist.
NODES_VARIABLE: Final = "TIDEPOOL_WISH"
#: That of their roles: JSON, by pool a hostlist of the machines that serve Kubernetes; the others serve Slurm.
ROLES_VARIABLE: Final = "TIDEPOOL_WISH_ROLES"
#: That of the placements: JSON, by fleet and by the key of an infrastructure a hostlist. Nodes that it does not name stay
#: where they are.
PLACEMENTS_VARIABLE: Final = "TIDEPOOL_WISH_PLACES"
#: That of the machines that should be suspended: JSON, by fleet a hostlist. Fleets that it does not name stay as they are.
SUSPENDED_VARIABLE: Final = "TIDEPOOL_WISH_SUSPENDED"
#: With either, that of the nodes which the operation is limited to: a hostlist.
ONLY_VARIABLE: Final = "TIDEPOOL_WISH_ONLY"


class DesiredNodesError(ValueError):
    """The variables hold no desired state; the text says which of them, and what is expected."""


@dataclass(frozen=True, slots=True)
class DesiredNodes:
    """The nodes that should be there, by fleet, and the machines that should serve Kubernetes, by pool.

    Fleets and pools that it does not name stay as they are.

    With ``only`` it is for an operation that is limited to those nodes by ``--target``: the program registers no others,
    so that it takes no longer in a large cluster. Without the targets, the operation would take the others away.
    """

    nodes: Mapping[str, HostSet]
    only: HostSet | None = None
    kubernetes: Mapping[str, HostSet] = field(default_factory=dict)
    #: By fleet and node, the key of the infrastructure that it is to be made on.
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: By fleet, the machines that should be suspended: none of ``nodes``.
    suspended: Mapping[str, HostSet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.only is not None and not self.only:
            raise ValueError("a wish is about some nodes, or about all; it cannot be about none")

    @property
    def environment(self) -> dict[str, str]:
        variables = {NODES_VARIABLE: _hostlists_to_json(self.nodes)}
        if self.kubernetes:
            variables[ROLES_VARIABLE] = _hostlists_to_json(self.kubernetes)
        if any(self.places.values()):
            variables[PLACEMENTS_VARIABLE] = json.dumps(
                {name: placements_to_json(places) for name, places in sorted(self.places.items()) if places}
            )
        if self.suspended:
            variables[SUSPENDED_VARIABLE] = _hostlists_to_json(self.suspended)
        return variables if self.only is None else {**variables, ONLY_VARIABLE: str(self.only)}

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the desired state in ``environment``; None where there is none.

        Raises:
            DesiredNodesError: there is one that cannot be read.
        """
        nodes, kubernetes = environment.get(NODES_VARIABLE), environment.get(ROLES_VARIABLE)
        if nodes is None and kubernetes is None:
            return None
        only = environment.get(ONLY_VARIABLE, "")
        return cls(
            _read_hostlists(NODES_VARIABLE, "fleet", "cpu", nodes),
            _hosts(only, ONLY_VARIABLE) if only else None,
            _read_hostlists(ROLES_VARIABLE, "pool", "shared", kubernetes),
            _read_placements(environment.get(PLACEMENTS_VARIABLE)),
            _read_hostlists(SUSPENDED_VARIABLE, "fleet", "cpu", environment.get(SUSPENDED_VARIABLE)),
        )


def _hostlists_to_json(hosts: Mapping[str, HostSet]) -> str:
    return json.dumps({name: str(nodes) for name, nodes in hosts.items()})


def _read_hostlists(variable: str, kind: str, example: str, text: str | None) -> dict[str, HostSet]:
    """Read what ``variable`` says, by fleet or pool; nothing where it is not there."""
    if text is None:
        return {}
    try:
        said = json.loads(text)
    except ValueError as error:
        raise DesiredNodesError(f"{variable} is not JSON: {error}") from None
    if not isinstance(said, dict) or not all(isinstance(hosts, str) for hosts in said.values()):
        raise DesiredNodesError(
            f'{variable} should be hostlists by {kind}, as in {{"{example}": "{example}-[1-4]"}}'
        )
    return {name: _hosts(hosts, f"{variable}: {kind} {name}") for name, hosts in said.items()}


def _read_placements(text: str | None) -> dict[str, Mapping[str, str]]:
    try:
        said = json.loads(text) if text else {}
        return {fleet: read_placements(stored) for fleet, stored in said.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise DesiredNodesError(
            f'{PLACEMENTS_VARIABLE} should be hostlists by fleet and infrastructure, as in {{"cpu": {{"aws": "cpu-[1-4]"}}}}: {error}'
        ) from None


def _hosts(text: str, where: str) -> HostSet:
    try:
        return HostSet(text)
    except ValueError as error:
        raise DesiredNodesError(f"{where}: {error}") from None


_FORCE: Final = "TIDEPOOL_REGARDLESS"
#: Of `tidepool down --force`.
FORCE_SETTINGS: Final[Mapping[str, str]] = {_FORCE: "1"}


def is_forced(environment: Mapping[str, str]) -> bool:
    """Return whether what is deleted goes with all that runs there, and without those that do not answer."""
    return environment.get(_FORCE) == FORCE_SETTINGS[_FORCE]
