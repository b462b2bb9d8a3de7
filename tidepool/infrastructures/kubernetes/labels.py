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
GENERATION_LABEL: Final = "tidepool/generation"
ADDRESS_LABEL: Final = "tidepool/address"


def labels_of(
    stack: str, fleet: str, node: str, address: IPv4Address, generation: int = 1
) -> Mapping[str, str]:
    """Those of one machine. Its generation is told from the second on: who does not say is in the first."""
    told = {STACK_LABEL: stack, FLEET_LABEL: fleet, NODE_LABEL: node, ADDRESS_LABEL: str(address)}
    if generation > 1:
        told[GENERATION_LABEL] = str(generation)
    return {name: value for name, value in told.items() if value}


def generation_of(labels: Mapping[str, str]) -> int:
    """Its generation; the first where somebody wrote what is none."""
    said = labels.get(GENERATION_LABEL, "1")
    return int(said) if said.isdecimal() and int(said) else 1


def address_of(labels: Mapping[str, str]) -> IPv4Address:
    """Its address; 0.0.0.0 where somebody took the label away."""
    try:
        return IPv4Address(labels.get(ADDRESS_LABEL, ""))
    except ValueError:
        return IPv4Address(0)
