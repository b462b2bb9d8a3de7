"""`Laboratory`: what a person says of one in ``Pulumi.<stack>.yaml`` under ``tidepool:lab``, with all mistakes told at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.part import Part, Whole, read_name
from tidepool.cluster.part_reading import mistake_of, seems_short
from tidepool.cluster.spec_entries import Mistake, nearest
from tidepool.lab.campaign import Campaign
from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.schedulers.registry import SCHEDULERS
from tidepool.lab.workload import Workload

#: Where in ``Pulumi.<stack>.yaml`` it is.
LAB_KEY: Final = "tidepool:lab"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def _name(name: str) -> str:
    # In names of folders, queues and namespaces.
    if not _NAME.fullmatch(name):
        raise ValueError("a name is small letters, digits and '-' within, at most 32 of them")
    return name


Name = Annotated[str, AfterValidator(_name)]
Values = Annotated[dict[str, Any], AfterValidator(frozen)]


class SchedulerEntry(Part):
    """A scheduler that is measured: its name alone, or with more details, so that two of one kind can be compared."""

    name: Name = Field(description="Its name in results; where no `kind` is said, that of its kind as well.")
    kind: str | None = Field(
        default=None, description="One of those that are known: `slurm`, `kubernetes`, ..."
    )
    options: Values = Field(default_factory=FrozenDict, description="Options of that kind of scheduler.")

    @property
    def kind_name(self) -> str:
        return self.kind or self.name


class WorkloadEntry(Part):
    """A workload: the kind of its generator, and what that is told."""

    name: Name = Field(description="Its name in results; where no `kind` is said, that of its kind as well.")
    kind: str | None = Field(
        default=None, description="One of those that are known: `bag`, `lublin`, `swf`, ..."
    )
    parameters: Values = Field(
        default_factory=FrozenDict, description="Parameters of that kind (docs/laboratory-workloads.md)."
    )

    @property
    def kind_name(self) -> str:
        return self.kind or self.name


class Disturbance(Part):
    """Bounds of what may come from outside of the laboratory; a trial with more of it is repeated."""

    stolen_percent: float = Field(
        default=2.0, ge=0, le=100, description="Time that the hypervisor takes, of all processors' time."
    )
    other_percent: float = Field(
        default=10.0,
        ge=0,
        le=100,
        description="Processor time of programs that are none of the laboratory's, likewise.",
    )
    throttled: Whole = Field(
        default=0,
        ge=0,
        description="How often processors may throttle in a trial, where the kernel counts it.",
    )


class Laboratory(Part):
    """All that is measured, on which machines, and how often."""

    pool: str = Field(
        default="",
        description="The pool of the spec whose machines are used; may be left out where there is one.",
    )
    schedulers: tuple[Annotated[SchedulerEntry, BeforeValidator(read_name)], ...] = Field(
        min_length=1, description="Schedulers: names, or keys and values."
    )
    workloads: tuple[Annotated[WorkloadEntry, BeforeValidator(read_name)], ...] = Field(
        min_length=1, description="Workloads: names of kinds, or keys and values."
    )
    repeats: Whole = Field(
        default=5, ge=1, le=1000, description="How often each workload runs under each scheduler."
    )
    seed: Whole = Field(default=1, ge=0, description="That of workloads and of the order of trials.")
    pinning: Literal["machine", "none"] = Field(
        default="machine",
        description="`machine`: each machine is bound to the processors that its boot chose, no two to the same as far as there are "
        "enough. `none`: the kernel moves their processes as it likes.",
    )
    processors: tuple[Annotated[Whole, Field(ge=0)], ...] = Field(
        default=(),
        description="The host's processors that the laboratory may use, by their numbers; all by default.",
    )
    limit_s: float = Field(default=600.0, gt=0, description="The longest that a trial may take, in seconds.")
    attempts: Whole = Field(
        default=3,
        ge=1,
        le=100,
        description="How often a trial is tried that is disturbed, or whose scheduler fails.",
    )
    sample_s: float = Field(
        default=0.5, gt=0, le=60, description="Between two looks at the host and the scheduler's programs."
    )
    disturbance: Disturbance = Field(default=Disturbance(), description="What may come from outside.")

    def campaign(self, name: str) -> Campaign:
        """Return what is measured as a campaign of that name."""
        return Campaign(
            name,
            tuple(each.name for each in self.schedulers),
            tuple(each.name for each in self.workloads),
            self.repeats,
            self.seed,
            tuple(SCHEDULERS[each.kind_name].side for each in self.schedulers),
        )

    def scheduler(self, name: str) -> SchedulerEntry:
        return next(each for each in self.schedulers if each.name == name)

    def workload(self, name: str, seed: int) -> Workload:
        """Return a workload of the file, made with that seed.

        Raises:
            LabError: its parameters are wrong.
        """
        entry = next(each for each in self.workloads if each.name == name)
        return make_workload(entry.name, entry.kind_name, entry.parameters, seed)

    def to_plain(self) -> Mapping[str, Any]:
        """Return it as plain values, as results keep it; `read_laboratory` takes them."""
        plain: dict[str, Any] = self.model_dump(mode="json")
        return plain


class LaboratoryError(LabError):
    """A laboratory that cannot be. Its text is for people and tells of all ``mistakes``."""

    def __init__(self, mistakes: tuple[Mistake, ...], where: str) -> None:
        number = "one mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__("\n  ".join([f"{where}: {number} in the laboratory:", *map(str, mistakes)]))
        self.mistakes = mistakes


def read_laboratory(given: Mapping[str, object], where: str = LAB_KEY) -> Laboratory:
    """Return the laboratory that ``given`` says, as YAML gives it; ``where`` it stands, for people.

    Raises:
        LaboratoryError: with every mistake in it.
    """
    try:
        found = Laboratory.model_validate(dict(given))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        mistakes = [mistake_of(each, Laboratory) for each in errors if not seems_short(each, errors)]
        raise LaboratoryError(tuple(mistakes), where) from None
    if mistakes := [*_names_twice(found), *_unknown(found), *_workload_mistakes(found)]:
        raise LaboratoryError(tuple(mistakes), where)
    return found


def _names_twice(laboratory: Laboratory) -> Iterator[Mistake]:
    for key, names in (
        ("schedulers", [each.name for each in laboratory.schedulers]),
        ("workloads", [each.name for each in laboratory.workloads]),
    ):
        for i, name in enumerate(names):
            if name in names[:i]:
                yield Mistake(
                    f"{key}[{i}].name", name, "another one has this name; write `kind` and a name of its own"
                )


def _unknown(laboratory: Laboratory) -> Iterator[Mistake]:
    for i, entry in enumerate(laboratory.schedulers):
        if entry.kind_name not in SCHEDULERS:
            key = "kind" if entry.kind else "name"
            yield Mistake(
                f"schedulers[{i}].{key}",
                entry.kind_name,
                f"there is no such scheduler; {nearest(entry.kind_name, sorted(SCHEDULERS))}",
            )


def _workload_mistakes(laboratory: Laboratory) -> Iterator[Mistake]:
    """Make each workload once: its generator knows what it may be told."""
    for i, entry in enumerate(laboratory.workloads):
        try:
            laboratory.workload(entry.name, laboratory.seed)
        except LabError as error:
            yield Mistake(f"workloads[{i}]", None, str(error))
