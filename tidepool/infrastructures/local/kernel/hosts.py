"""The ``hosts`` file of a network: who has which address. It is also what keeps addresses from being given twice.

All machines of the network see the folder that it is in, so that it can be replaced as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.errors import InUse
from tidepool.infrastructures.local.kernel.layout import Paths
from tidepool.infrastructures.local.kernel.lock import locked

_LOCAL: Final = "127.0.0.1 localhost\n"
_TIMEOUT_S: Final = 30.0


def register(network: Paths, address: str, names: tuple[str, ...]) -> None:
    """Give the address to the machine ``names[0]``, which may have had another one.

    Raises:
        InUse: another machine has the address or one of the names.
    """
    with locked(network.folder / "hosts.lock", _TIMEOUT_S):
        entries = dict(_read(network.hosts))
        for other, others in entries.items():
            if others[0] == names[0]:
                continue
            if other == address:
                raise InUse(
                    f"address {address} of {names[0]} belongs to {others[0]}; each machine has its own"
                )
            if taken := set(others) & set(names):
                raise InUse(f"the name {min(taken)} of {names[0]} belongs to {others[0]} at {other}")
        kept = {other: others for other, others in entries.items() if others[0] != names[0]}
        _write(network.hosts, {**kept, address: names})


def release(network: Paths, name: str) -> None:
    """Take the machine's address back; nothing happens where it has none, or the network is gone."""
    if not network.hosts.is_dir():
        return
    with locked(network.folder / "hosts.lock", _TIMEOUT_S):
        entries = _read(network.hosts)
        _write(network.hosts, {address: names for address, names in entries.items() if names[0] != name})


def machines_on(network: Paths) -> tuple[str, ...]:
    """The names of those that have an address."""
    return tuple(sorted(names[0] for names in _read(network.hosts).values()))


def _read(folder: Path) -> Mapping[str, tuple[str, ...]]:
    try:
        text = (folder / "hosts").read_text("utf-8")
    except FileNotFoundError:
        return {}
    lines = (line.split() for line in text.removeprefix(_LOCAL).splitlines())
    return {address: tuple(names) for address, *names in lines if names}


def _write(folder: Path, entries: Mapping[str, tuple[str, ...]]) -> None:
    folder.mkdir(exist_ok=True, mode=0o755)
    beside = folder / "hosts.new"
    lines = "".join(f"{address} {' '.join(names)}\n" for address, names in entries.items())
    beside.write_text(_LOCAL + lines, "utf-8")
    os.replace(beside, folder / "hosts")
