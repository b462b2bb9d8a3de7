"""What a program is asked for: by a person's file, or by the scaler, who wishes for nodes and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi.runtime import is_config_secret

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.node_set import node_set
from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.cluster.wish import WISH, Wish, WishError
from tidepool.components.last_outputs import last_outputs

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

    Raises:
        pulumi.RunError: the spec or the wish is not right, or a node is none of its fleet.
    """
    last = last_outputs()
    fleets: Mapping[str, str] = last.get("fleets", {})
    try:
        wish = Wish.read(environment)
    except WishError as error:
        raise pulumi.RunError(str(error)) from None
    if wish is not None:
        return _wished(config, wish, last, fleets)
    written = config.require_object(_SPEC)
    spec = _spec(written, f"Pulumi.{pulumi.get_stack()}.yaml")
    # Nodes that the scaler asked for stay, whoever runs this.
    nodes = {fleet.name: _nodes(fleet, None, fleets.get(fleet.name), "fleets") for fleet in spec.fleets}
    is_secret = is_config_secret(config.full_key(_SPEC))
    return Asked(spec, nodes, None, {_SPEC: pulumi.Output.secret(written) if is_secret else written})


def _wished(config: pulumi.Config, wish: Wish, last: Mapping[str, Any], fleets: Mapping[str, str]) -> Asked:
    if _SPEC in last:
        spec, outputs = _spec(last[_SPEC], "the spec in the stack's outputs"), {_SPEC: last[_SPEC]}
    else:
        # Brought up when there was no such output; and whether the file still says what was brought up, nobody knows.
        spec, outputs = _spec(config.require_object(_SPEC), f"Pulumi.{pulumi.get_stack()}.yaml"), {}
    names = [fleet.name for fleet in spec.fleets]
    if unknown := sorted(wish.nodes.keys() - set(names)):
        raise pulumi.RunError(f"{WISH}: there is no fleet {unknown[0]}; the fleets are {', '.join(names)}")
    wished = {**fleets, **{fleet: str(nodes) for fleet, nodes in wish.nodes.items()}}
    nodes = {
        fleet.name: _nodes(fleet, wished.get(fleet.name, ""), fleets.get(fleet.name), WISH)
        for fleet in spec.fleets
    }
    return Asked(spec, nodes, wish.only, outputs)


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
