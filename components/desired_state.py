"""The desired state of a cluster: by a person's file, or by the scaler, which asks for nodes and roles and for nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import pulumi
from pulumi.runtime import is_config_secret

from tidepool.cluster.accounting import ACCOUNTING_KEY_NAME
from tidepool.cluster.desired_state import (
    NODES_VARIABLE,
    PLACEMENTS_VARIABLE,
    ROLES_VARIABLE,
    SUSPENDED_VARIABLE,
    DesiredNodes,
    DesiredNodesError,
    node_placements,
    node_set,
    placements_to_json,
    read_placements,
    role_set,
    slots_of,
)
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.roles import Role
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.cluster.users import UserList
from tidepool.components.user_directory import list_users, user_list

_TRIES: Final = 40
_PAUSE_S: Final = 0.05
#: What the CLI says of half a state, which it leaves to whoever reads while it writes. Over gRPC that is all there is.
HALF_WRITTEN: Final = "failed to load checkpoint"
_SPEC: Final = "spec"
_PLACEMENTS: Final = "places"
_USERS: Final = "users"
_SUSPENDED: Final = "suspended"
#: Of the configuration, a secret: by it an LDAP directory is asked.
_LDAP_PASSWORD: Final = "ldapPassword"  # noqa: S105 (its name)


@dataclass(frozen=True, slots=True)
class DesiredState:
    """A spec, by fleet the names of the nodes that should be there, and by pool the role of each of its machines."""

    spec: ClusterSpec
    nodes: Mapping[str, HostSet]
    placements: Mapping[str, Mapping[str, str]]
    """By fleet and node, the key of the infrastructure that its machine is from."""
    roles: Mapping[str, Mapping[str, Role]]
    serving: Mapping[str, str]
    """By pool a hostlist of those that served Kubernetes when the stack was brought up last."""
    only: HostSet | None
    """The nodes that are registered, where an operation is limited to them; None for all."""
    users: UserList
    """Who may log in, by the spec and its directory."""
    outputs: Mapping[str, Any]
    """Outputs for the stack to export: ``spec``, as the person wrote it who brought it up; ``users`` of it and of its directory,
    where it has one; ``places`` of fleets on several infrastructures, by fleet and key a hostlist; ``suspended`` machines, by fleet. Another stack can take either
    of the first two for its directory."""
    accounting_key: str | None = None
    """The key of another cluster's slurmdbd, from the stack's configuration; None where the spec names none."""
    suspended: Mapping[str, HostSet] = field(default_factory=dict)
    """By fleet, those that are none of its nodes, and whose machines are kept suspended."""

    @classmethod
    def at_first(cls, spec: ClusterSpec) -> Self:
        """Return the state that a cluster is brought up in where nobody asks for more: ``min_nodes`` of each fleet."""
        nodes = {fleet.name: node_set(fleet) for fleet in spec.fleets}
        placements = _placements(spec, nodes, {fleet.name: {} for fleet in spec.fleets}, "fleets")
        return cls(spec, nodes, placements, _roles(spec, {}, {}), {}, None, list_users(spec), {})


def desired_state(config: pulumi.Config, environment: Mapping[str, str]) -> DesiredState:
    """Return what the spec in ``config`` asks for; where the scaler runs the program, what it asks for in ``environment``.

    The scaler asks for nodes of the cluster as a person brought it up last: it never carries out what somebody has edited since.

    Raises:
        pulumi.RunError: the spec, or what the scaler asks for, is not right, or a node is none of its fleet.
    """
    last = last_outputs()
    file = f"Pulumi.{pulumi.get_stack()}.yaml"
    try:
        by_scaler = DesiredNodes.read(environment)
    except DesiredNodesError as error:
        raise pulumi.RunError(str(error)) from None
    if by_scaler is None:
        written = config.require_object(_SPEC)
        spec, is_secret = _spec(written, file), is_config_secret(config.full_key(_SPEC))
        outputs = {_SPEC: pulumi.Output.secret(written) if is_secret else written}
    elif _SPEC in last:
        spec, outputs = _spec(last[_SPEC], "the spec in the stack's outputs"), {_SPEC: last[_SPEC]}
    else:
        # Brought up when there was no such output; and whether the file still says what was brought up, nobody knows.
        spec, outputs = _spec(config.require_object(_SPEC), file), {}
    wish = by_scaler or DesiredNodes({})
    _refuse_unknown(NODES_VARIABLE, "fleet", wish.nodes, [fleet.name for fleet in spec.fleets])
    _refuse_unknown(ROLES_VARIABLE, "pool", wish.kubernetes, [pool.name for pool in spec.pools])
    fleets: Mapping[str, str] = last.get("fleets", {})
    nodes = {}
    for fleet in spec.fleets:
        before = fleets.get(fleet.name)
        if by_scaler is None:
            # Nodes that the scaler asked for stay, whoever runs this.
            nodes[fleet.name] = _nodes(fleet, None, before, "fleets")
        else:
            desired = str(wish.nodes[fleet.name]) if fleet.name in wish.nodes else before or ""
            nodes[fleet.name] = _nodes(fleet, desired, before, NODES_VARIABLE)
    serving = {pool: by_role["kubernetes"] for pool, by_role in last.get("pools", {}).items()}
    known = {
        name: {**of_fleet, **wish.places.get(name, {})}
        for name, of_fleet in _last_placements(spec, last, fleets).items()
    }
    placements = _placements(spec, nodes, known, "fleets" if by_scaler is None else PLACEMENTS_VARIABLE)
    users = _users(spec, config, last, by_scaler is not None)
    outputs = {**outputs, **_placement_outputs(spec, placements)}
    if spec.directory is not None:
        outputs[_USERS] = users.to_json()
    roles = _roles(spec, wish.kubernetes, serving)
    key = config.get(ACCOUNTING_KEY_NAME) if spec.controller.accounting is not None else None
    suspended = _suspended(spec, nodes, {**last.get(_SUSPENDED, {}), **wish.suspended})
    if suspended:
        outputs[_SUSPENDED] = {name: str(names) for name, names in suspended.items()}
    return DesiredState(spec, nodes, placements, roles, serving, wish.only, users, outputs, key, suspended)


def _suspended(
    spec: ClusterSpec, nodes: Mapping[str, HostSet], known: Mapping[str, str | HostSet]
) -> dict[str, HostSet]:
    """Return by fleet the machines that are suspended: none of its nodes, and none of a fleet that is gone."""
    found: dict[str, HostSet] = {}
    for fleet in spec.fleets:
        with _refusing(_SUSPENDED if fleet.name in known else SUSPENDED_VARIABLE):
            names = HostSet(str(known.get(fleet.name, ""))) - nodes[fleet.name]
            slots_of(fleet, names)
        if names:
            found[fleet.name] = names
    return found


def _users(spec: ClusterSpec, config: pulumi.Config, last: Mapping[str, Any], by_scaler: bool) -> UserList:
    """Return who may log in. The scaler asks no directory: who the last `up` found is who there is."""
    # Without a directory the spec had all of them: one that has fewer by far is taken for an answer in part.
    key = _USERS if _USERS in last else _SPEC
    with _refusing(f"{key} of the stack's outputs"):
        known = user_list(last[key]) if key in last else None
    if by_scaler and key == _USERS and known is not None:
        return known
    password = config.get(_LDAP_PASSWORD) if spec.directory is not None else None
    return list_users(spec, known, password)


def _last_placements(
    spec: ClusterSpec, last: Mapping[str, Any], fleets: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    """Return by fleet and node the infrastructure's key of the nodes in the last outputs.

    Of a fleet that had one infrastructure there are no placements: all of its nodes were there.
    """
    placed = last.get(_PLACEMENTS, {})
    found: dict[str, Mapping[str, str]] = {
        fleet.name: read_placements(placed.get(fleet.name, {})) for fleet in spec.fleets
    }
    if all(not fleets.get(name) or name in placed for name in found):
        return found
    try:
        before = {fleet.name: fleet for fleet in read_spec(last.get(_SPEC, {})).fleets}
    except SpecError:
        return found  # of an older release, which had one infrastructure for all
    for name in found:
        if name not in placed and name in before and len(before[name].infrastructures) == 1:
            key = before[name].infrastructures[0].key
            found[name] = dict.fromkeys(HostSet(fleets.get(name, "")), key)
    return found


def _placements(
    spec: ClusterSpec,
    nodes: Mapping[str, HostSet],
    known: Mapping[str, Mapping[str, str]],
    where: str,
) -> dict[str, Mapping[str, str]]:
    with _refusing(where):
        return {
            fleet.name: node_placements(fleet, nodes[fleet.name], known[fleet.name]) for fleet in spec.fleets
        }


def _placement_outputs(spec: ClusterSpec, places: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    several = [fleet.name for fleet in spec.fleets if len(fleet.infrastructures) > 1]
    return {_PLACEMENTS: {name: placements_to_json(places[name]) for name in several}} if several else {}


def _spec(written: Any, where: str) -> ClusterSpec:
    with _refusing(where):
        return read_spec(written)


def _nodes(fleet: Fleet, wish: str | None, last: str | None, where: str) -> HostSet:
    with _refusing(where):
        return node_set(fleet, desired=wish, last=last)


@contextmanager
def _refusing(where: str) -> Iterator[None]:
    """End the program with what is wrong with what stands at ``where``."""
    try:
        yield
    except (SpecError, ValueError) as error:
        raise pulumi.RunError(f"{where}: {error}") from None


def _roles(
    spec: ClusterSpec, wish: Mapping[str, HostSet], serving: Mapping[str, str]
) -> dict[str, Mapping[str, Role]]:
    """Return roles by pool and node: as asked for; of pools that are not named, as they were."""
    found: dict[str, Mapping[str, Role]] = {}
    for pool in spec.pools:
        desired = str(wish[pool.name]) if pool.name in wish else None
        with _refusing("pools" if desired is None else ROLES_VARIABLE):
            found[pool.name] = role_set(pool, desired=desired, last=serving.get(pool.name))
    return found


def _refuse_unknown(variable: str, kind: str, named: Mapping[str, HostSet], known: list[str]) -> None:
    if unknown := sorted(named.keys() - set(known)):
        there = ", ".join(known) or "none"
        raise pulumi.RunError(f"{variable}: there is no {kind} {unknown[0]}; the {kind}s are {there}")


def last_outputs() -> Mapping[str, Any]:
    """Return the outputs of the program's own stack as its last successful `up` left them; none before the first."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    for remaining in reversed(range(_TRIES)):
        try:
            answer = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name}).value
        except Exception as error:
            if HALF_WRITTEN not in str(error) or not remaining:
                raise
            time.sleep(_PAUSE_S)
        else:
            outputs: Mapping[str, Any] = _with_integers(answer["outputs"])
            return outputs
    raise AssertionError("the last try returns or raises")


def _with_integers(value: Any) -> Any:
    """Return the same, with integers for whole numbers: the engine's protocol has no others than floats."""
    if isinstance(value, Mapping):
        return {key: _with_integers(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_with_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
