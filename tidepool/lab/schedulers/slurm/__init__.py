"""Slurm under the laboratory: jobs by sbatch, arrays in one request, gangs by srun and PMIx, by Tidepool's own client of Slurm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidepool.clients.slurm import SlurmError
from tidepool.lab.errors import LabError
from tidepool.lab.schedulers.kind import SchedulerKind
from tidepool.lab.schedulers.slurm.parameters import KEY, parameters_of
from tidepool.lab.schedulers.slurm.scheduler import SlurmScheduler
from tidepool.lab.testbed import Testbed


def missing(testbed: Testbed) -> tuple[str, ...]:
    """Return what a stack lacks for Slurm, as sentences with their remedies."""
    try:
        partitions = testbed.slurm.partitions()
    except SlurmError:
        return ()  # it is not up yet, and who opens it hears of it
    if not partitions:
        return (
            f"stack {testbed.stack} has no partition; write `partitions: [{{name: main}}]` into its spec, then `tidepool up`",
        )
    return ()


def open_scheduler(testbed: Testbed, options: Mapping[str, object]) -> SlurmScheduler:
    """Return Slurm on these machines. Its one option is SchedulerParameters; all else is slurm.conf's, by the stack's spec.

    Raises:
        LabError: there are other options, or that one cannot be.
    """
    if others := sorted(options.keys() - {KEY}):
        raise LabError(
            f"slurm has the option {KEY}, and {', '.join(others)} are given; "
            "write other settings of Slurm under `slurm_conf` of the stack's spec"
        )
    return SlurmScheduler(testbed, parameters=parameters_of(options[KEY]) if KEY in options else None)


KIND: Final = SchedulerKind("slurm", "slurm", "slurm", missing, open_scheduler)
