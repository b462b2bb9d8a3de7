"""The needs of trials on this machine: records, the host's samples, and machines that move."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tidepool.cli.lab.machines import LabMachines
from tidepool.lab.campaign import Trial
from tidepool.lab.drive import Bench, Tried
from tidepool.lab.errors import LabError
from tidepool.lab.host import Host, disturbance, other_programs, own_cpu_s, unwrapped
from tidepool.lab.laboratory import Laboratory
from tidepool.lab.outcome import HostSample, ProcessRecord
from tidepool.lab.programs.records import clear_records, read_records, refuse_full
from tidepool.lab.schedulers.contract import Scheduler
from tidepool.lab.schedulers.registry import scheduler_kind
from tidepool.lab.testbed import Testbed
from tidepool.lab.trial import Surroundings

#: How long the host is looked at before anything is made.
_LOOK_S: Final = 2.0


def refuse_disturbed(laboratory: Laboratory, testbed: Testbed) -> None:
    """Look at the host for a moment.

    Raises:
        LabError: it throttles, its hypervisor steals time, or other programs use it, more than the laboratory bears.
    """
    host = Host()
    before = host.sample(time.monotonic(), own_cpu_s(testbed.hosting.cpu_s))
    time.sleep(_LOOK_S)
    after = host.sample(time.monotonic(), own_cpu_s(testbed.hosting.cpu_s))
    if amiss := disturbance((before, after), os.cpu_count() or 1, laboratory.disturbance):
        raise LabError(
            f"this machine is disturbed now, and each trial would be: {amiss}. Nothing was made; wait until it is quiet, or write what "
            "the laboratory bears under `disturbance` in its file"
        )


def make_bench(
    laboratory: Laboratory,
    testbed: Testbed,
    machines: LabMachines,
    told: Callable[[Tried], None],
    begun: Callable[[Trial, int, int, int], None],
) -> Bench:
    """Return what trials of a laboratory need, on machines that are up."""
    host = Host()
    range_j, count = host.energy_range_j(), os.cpu_count() or 1

    def open_scheduler(name: str) -> Scheduler:
        entry = laboratory.scheduler(name)
        return scheduler_kind(entry.kind_name).open(testbed, entry.options)

    def here(trial: Trial) -> Path:
        return testbed.here(testbed.records) / trial.id

    def read(trial: Trial, began: float) -> Mapping[str, tuple[ProcessRecord, ...]]:
        refuse_full(here(trial))
        return read_records(here(trial), began, own_clocks=testbed.hosting.has_own_clocks)

    def own_host(at_s: float) -> HostSample:
        return host.sample(at_s, own_cpu_s(testbed.hosting.cpu_s))

    bound = {
        f"processors of {name}": ", ".join(map(str, processors))
        for name, processors in machines.processors.items()
    }
    images = {f"image of {name}": image for name, image in testbed.hosting.images().items()}
    around = Surroundings(
        machines=machines,
        records=lambda trial: Path(testbed.records / trial.id),
        clear_records=lambda trial: clear_records(here(trial)),
        read_records=read,
        host=own_host,
        environment={**host.environment(), **images, **bound},
        disturbed=lambda samples: disturbance(samples, count, laboratory.disturbance),
        unwrap=lambda samples: unwrapped(samples, range_j),
        others=lambda: other_programs(testbed.hosting.processes),
        limit_s=laboratory.limit_s,
        sample_s=laboratory.sample_s,
    )
    return Bench(
        move=machines.move,
        open=open_scheduler,
        side=lambda name: scheduler_kind(laboratory.scheduler(name).kind_name).side,
        around=around,
        told=told,
        begun=begun,
    )
