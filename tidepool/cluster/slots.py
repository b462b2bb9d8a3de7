"""Slots: the places of a fleet. A slot's node name, number, address and MAC belong together for ever.

Slurm does not follow a node whose address changes, so an address is never given to another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from tidepool.cluster import addresses

_NODE = re.compile(r"(?P<fleet>.+)-(?P<number>[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot ``number`` (from 1) of the fleet ``fleet``, whose subnet is ``subnet``."""

    fleet: str
    number: int
    subnet: IPv4Network

    def __post_init__(self) -> None:
        """Refuse a slot that the subnet does not have, with ValueError."""
        addresses.slot_address(self.subnet, self.number)

    @property
    def node_name(self) -> str:
        """``cpu-17``: NodeName and host name."""
        return f"{self.fleet}-{self.number}"

    @property
    def address(self) -> IPv4Address:
        return addresses.slot_address(self.subnet, self.number)

    @property
    def mac(self) -> str:
        return addresses.mac(self.address)


def slots(fleet: str, subnet: IPv4Network, number: int) -> Iterator[Slot]:
    """The first ``number`` slots of a fleet."""
    return (Slot(fleet, n, subnet) for n in range(1, number + 1))


def fleet_and_number(node_name: str) -> tuple[str, int]:
    """The fleet and the slot number that a node's name tells: ``cpu-17`` is (``cpu``, 17).

    Raises:
        ValueError: when it is no node's name.
    """
    match = _NODE.fullmatch(node_name)
    if match is None:
        raise ValueError(f"{node_name!r} is no node's name: those are FLEET-NUMBER, such as cpu-17")
    return match["fleet"], int(match["number"])
