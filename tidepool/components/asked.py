"""What a program is asked for: by a person's file, or by the scaler, who wishes for nodes and for nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi.runtime import is_config_secret

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.node_set import node_set
from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.components.last_outputs import last_outputs

#: The environment variable of a wish: JSON, by fleet a hostlist.
WISH: Final = "TIDEPOOL_WISH"
#: And, with it, that of the nodes which the `up` is limited to by ``--target``: a hostlist.
ONLY: Final = "TIDEPOOL_WISH_ONLY"
_SPEC: Final = "spec"


@dataclass(frozen=True, slots=True)
class Asked:
    """A spec, and by fleet the names of the nodes that should be there."""

    spec: ClusterSpec
    nodes: Mapping[str, HostSet]
    #: Those of the nodes that are registered; None for all.
    only: HostSet | None
    #: For the stack to export: ``spec``, as the person wrote it who brought it up.
    outputs: Mapping[str, Any]


def asked(config: pulumi.Config, environment: Mapping[str, str]) -> Asked:
    """What the spec in ``config`` asks for; where the scaler has a wish in ``environment``, what that asks for.

    A wish is for the cluster as a person brought it up last: it never carries out what somebody has edited since.
    Fleets that it does not name keep the nodes that they have.

    Raises:
        pulumi.RunError: the spec or the wish is not right, or a node is none of its fleet.
    """
    last = last_outputs()
    fleets: Mapping[str, str] = last.get("fleets", {})
    wish = environment.get(WISH)
    if wish is None:
        written = config.require_object(_SPEC)
        spec = _spec(written, f"Pulumi.{pulumi.get_stack()}.yaml")
        # Nodes that the scaler asked for stay, whoever runs this.
        nodes = {fleet.name: _nodes(fleet, None, fleets.get(fleet.name), "fleets") for fleet in spec.fleets}
        is_secret = is_config_secret(config.full_key(_SPEC))
        return Asked(spec, nodes, None, {_SPEC: pulumi.Output.secret(written) if is_secret else written})
    if _SPEC in last:
        spec, outputs = _spec(last[_SPEC], "the spec in the stack's outputs"), {_SPEC: last[_SPEC]}
    else:
        # Brought up when there was no such output; and whether the file still says what was brought up, nobody knows.
        spec, outputs = _spec(config.require_object(_SPEC), f"Pulumi.{pulumi.get_stack()}.yaml"), {}
    wished = {**fleets, **_wished(wish, spec)}
    nodes = {
        fleet.name: _nodes(fleet, wished.get(fleet.name, ""), fleets.get(fleet.name), WISH)
        for fleet in spec.fleets
    }
    return Asked(spec, nodes, _only(environment.get(ONLY, "")), outputs)


def _only(hosts: str) -> HostSet | None:
    try:
        # An `up` that is about no node in particular is about all of them.
        return HostSet(hosts) if hosts else None
    except ValueError as error:
        raise pulumi.RunError(f"{ONLY}: {error}") from None


def _spec(written: Any, where: str) -> ClusterSpec:
    try:
        return read_spec(written)
    except SpecError as mistakes:
        raise pulumi.RunError(f"{where}: {mistakes}") from None


def _nodes(fleet: Fleet, wish: str | None, last: str | None, where: str) -> HostSet:
    try:
        return node_set(fleet, wish=wish, last=last)
    except ValueError as error:
        raise pulumi.RunError(f"{where}: {error}") from None


def _wished(text: str, spec: ClusterSpec) -> Mapping[str, str]:
    """By fleet a hostlist, which is not looked into here."""
    try:
        wish = json.loads(text)
    except ValueError as error:
        raise pulumi.RunError(f"{WISH} is not JSON: {error}") from None
    if not isinstance(wish, dict) or not all(isinstance(hosts, str) for hosts in wish.values()):
        raise pulumi.RunError(f'{WISH} should be hostlists by fleet, as in {{"cpu": "cpu-[1-4]"}}')
    names = [fleet.name for fleet in spec.fleets]
    if unknown := sorted(wish.keys() - set(names)):
        raise pulumi.RunError(f"{WISH}: there is no fleet {unknown[0]}; the fleets are {', '.join(names)}")
    return wish
