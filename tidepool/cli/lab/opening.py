"""From a stack's file to a laboratory that can be measured: all that speaks against it is told before anything is made."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.cli.errors import LACKS, USAGE, Failure
from tidepool.cli.lab.programs import programs_of
from tidepool.cli.stack import Stack
from tidepool.cli.stack_spec import described_spec
from tidepool.clients.transport import ClientError
from tidepool.engine.config import full_key, to_document
from tidepool.engine.config_file import read
from tidepool.images import ImageStore
from tidepool.lab.campaign import Campaign, Trial
from tidepool.lab.capacity import misfits
from tidepool.lab.laboratory import LAB_KEY, Laboratory, read_laboratory
from tidepool.lab.programs.build import NO_COMPILER, compiler
from tidepool.lab.results.store import Results
from tidepool.lab.schedulers.registry import scheduler_kind
from tidepool.lab.testbed import HOME, Testbed, plan_testbed

#: For a machine to read a small file.
_ASKED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Opened:
    """A laboratory that nothing speaks against.

    Attributes:
        laboratory: as the stack's file has it.
        campaign: what is measured.
        testbed: its machines, as they are when the stack is up.
        programs: those that its jobs run.
        processors: those of this host that are measured on.
    """

    laboratory: Laboratory
    campaign: Campaign
    testbed: Testbed
    programs: frozenset[str]
    processors: tuple[int, ...]


def described_laboratory(stack: Stack) -> Laboratory:
    """Return the laboratory in the stack's file.

    Raises:
        Failure: there is none.
        LabError: it has mistakes: all of them.
    """
    where = f"{stack.file}, {LAB_KEY}"
    key = full_key(LAB_KEY)
    values = read(stack.file, stack.project.name).values if stack.file.exists() else {}
    if key not in values:
        raise Failure(
            f"stack {stack.name} is no laboratory: {stack.file} has no {LAB_KEY} under config",
            remedy="write it as docs/laboratory.md says",
            code=USAGE,
        )
    mapping = to_document(values[key])
    if not isinstance(mapping, dict):
        raise Failure(f"{where} should be keys and values, and is {mapping!r}", code=USAGE)
    return read_laboratory(mapping, where)


def open_laboratory(stack: Stack, campaign: str) -> Opened:
    """Return the laboratory of a stack, where all that it measures can run.

    Raises:
        Failure: something speaks against it, all of which is told; nothing was made.
        LabError: the laboratory's file has mistakes.
    """
    laboratory = described_laboratory(stack)
    roots = {name: image.root for name, image in ImageStore(stack.context.images).newest().items()}
    testbed = plan_testbed(stack.data, stack.name, described_spec(stack), laboratory.pool, roots)
    measured = laboratory.campaign(campaign)
    here = os.sched_getaffinity(0)
    if wrong := [
        *_absent(laboratory.processors, here),
        *_unbound(laboratory, testbed),
        *_larger(laboratory, measured, testbed),
    ]:
        raise Failure(
            "\n  ".join([f"{stack.file}, {LAB_KEY}: this cannot be measured:", *wrong]),
            remedy="nothing was made; change the laboratory's file",
            code=USAGE,
        )
    without = [] if compiler() else [NO_COMPILER]
    _refuse([*without, *_lacks(laboratory, testbed)], "nothing was made")
    return Opened(
        laboratory,
        measured,
        testbed,
        programs_of(laboratory, measured),
        laboratory.processors or tuple(sorted(here)),
    )


def refuse_lacking(opened: Opened) -> None:
    """Look once more at what its schedulers need, on machines that are up.

    Raises:
        Failure: they lack something, all of which is told.
    """
    lacks = [*_lacks(opened.laboratory, opened.testbed), *_homes_apart(opened.testbed)]
    _refuse(lacks, "the stack is up, and nothing was measured")


def _refuse(lacks: Sequence[str], came: str) -> None:
    if lacks:
        told = "\n  ".join(["this machine lacks what the laboratory needs:", *lacks])
        raise Failure(told, remedy=came, code=LACKS)


def _absent(processors: Sequence[int], here: set[int]) -> Iterator[str]:
    for processor in sorted({*processors} - here):
        known = ", ".join(map(str, sorted(here)))
        yield f"processors: this machine has no processor {processor} for this process; it has {known}"


def _unbound(laboratory: Laboratory, testbed: Testbed) -> Iterator[str]:
    if laboratory.pinning == "machine" and testbed.hosting.unbound:
        yield f"pinning: {testbed.hosting.unbound}"


def _larger(laboratory: Laboratory, campaign: Campaign, testbed: Testbed) -> Iterator[str]:
    """Yield what is larger than the machines, in any repeat; the same of several repeats once."""
    told: dict[str, None] = {}
    for entry in laboratory.workloads:
        for repeat in range(campaign.repeats + 1):
            workload = laboratory.workload(entry.name, campaign.seed_of(entry.name, repeat))
            shape = len(testbed.machines), testbed.cpus_per_machine, testbed.memory_mib
            told |= dict.fromkeys(misfits(workload, *shape))
    yield from told


def _lacks(laboratory: Laboratory, testbed: Testbed) -> Iterator[str]:
    told: dict[str, None] = {}
    for entry in laboratory.schedulers:
        told |= dict.fromkeys(
            f"{entry.name}: {lack}" for lack in scheduler_kind(entry.kind_name).missing(testbed)
        )
    yield from told


def _homes_apart(testbed: Testbed) -> Iterator[str]:
    """Yield machines whose /home is not the one that this host reads: what is written there would not be found."""
    if not testbed.hosting.has_own_clocks:
        return
    seen, token = HOME / ".lab" / "seen", uuid.uuid4().hex
    here = testbed.here(seen)
    here.parent.mkdir(parents=True, exist_ok=True)
    here.write_text(token)
    for machine in testbed.machines:
        way = testbed.hosting.way(machine)
        try:
            found = way.run(["cat", str(seen)], timeout_s=_ASKED_S).stdout
        except ClientError as error:
            yield f"{machine} cannot be asked: {error}"
            continue
        if found != token:
            yield (
                f"/home {way.where} is not {testbed.home} of this host, from which records are read: export that folder by NFS, and name it "
                "as `home` of the infrastructure's `volumes`"
            )


def begun_results(opened: Opened, folder: Path) -> Results | None:
    """Return the results of a campaign that was begun; None where it was not.

    Raises:
        Failure: another laboratory's are in that folder.
        LabError: they cannot be read.
    """
    if not (folder / "campaign.json").exists():
        return None
    there, plain = Results.open(folder), opened.laboratory.to_plain()
    if (there.campaign, dict(there.laboratory)) != (opened.campaign, plain):
        changed = sorted(key for key in plain if there.laboratory.get(key) != plain[key]) or ["the campaign"]
        raise Failure(
            f"{folder} has results of another laboratory: {', '.join(changed)} changed since it began",
            remedy="begin another one, `tidepool lab run NAME`, or put the stack's file back to what it was",
            code=USAGE,
        )
    return there


def begin_results(opened: Opened, folder: Path) -> Results:
    """Begin the results of a campaign.

    Raises:
        LabError: they cannot be written.
    """
    cpus = len(opened.testbed.machines) * opened.testbed.cpus_per_machine
    return Results.create(folder, opened.campaign, opened.laboratory.to_plain(), cpus=cpus)


def selected(campaign: Campaign, only: Sequence[str]) -> Callable[[Trial], bool]:
    """Return whether a trial is among those that ``only`` names, each as SCHEDULER, SCHEDULER/WORKLOAD or /WORKLOAD; all where none is.

    Raises:
        Failure: a name is unknown.
    """
    pairs = [tuple(word.partition("/")[::2]) for word in only]
    for scheduler, workload in pairs:
        for name, known, what in (
            (scheduler, campaign.schedulers, "scheduler"),
            (workload, campaign.workloads, "workload"),
        ):
            if name and name not in known:
                raise Failure(
                    f"--only: there is no {what} {name!r}; there are {', '.join(known)}", code=USAGE
                )
    return lambda trial: (
        not pairs
        or any(
            scheduler in ("", trial.scheduler) and workload in ("", trial.workload)
            for scheduler, workload in pairs
        )
    )
