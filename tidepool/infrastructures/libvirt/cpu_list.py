"""Processors of a host, as cpusets are written: ``2-5,8``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

_PART: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def read_cpus(value: Any) -> Any:
    """The numbers of ``2-5,8``, in their order.

    Raises:
        ValueError: it is written otherwise, or a number stands there twice.
    """
    if isinstance(value, tuple | list):
        return value
    # YAML takes a single number for one.
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    matches = [_PART.fullmatch(part.strip()) for part in text.split(",")] if isinstance(text, str) else [None]
    found: list[int] = []
    for match in matches:
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError("write numbers of the host's processors and ranges of them: 2-5,8")
        found.extend(range(first, last + 1))
    if twice := sorted({cpu for cpu in found if found.count(cpu) > 1}):
        raise ValueError(f"{write_cpus(twice)} stands there twice; leave it out once")
    return tuple(found)


def write_cpus(cpus: Any) -> str:
    """The same as text: runs of numbers, in order."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


CpuList = Annotated[tuple[int, ...], BeforeValidator(read_cpus)]
"""Processors of a host, or their text."""
