"""`Results`: the folder of one campaign. What is written in it is whole, or not there.

campaign.json                   the campaign, the laboratory's file as it was, its processors
workloads/WORKLOAD.REPEAT.json  the jobs, so that figures can be made anew where no generator and no trace is
trials/TRIAL/outcome.json       a trial that counts
trials/TRIAL/disturbed-N.json   one that does not: why stands in it
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from tidepool.lab.campaign import Campaign, Trial
from tidepool.lab.errors import LabError
from tidepool.lab.outcome import TrialOutcome
from tidepool.lab.results.plain import from_json, to_json
from tidepool.lab.workload import Workload

_CAMPAIGN: Final = "campaign.json"
_FORM: Final = 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Description:
    campaign: Campaign
    laboratory: Mapping[str, Any]
    cpus: int
    form: int = _FORM


@dataclass(frozen=True, slots=True)
class Results:
    """Results of one campaign, as far as it has come. Made by `create` and `open`.

    Attributes:
        folder: where they are.
        campaign: what is measured.
        laboratory: the laboratory's file, as plain values.
        cpus: all processors of all its machines.
    """

    folder: Path
    campaign: Campaign
    laboratory: Mapping[str, Any] = field(repr=False)
    cpus: int

    @classmethod
    def create(
        cls, folder: Path, campaign: Campaign, laboratory: Mapping[str, object], *, cpus: int
    ) -> Results:
        """Begin the results of a campaign in a folder, which is made.

        Raises:
            LabError: there are results in it, or it cannot be written.
        """
        if (folder / _CAMPAIGN).exists():
            raise LabError(
                f"{folder} has results of a campaign already: go on with that one, or name another folder"
            )
        _write(folder / _CAMPAIGN, to_json(_Description(campaign, laboratory, cpus)))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Results:
        """Return the results in a folder.

        Raises:
            LabError: there are none, or they cannot be read.
        """
        path = folder / _CAMPAIGN
        if not path.exists():
            raise LabError(f"{folder} has no results of a campaign: it has no {_CAMPAIGN}")
        read = _read(_Description, path)
        if read.form != _FORM:
            raise LabError(
                f"{path} is of form {read.form}, and this version of Tidepool reads form {_FORM}: use the version that wrote it"
            )
        return cls(folder, read.campaign, MappingProxyType(dict(read.laboratory)), read.cpus)

    def write(self, outcome: TrialOutcome, workload: Workload) -> None:
        """Keep a trial's outcome and the workload that was run; a disturbed outcome is kept beside those that count.

        A warm-up may be written again: a campaign that goes on has another.

        Raises:
            LabError: the trial is not of this campaign, it has an outcome, its workload is another than that of other schedulers in
                the same repeat, or nothing can be written.
        """
        trial = Trial(outcome.scheduler, outcome.workload, outcome.repeat)
        if trial not in frozenset(self.campaign.trials()):
            raise LabError(f"{trial.id} is no trial of the campaign {self.campaign.name} in {self.folder}")
        self._write_workload(workload, outcome.repeat)
        folder = self._folder_of(trial)
        if outcome.disturbed:
            _write(
                folder / f"disturbed-{len(list(folder.glob('disturbed-*.json'))) + 1}.json", to_json(outcome)
            )
            return
        if (folder / "outcome.json").exists() and not trial.is_warm_up:
            raise LabError(f"{trial.id} has an outcome already in {self.folder}; a second would hide it")
        _write(folder / "outcome.json", to_json(outcome))

    def outcome(self, trial: Trial) -> TrialOutcome | None:
        """Return the outcome that counts; None where there is none yet."""
        path = self._folder_of(trial) / "outcome.json"
        return _read(TrialOutcome, path) if path.exists() else None

    def outcomes(self) -> Iterator[TrialOutcome]:
        """Yield all that count, in the campaign's order, without warm-ups."""
        for trial in self.campaign.trials():
            if not trial.is_warm_up and (outcome := self.outcome(trial)) is not None:
                yield outcome

    def workload(self, name: str, repeat: int) -> Workload:
        """Return the jobs of a workload in a repeat.

        Raises:
            LabError: it has not been run in that repeat.
        """
        path = self._workload_path(name, repeat)
        if not path.exists():
            raise LabError(
                f"{self.folder} has no workload {name} of repeat {repeat}: no trial of it has ended"
            )
        return _read(Workload, path)

    def done(self) -> frozenset[Trial]:
        """Return the trials that have an outcome that counts, warm-ups among them."""
        return frozenset(
            each for each in self.campaign.trials() if (self._folder_of(each) / "outcome.json").exists()
        )

    def missing(self) -> tuple[Trial, ...]:
        """Return the trials that have none, in the campaign's order, without warm-ups."""
        done = self.done()
        return tuple(each for each in self.campaign.trials() if each not in done and not each.is_warm_up)

    @property
    def is_whole(self) -> bool:
        """Return whether no trial is missing that is in figures."""
        return not self.missing()

    def disturbed(self) -> tuple[TrialOutcome, ...]:
        """Return the outcomes that do not count, in the campaign's order, and each trial's in the order in which they came."""
        return tuple(
            _read(TrialOutcome, path)
            for trial in self.campaign.trials()
            for path in sorted(self._folder_of(trial).glob("disturbed-*.json"), key=_number)
        )

    def _write_workload(self, workload: Workload, repeat: int) -> None:
        path = self._workload_path(workload.name, repeat)
        content = to_json(workload)
        if not path.exists():
            _write(path, content)
        elif path.read_bytes() != content:
            raise LabError(
                f"the workload {workload.name} of repeat {repeat} is another than the one that {path} has: its parameters, its trace "
                "or Tidepool have changed since the campaign began; begin another campaign"
            )

    def _folder_of(self, trial: Trial) -> Path:
        return self.folder / "trials" / trial.id

    def _workload_path(self, name: str, repeat: int) -> Path:
        return self.folder / "workloads" / f"{name}.{repeat}.json"


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _read(kind: type[T], path: Path) -> T:
    try:
        return from_json(kind, path.read_bytes())
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise LabError(
            f"{path} is not what Tidepool wrote: {error}; put it back from a copy, or remove it and go on with the campaign"
        ) from error


def _write(path: Path, content: bytes) -> None:
    """Write a file so that it is whole, or as it was, whenever the machine stops."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LabError(
            f"{path} cannot be written: {error.strerror}; free some space, or name another folder"
        ) from error
