"""Shapes: what one node has, as Slurm counts it; and gres, its generic resources, such as GPUs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster import hostlist
from tidepool.cluster.names import gres_name
from tidepool.cluster.part import Part, Whole

_FORMS = "write NAME, NAME:COUNT or NAME:TYPE:COUNT, such as gpu:a100:2"


class Gres(Part):
    """One kind of gres of a node."""

    name: Annotated[str, AfterValidator(gres_name)] = Field(
        description="What it is: `gpu`, or another name that jobs ask for."
    )
    type: Annotated[str, AfterValidator(gres_name)] | None = Field(
        default=None, description="Which of them, such as `a100`. Jobs may ask for any, or for this one."
    )
    count: Whole = Field(default=1, ge=1, le=1024, description="How many a node has.")
    files: str | None = Field(
        default=None,
        pattern=r"^/[^\s,\"#]+$",
        description="The device files on the node, as many as `count`: `/dev/nvidia[0-1]`. A `gpu` needs them.",
        validate_default=True,
    )

    @field_validator("files")
    @classmethod
    def _one_file_each(cls, files: str | None, others: ValidationInfo) -> str | None:
        count = others.data.get("count")
        if files is None:
            if others.data.get("name") == "gpu":
                raise ValueError(
                    "Slurm wants to know the device files of a gpu; "
                    "add them: {name: gpu, count: 2, files: '/dev/nvidia[0-1]'}"
                )
        elif count is not None:
            named = hostlist.count(files.rpartition("/")[2])
            if named != count:
                raise ValueError(
                    f"{named} files for a count of {count}; name as many files as there are gres"
                )
        return files

    def __str__(self) -> str:
        """As a node's line has it: ``gpu:a100:2``."""
        return ":".join([self.name, *([self.type] if self.type else []), str(self.count)])


def read_gres(value: Any) -> Any:
    """The parts of ``gpu:a100:2``; what is no text is left as it is.

    Raises:
        ValueError: when the text has another form.
    """
    if not isinstance(value, str):
        return value
    name, *rest = value.split(":")
    count = rest.pop() if rest and rest[-1].isdecimal() else "1"
    if len(rest) > 1:
        raise ValueError(_FORMS)
    return {"name": name, "type": rest[0] if rest else None, "count": int(count)}


GresText = Annotated[Gres, BeforeValidator(read_gres)]
"""A `Gres`, or its text."""


_MIB: Final = {"m": 1, "g": 1024, "t": 1024**2}
_AMOUNT = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(?P<unit>[MmGgTt])(?:[Ii]?[Bb])?")


def mebibytes(amount: Any) -> Any:
    """An amount of memory in MiB: a whole number of them, or text with a unit: ``512M``, ``4GiB``, ``1.5T``.

    As in Slurm, M, G and T are powers of 1024, with or without what follows them.

    Raises:
        ValueError: when it is neither, or no whole number of MiB.
    """
    if not isinstance(amount, str):
        return amount
    match = _AMOUNT.fullmatch(amount.strip())
    if match is None:
        raise ValueError("write a number of MiB, or a number and a unit, M, G or T: 4096, 4GiB")
    mib = float(match["number"]) * _MIB[match["unit"].lower()]
    if mib != int(mib):
        raise ValueError(f"{amount} is no whole number of MiB; write {round(mib)}")
    return int(mib)


Quota = Annotated[Whole, BeforeValidator(mebibytes), Field(ge=1, le=2**40)]
"""So many MiB, or text with a unit: ``50GiB``."""


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
