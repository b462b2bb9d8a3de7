"""By what objects are found again: the contract's tags, as labels."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Final

STACK_LABEL: Final = "tidepool/stack"
#: Of nodes; the cluster's own machines have none.
FLEET_LABEL: Final = "tidepool/fleet"
#: The machine's name: a node's, or one of the cluster's own.
NODE_LABEL: Final = "tidepool/node"
ADDRESS_LABEL: Final = "tidepool/address"


def labels_of(stack: str, fleet: str, node: str, address: IPv4Address) -> Mapping[str, str]:
    """Return the labels of one machine."""
    told = {STACK_LABEL: stack, FLEET_LABEL: fleet, NODE_LABEL: node, ADDRESS_LABEL: str(address)}
    return {name: value for name, value in told.items() if value}


def address_of(labels: Mapping[str, str]) -> IPv4Address:
    """Its address; 0.0.0.0 where somebody took the label away."""
    try:
        return IPv4Address(labels.get(ADDRESS_LABEL, ""))
    except ValueError:
        return IPv4Address(0)
