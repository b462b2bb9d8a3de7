"""The processors that jobs of a machine are bound to: each machine has others first, as long as there are some.

Machines of one kernel have the same processors by the same numbers, and slurmd gives a job the lowest that are free: jobs of all
machines would be on the first. It goes by hwloc, which takes a topology in XML: there a machine's processors come in its own order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from math import ceil
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.layout import Paths
from tidepool.infrastructures.local.kernel.lock import locked
from tidepool.infrastructures.local.kernel.private import write_private

_LOCK_S: Final = 60.0


def take_processors(place: Paths, cpus: float, address: str) -> tuple[int, ...]:
    """Choose the processors of a machine whose folder is there, by what others of the data folder have, and keep it for those.

    Returns:
        All that this process may use, by their numbers: the first ``cpus`` of them are the machine's.
    """
    data, count = place.folder.parents[2], ceil(cpus)
    with locked(data / "processors.lock", _LOCK_S):
        others = _others(data, place.processors)
        order = in_order(sorted(os.sched_getaffinity(0)), others, count, int(IPv4Address(address)))
        write_private(place.processors, " ".join(map(str, order[:count])))
    return order


def in_order(
    processors: list[int], others: Iterable[tuple[int, ...]], count: int, turn: int
) -> tuple[int, ...]:
    """Sort the processors for a machine of ``count`` of them: those first that no other machine has, else in turns.

    Machines whose ``turn`` follow each other begin where the one before ends, or one further where each has all: jobs are given
    a machine's first ones first, and are on neighbours before others.
    """
    there = len(processors)
    begin = turn * (count % there or 1)
    used: set[int] = set()
    for other in others:
        used.update(other)
        if used.issuperset(processors):
            break
    turned = (processors[(begin + each) % there] for each in range(there))
    return tuple(sorted(turned, key=used.__contains__))


def topology(cpus: float, processors: tuple[int, ...]) -> str:
    """Describe ``cpus`` processors to hwloc: one core each, in one package. Where there are fewer, round and round.

    hwloc sorts by sets, and slurmd binds by numbers: so the sets count the machine's, and the numbers are those of the kernel.
    There are as many as slurmd needs to have room for the highest number.
    """
    count = max(ceil(cpus), max(processors) + 1)
    everything = (1 << count) - 1
    cores = "".join(
        f'<object type="Core" os_index="{i}" {_sets(1 << i)} gp_index="{4 + 2 * i}">'
        f'<object type="PU" os_index="{processors[i % len(processors)]}" {_sets(1 << i)} gp_index="{5 + 2 * i}"/></object>\n'
        for i in range(count)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n'
        f'<object type="Machine" os_index="0" {_sets(everything, "allowed_")} gp_index="1">\n'
        f'<object type="NUMANode" os_index="0" {_sets(everything)} gp_index="2"/>\n'
        f'<object type="Package" os_index="0" {_sets(everything)} gp_index="3">\n{cores}</object>\n</object>\n</topology>\n'
    )


def _sets(processors: int, *more: str) -> str:
    # As hwloc writes them: words of 32 bits, the highest first. And one node of memory.
    words = range((processors.bit_length() - 1) // 32, -1, -1)
    mask = ",".join(f"0x{processors >> 32 * word & 0xFFFFFFFF:08x}" for word in words)
    return " ".join(
        f'{which}cpuset="{mask}" {which}nodeset="0x00000001"' for which in ("", "complete_", *more)
    )


def _others(data: Path, own: Path) -> Iterator[tuple[int, ...]]:
    for stack in data.iterdir():
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(stack / "machines") as machines:
            for machine in machines:
                file = Path(machine.path) / own.name
                # One that cannot be read or understood holds none, as a record of that kind is none: what is given to another as
                # well is shared, as it is where there are too few, and the machine's next boot writes it anew.
                with suppress(OSError, ValueError):
                    if file != own:
                        yield tuple(map(int, file.read_text("utf-8").split()))
