"""A cluster's description in another network: the same, with its subnets where they were in the first."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from tidepool.cluster.spec_entries import as_network


def in_network(mapping: Mapping[str, Any], before: IPv4Network, network: IPv4Network) -> dict[str, Any]:
    """Return the spec ``mapping``, as YAML gives it, of a cluster in ``before``, as one in ``network``, which is as large."""
    assert before.prefixlen == network.prefixlen, f"{network} is not as large as {before}"
    found: dict[str, Any] = copy.deepcopy(dict(mapping))
    found["network"] = str(network)
    for part in ("fleets", "pools"):
        for entry in found.get(part) or ():
            subnet = as_network(entry.get("subnet"))
            if subnet is not None and subnet.subnet_of(before):
                offset = int(subnet.network_address) - int(before.network_address)
                begins = IPv4Address(int(network.network_address) + offset)
                entry["subnet"] = str(IPv4Network((begins, subnet.prefixlen)))
    return found
