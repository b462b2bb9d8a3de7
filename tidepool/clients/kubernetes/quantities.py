"""Kubernetes' way to write amounts (``100m``, ``1Gi``, ``1e3``), read exactly and rounded up to whole numbers."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from tidepool.clients.kubernetes.objects import Resources
from tidepool.cluster.frozen import FrozenDict

_WRITTEN: Final = re.compile(
    r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([EPTGMK]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII
)
#: The same amounts are written again and again: of ten thousand pods, reading them was the greater part.
_KEPT: Final = 4096
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
}


def quantity(written: str | int | float) -> Fraction:
    """``written`` as an exact number: ``1500m`` is 3/2, ``1Ki`` is 1024, ``2e3`` and ``2E3`` are 2000, ``2E`` 2 * 10**18.

    Raises:
        ValueError: it is no quantity.
    """
    match = _WRITTEN.fullmatch(str(written))
    if isinstance(written, bool) or not match:
        raise ValueError(f"{written!r} is no quantity")
    sign, number, binary, decimal, exponent = match.groups()
    factor: Fraction | int = 1
    if binary:
        factor = _BINARY[binary]
    elif decimal:
        factor = _DECIMAL[decimal]
    elif exponent:
        factor = Fraction(10) ** int(exponent)
    return Fraction(f"{sign}{number}") * factor


@functools.lru_cache(_KEPT, typed=True)
def milli(written: str | int | float) -> int:
    """Thousandths, rounded up as the scheduler rounds: ``100m`` is 100, ``1`` is 1000, ``1u`` is 1."""
    return -(-quantity(written) * 1000 // 1)


@functools.lru_cache(_KEPT, typed=True)
def whole(written: str | int | float) -> int:
    """Rounded up to the next whole number: ``1Gi`` is 1073741824, ``1500m`` is 2."""
    return -(-quantity(written) // 1)


def resources(written: Mapping[str, Any]) -> Resources:
    """A resource list, as nodes and containers have it: ``{"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}``.

    Raises:
        ValueError: one of them is no quantity, or less than nothing; says which.
    """
    read: dict[str, int] = {}
    for name, amount in written.items():
        try:
            read[name] = milli(amount) if name == "cpu" else whole(amount)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if read[name] < 0:
            raise ValueError(f"{name}: {amount!r} is less than nothing")
    cpu, memory = read.pop("cpu", 0), read.pop("memory", 0)
    return Resources(cpu, memory, FrozenDict(read))


def added(one: Resources, other: Resources) -> Resources:
    """Both together."""
    return _by_name(one, other, lambda mine, theirs: mine + theirs)


def most(one: Resources, other: Resources) -> Resources:
    """Return the larger amount of each."""
    return _by_name(one, other, max)


def _by_name(one: Resources, other: Resources, both: Any) -> Resources:
    names = {**one.extended, **other.extended}
    return Resources(
        both(one.cpu_milli, other.cpu_milli),
        both(one.memory_bytes, other.memory_bytes),
        FrozenDict({name: both(one.extended.get(name, 0), other.extended.get(name, 0)) for name in names}),
    )
