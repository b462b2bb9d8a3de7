"""Checks that the networks of a spec agree: those of fleets and pools within the cluster's, those of Kubernetes outside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any, Final

from tidepool.cluster import addresses
from tidepool.cluster.spec_entries import Entry, Mistake, as_network, listed

#: What a suggestion makes room for at most: Slurm has no more nodes.
_MOST_SLOTS: Final = 65_536
#: What the API server takes for its services.
_SHORTEST_SERVICE_PREFIX: Final = 12
_LONGEST_SERVICE_PREFIX: Final = 24


def subnet_suggestion(spec: Mapping[str, Any], slots: object) -> str:
    """A free subnet for a fleet or a pool of so many slots, as a remedy in words; empty when none can be told."""
    network = _fit_network(spec)
    if network is None:
        return ""
    wanted = slots if isinstance(slots, int) and 0 < slots < _MOST_SLOTS else 1
    free = addresses.free_subnet(network, [subnet for _, subnet in _subnets(spec)], wanted)
    return (
        f"{free} is free" if free else f"{network} has no room left for {wanted} slots, take a larger network"
    )


def subnets_outside(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find subnets of fleets and pools that are not in the cluster's network, or are where its own machines are."""
    network = _fit_network(spec)
    if network is None:
        return
    own = addresses.OwnAddresses(network).range
    for entry, subnet in _subnets(spec):
        if not subnet.subnet_of(network):
            wrong = f"not within the network {network}"
        elif subnet.overlaps(own):
            wrong = f"overlaps {own}, where the cluster's own machines are"
        else:
            continue
        yield Mistake(f"{entry.path}.subnet", str(subnet), f"{wrong}; {subnet_suggestion(spec, entry.slots)}")


def subnets_overlapping(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find subnets of fleets and pools that share addresses: a machine would be in two of them."""
    entries = _subnets(spec)
    told = set()
    remedies: dict[str, str] = {}
    for i, j in addresses.overlapping(subnet for _, subnet in entries):
        # One neighbour is enough to know of; the remedy is the same for all.
        if j not in told:
            told.add(j)
            (one, there), (other, subnet) = entries[i], entries[j]
            slots = other.slots
            if str(slots) not in remedies:
                remedies[str(slots)] = subnet_suggestion(spec, slots)
            wrong = f"overlaps {there} of {one.path} ({one.name})"
            yield Mistake(f"{other.path}.subnet", str(subnet), f"{wrong}; {remedies[str(slots)]}")


def kubernetes_networks(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Check that the networks of pods and services are apart from the cluster's and from each other, and large enough."""
    kubernetes = spec.get("kubernetes")
    if not isinstance(kubernetes, Mapping):
        return
    pods = as_network(kubernetes.get("pod_network", addresses.POD_NETWORK))
    services = as_network(kubernetes.get("service_network", addresses.SERVICE_NETWORK))
    known = [("the cluster's network", _fit_network(spec)), ("the pod_network", pods), ("", services)]
    free = addresses.free_network([network for _, network in known if network is not None])
    for key, network, others in (("pod_network", pods, known[:1]), ("service_network", services, known[:2])):
        if network is None:
            continue
        wrong = "" if network.is_private else "is not private"
        for name, other in others:
            if not wrong and other is not None and network.overlaps(other):
                wrong = f"overlaps {name} {other}"
        if wrong:
            yield Mistake(f"kubernetes.{key}", str(network), f"{wrong}; {free} is free")
    machines = [each for pool in listed(spec, "pools") if isinstance(each := pool.slots, int) and each > 0]
    needed = addresses.pod_subnets_needed(machines)
    if pods is not None and needed > (room := addresses.pod_subnets_in(pods)):
        yield Mistake(
            "kubernetes.pod_network",
            str(pods),
            f"it has room for {room} machines with a /{addresses.POD_SUBNET_PREFIX} each, and the pools take {needed}, by "
            f"{addresses.POD_BLOCK} at a time; take a larger network",
        )
    if services is not None and not _SHORTEST_SERVICE_PREFIX <= services.prefixlen <= _LONGEST_SERVICE_PREFIX:
        yield Mistake(
            "kubernetes.service_network",
            str(services),
            f"take a prefix from /{_SHORTEST_SERVICE_PREFIX} to /{_LONGEST_SERVICE_PREFIX}",
        )


def _subnets(spec: Mapping[str, Any]) -> list[tuple[Entry, IPv4Network]]:
    found = [(entry, entry.subnet) for entry in listed(spec, "fleets", "pools")]
    return [(entry, subnet) for entry, subnet in found if subnet is not None]


def _fit_network(spec: Mapping[str, Any]) -> IPv4Network | None:
    network = as_network(spec.get("network"))
    return None if network is None or addresses.unfit(network) else network
