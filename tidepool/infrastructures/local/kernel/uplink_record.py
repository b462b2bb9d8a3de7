"""The record of a network's uplink, in the network's folder: what it was last made for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tidepool.infrastructures.local.kernel.private import write_private
from tidepool.infrastructures.local.kernel.ruleset import Link


@dataclass(frozen=True, slots=True)
class UplinkRecord:
    """Written without ``stands`` before the uplink is made, and with what stood when it was."""

    gateway: str
    link: Link
    rules: str = ""
    stands: str = ""
    #: The names of peers by their networks.
    peers: Mapping[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        write_private(path, json.dumps(asdict(self)))


def load_uplink(path: Path) -> UplinkRecord | None:
    """The record in a file; None where there is none, or one that cannot be understood."""
    try:
        told = json.loads(path.read_text("utf-8"))
        peers = dict(told.get("peers", {}))
        return UplinkRecord(told["gateway"], Link(**told["link"]), told["rules"], told["stands"], peers)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
