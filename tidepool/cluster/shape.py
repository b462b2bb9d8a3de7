"""Shapes: what one node has, as Slurm counts it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster.gres import GresText
from tidepool.cluster.part import Part, Whole

_MIB: Final = {
    "m": 1,
    "mb": 1,
    "mib": 1,
    "g": 1024,
    "gb": 1024,
    "gib": 1024,
    "t": 1024**2,
    "tb": 1024**2,
    "tib": 1024**2,
}
_AMOUNT = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(?P<unit>[A-Za-z]+)")


def mebibytes(amount: Any) -> Any:
    """An amount of memory in MiB: a whole number of them, or text with a unit: ``512M``, ``4GiB``, ``1.5T``.

    As in Slurm, M, G and T are powers of 1024, with or without what follows them.

    Raises:
        ValueError: when it is neither, or no whole number of MiB.
    """
    if not isinstance(amount, str):
        return amount
    match = _AMOUNT.fullmatch(amount.strip())
    factor = _MIB.get(match["unit"].lower()) if match else None
    if match is None or factor is None:
        raise ValueError("write a number of MiB, or a number and a unit, M, G or T: 4096, 4GiB")
    mib = float(match["number"]) * factor
    if mib != int(mib):
        raise ValueError(f"{amount} is no whole number of MiB; write {round(mib)}")
    return int(mib)


class Shape(Part):
    """Resources of a node of a fleet. Slurm hands out so much of it, whatever slurmd finds."""

    cpus: Whole = Field(
        ge=1,
        le=65_533,
        description="Processors that jobs can be given: `sockets` x `cores_per_socket` x `threads_per_core`.",
    )
    memory_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        validation_alias="memory",
        ge=16,
        le=2**40,
        description="Memory that jobs can be given, in MiB or with a unit: `4096`, `4GiB`. Slurm's RealMemory.",
    )
    sockets: Whole | None = Field(
        default=None, ge=1, le=65_533, description="Sockets. By default one for all cores."
    )
    cores_per_socket: Whole | None = Field(
        default=None, ge=1, le=65_533, description="Cores of a socket. By default what `cpus` leaves."
    )
    threads_per_core: Whole = Field(
        default=1, validate_default=True, ge=1, le=65_533, description="Threads of a core."
    )
    gres: tuple[GresText, ...] = Field(
        default=(), description="Generic resources: `gpu:2`, or with more details as in the table of a gres."
    )

    @field_validator("threads_per_core")
    @classmethod
    def _the_product_is_cpus(cls, threads: int, others: ValidationInfo) -> int:
        cpus, sockets, cores = (others.data.get(key) for key in ("cpus", "sockets", "cores_per_socket"))
        if cpus is None:
            return threads
        known = (sockets or 1) * (cores or 1) * threads
        whole = sockets is not None and cores is not None
        if cpus % known or (whole and cpus != known):
            words = f"sockets {sockets or 'open'} x cores_per_socket {cores or 'open'} x threads_per_core {threads}"
            raise ValueError(
                f"{words} cannot be the {cpus} of cpus; change one, or leave open what Slurm can work out"
            )
        return threads

    @field_validator("gres")
    @classmethod
    def _each_gres_once(cls, gres: tuple[GresText, ...]) -> tuple[GresText, ...]:
        kinds = [(g.name, g.type) for g in gres]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise ValueError(f"{':'.join(filter(None, kind))} stands here twice; add the counts")
        return gres

    @property
    def layout(self) -> tuple[int, int, int]:
        """Sockets, cores of a socket, threads of a core; their product is ``cpus``."""
        threads = self.threads_per_core
        cores = self.cores_per_socket or self.cpus // threads // (self.sockets or 1)
        return self.cpus // threads // cores, cores, threads
