"""Partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidepool.clients.slurm.quantities import duration_s, text, tres

_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z_]*)=")


class PartitionState(StrEnum):
    """States of a partition: it takes jobs (UP, DOWN), it starts them (UP, DRAIN)."""

    UP = "UP"
    DOWN = "DOWN"
    DRAIN = "DRAIN"
    INACTIVE = "INACTIVE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. ``nodes`` is a hostlist and, as ``total_nodes``, counts no node in state FUTURE."""

    name: str
    state: PartitionState
    is_default: bool
    nodes: str
    total_nodes: int
    total_cpus: int
    max_time_s: int | None
    default_time_s: int | None
    max_nodes: int | None
    priority_tier: int
    oversubscribe: str
    allow_accounts: tuple[str, ...]
    tres: Mapping[str, str]


def parse_partition(line: str) -> Partition:
    """One line of ``scontrol --oneliner show partition``.

    Raises:
        KeyError, ValueError: it is not one.
    """
    parts = _KEY.split(line)
    values = dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    accounts = values.get("AllowAccounts", "ALL")
    return Partition(
        name=values["PartitionName"],
        state=PartitionState(values["State"]),
        is_default=values["Default"] == "YES",
        nodes=text(values["Nodes"]),
        total_nodes=int(values["TotalNodes"]),
        total_cpus=int(values["TotalCPUs"]),
        max_time_s=duration_s(values["MaxTime"]),
        default_time_s=duration_s(values["DefaultTime"]),
        max_nodes=None if values["MaxNodes"] == "UNLIMITED" else int(values["MaxNodes"]),
        priority_tier=int(values["PriorityTier"]),
        oversubscribe=values["OverSubscribe"],
        allow_accounts=() if accounts == "ALL" else tuple(accounts.split(",")),
        tres=tres(values.get("TRES", "")),
    )
