"""Remains of a stack on this machine: deleted where no state knows them, kept where they are wanted."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel import delete_machine, delete_network, list_machines, list_networks
from tidepool.infrastructures.local.kernel.layout import machine_paths, network_paths
from tidepool.scaling.stack.turn import remove_turns

#: Where a stack's folders that machines mount are (`tidepool.resources.Volume`), and what its machines boot with.
VOLUMES: Final = "volumes"
_BOOTS: Final = "boots"
#: Ways to its Kubernetes, with their keys (`tidepool.infrastructures.kubernetes_access`).
_WAYS: Final = "kubernetes"


@dataclass(frozen=True, slots=True)
class Deleted:
    """The names of what was there, and is not any more."""

    machines: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.machines or self.networks)


def is_anything_left(data: Path, stack: str) -> bool:
    """Return whether there is a machine or a network of ``stack``."""
    return bool(list_machines(data, stack) or list_networks(data, stack))


def delete_leftovers(data: Path, stack: str) -> Deleted:
    """Delete all machines and networks of ``stack``, the files by which its machines boot, the ways to its Kubernetes.

    Raises:
        LocalError: one of them could not be deleted.
    """
    machines = tuple(machine.name for machine in list_machines(data, stack))
    for name in machines:
        delete_machine(data, stack, name)
    networks = tuple(network.name for network in list_networks(data, stack))
    for name in networks:
        delete_network(data, stack, name)
    folder = data / stack
    for keys in (folder / _BOOTS, folder / _WAYS):
        if keys.is_dir():
            shutil.rmtree(keys)
    # Whoever sweeps has the turn, and nobody is to have one on what is gone.
    remove_turns(folder)
    for name in ("machines", "networks", VOLUMES, ""):
        # What still holds something stays.
        with contextlib.suppress(FileNotFoundError, OSError):
            (folder / name).rmdir()
    return Deleted(machines, networks)


def kept(data: Path, stack: str) -> dict[str, Path]:
    """The volumes of ``stack`` that outlive it, by name."""
    folder = data / stack / VOLUMES
    return {each.name: each for each in sorted(folder.iterdir())} if folder.is_dir() else {}


def purge(data: Path, stack: str) -> None:
    """Remove all that is left of ``stack`` in the data folder, what was kept too. It has no machines any more.

    Raises:
        OSError: something could not be removed.
    """
    folder = data / stack
    assert not is_anything_left(data, stack), "machines may still write to what would be removed"
    if folder.is_dir():
        shutil.rmtree(folder)


def remains(data: Path, stack: str) -> Iterator[str]:
    """Yield in words what should not be there any more; nothing after a successful deletion."""
    for machine in list_machines(data, stack):
        yield f"machine {machine.name} ({machine_paths(data, stack, machine.name).folder})"
    for network in list_networks(data, stack):
        yield f"network {network.name} ({network_paths(data, stack, network.name).folder})"
