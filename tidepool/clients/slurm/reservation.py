"""Reservations: nodes kept for some, or for maintenance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidepool.clients.slurm.quantities import moment, text, tres

_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z_]*)=")


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation. ``nodes`` is a hostlist; ``flags`` are Slurm's (MAINT, IGNORE_JOBS, SPEC_NODES, ...)."""

    name: str
    start_time: datetime
    end_time: datetime
    nodes: str
    node_count: int
    flags: frozenset[str]
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    is_active: bool
    partition: str
    features: str
    licenses: Mapping[str, str]
    tres: Mapping[str, str]


def parse_reservation(line: str) -> Reservation:
    """One line of ``scontrol --oneliner show reservation``.

    Raises:
        KeyError, ValueError: it is not one.
    """
    parts = _KEY.split(line)
    values = dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    start, end = moment(values["StartTime"]), moment(values["EndTime"])
    if start is None or end is None:
        raise ValueError("a reservation has a start and an end")
    return Reservation(
        name=values["ReservationName"],
        start_time=start,
        end_time=end,
        nodes=text(values["Nodes"]),
        node_count=int(values["NodeCnt"]),
        flags=frozenset(_names(values["Flags"])),
        users=_names(values["Users"]),
        accounts=_names(values["Accounts"]),
        is_active=values["State"] == "ACTIVE",
        partition=text(values["PartitionName"]),
        features=text(values["Features"]),
        licenses=tres(values["Licenses"]),
        tres=tres(values.get("TRES", "")),
    )


def _names(written: str) -> tuple[str, ...]:
    return tuple(text(written).split(",")) if text(written) else ()
