"""Small arguments of a cluster: what a program has to say of it, and sane defaults for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack
from zlib import crc32

import pulumi
from pydantic import ValidationError

from tidepool.cluster import addresses
from tidepool.cluster.part import Network
from tidepool.cluster.pool import ConvergedPool, Kubernetes
from tidepool.cluster.scaling import Scaling
from tidepool.cluster.spec import ClusterSpec, Controller, Fleet, Limits, Partition
from tidepool.cluster.spec_reading import SpecError, read_spec

#: The smallest network whose default subnets are /24, and into how many parts a smaller one falls.
_DEFAULT_PREFIX: Final = 24
_LEAST_BITS: Final = 4

_Args = TypeVar("_Args", "FleetArgs", "PoolArgs")


class FleetArgs(Fleet):
    """A fleet of a program: a `tidepool.cluster.spec.Fleet` that may leave its subnet out.

    The default subnet follows from the cluster's network and the fleet's name, so that it stays when fleets come, go
    or change their order: a part of the network of /24 (of a network that is smaller than /20, a sixteenth).
    """

    subnet: Network | None = None  # type: ignore[assignment]


class PoolArgs(ConvergedPool):
    """A pool of a program: a `tidepool.cluster.pool.ConvergedPool` that may leave its subnet out, as a fleet."""

    subnet: Network | None = None  # type: ignore[assignment]


class ClusterKeys(TypedDict, total=False):
    """Keys of a `ClusterSpec` but its name, as programs write them; ``network`` must be there."""

    network: str | IPv4Network
    slurm_version: str
    image: str
    controller: Controller
    fleets: Sequence[Fleet]
    pools: Sequence[ConvergedPool]
    kubernetes: Kubernetes | None
    infrastructures: Mapping[str, Mapping[str, Any]]
    partitions: Sequence[Partition]
    limits: Limits
    scaling: Scaling
    process_tracking: Literal["linuxproc", "cgroup"]
    topology: Literal["flat", "tree"]
    slurm_conf: Mapping[str, str | int | float | bool]
    cgroup_conf: Mapping[str, str | int | float | bool]


def cluster_spec(name: str, **keys: Unpack[ClusterKeys]) -> ClusterSpec:
    """Return the spec of a cluster: one partition ``main`` with all fleets, unless ``partitions`` says otherwise.

    Raises:
        pulumi.RunError: it has mistakes; names all of them, with their remedies.
    """
    try:
        network = IPv4Network(keys.get("network", ""))
        fleets, pools = keys.get("fleets", ()), keys.get("pools", ())
        placed = _with_subnets(network, [*fleets, *pools])
        given = {
            "partitions": [{"name": "main"}],
            **{key: _plain(value) for key, value in keys.items()},
            "name": name,
            "network": str(network),
            "fleets": placed[: len(fleets)],
            "pools": placed[len(fleets) :],
        }
        return read_spec(given)
    except (SpecError, ValidationError, ValueError) as error:
        raise pulumi.RunError(f"cluster {name}: {error}") from None


def _with_subnets(network: IPv4Network, fleets: Iterable[Fleet | ConvergedPool]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    by_default: dict[IPv4Network, str] = {}
    for fleet in fleets:
        written = _plain(fleet)
        if written.get("subnet") is None:
            subnet = default_subnet(network, fleet.name)
            if subnet in by_default:
                raise ValueError(
                    f"{by_default[subnet]} and {fleet.name} have the same default subnet, {subnet}: give one of them a "
                    "`subnet` of its own"
                )
            by_default[subnet] = fleet.name
            written["subnet"] = str(subnet)
        found.append(written)
    return found


def default_subnet(network: IPv4Network, fleet: str) -> IPv4Network:
    """Return the subnet of a fleet of that name which says none."""
    prefix = max(_DEFAULT_PREFIX, network.prefixlen + _LEAST_BITS)
    own = addresses.OwnAddresses(network).range
    free = [each for each in network.subnets(new_prefix=prefix) if not each.overlaps(own)]
    return free[crc32(fleet.encode()) % len(free)]


def _plain(value: Any) -> Any:
    """Return models as the mappings that a spec is read from, with the keys that were given."""
    if isinstance(value, Fleet | ConvergedPool | Partition | Controller | Kubernetes | Limits | Scaling):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
