"""A machine's boot; and what changes of a running machine without one."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

from tidepool.infrastructures.local.kernel.birth import newborn
from tidepool.infrastructures.local.kernel.cgroup import Cgroups, Limits
from tidepool.infrastructures.local.kernel.layout import Paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline, end_all
from tidepool.infrastructures.local.kernel.network import cable, plug_in, register_address
from tidepool.infrastructures.local.kernel.plan import HOST_SETTINGS, Surroundings, encode, machine_steps
from tidepool.infrastructures.local.kernel.processors import take_processors, topology
from tidepool.infrastructures.local.kernel.record import Record, load
from tidepool.infrastructures.local.kernel.spec import MachineSpec, boot_fingerprint


def boot(
    program: Path,
    place: Paths,
    network: Paths,
    spec: MachineSpec,
    cgroups: Cgroups,
    switch: Lifeline,
    prefix_length: int,
    deadline: float,
) -> None:
    """Make its first process, its limits and its cable, and have it carry out its plan, on the disk that it has.

    ``program`` is the first process (:func:`tidepool.infrastructures.local.kernel.birth.init_program`). The machine's
    ``place`` is locked by the caller; ``switch`` and ``prefix_length`` are its network's. ``deadline`` is on the clock
    ``time.monotonic``.

    Raises:
        BootFailed: a step failed; says which and why.
        TimedOut: the deadline passed.
    """
    for folder in (place.root, place.upper, place.work):
        folder.mkdir(parents=True, exist_ok=True)
    os.chmod(place.folder, 0o700)
    shutil.copymode(spec.image, place.upper)  # the upper layer's is the one of /
    known = load(place.record)
    public = spec.public()
    machine_id = known.machine_id or os.urandom(8).hex()
    record = Record(public, spec.fingerprint, booted=boot_fingerprint(public), machine_id=machine_id)
    record.save(place.record)
    end_all(cgroups, place.cgroup, known.lifeline)
    if spec.containers:
        place.containers.mkdir(exist_ok=True)
    cgroups.create(place.cgroup, Limits(spec.cpus, spec.memory_mib))
    cgroups.create(place.inner_cgroup, Limits())
    register_address(network, spec.address, (spec.name, *spec.aliases))
    binds = any(service.binds for service in spec.services)
    processors = take_processors(place, spec.cpus, spec.address) if binds else ()
    with newborn(program, place.log, place.status, deadline) as first:
        try:
            cgroups.add(place.inner_cgroup, first.lifeline.pid)
            # From here on its maker may die: whoever comes next finds it.
            record = replace(record, lifeline=first.lifeline)
            record.save(place.record)
            surroundings = Surroundings(
                root=str(place.root),
                upper=str(place.upper),
                work=str(place.work),
                hosts=str(network.hosts),
                cable=cable(first.lifeline, switch, network, spec, prefix_length),
                host_settings=tuple(path for path in HOST_SETTINGS if Path(path).exists()),
                cgroups=cgroups.mounts(),
                home_group=cgroups.home,
                containers=str(place.containers) if spec.containers else "",
                topology=topology(spec.cpus, processors) if processors else "",
                processors=processors,
            )
            first.boot(encode(machine_steps(spec, surroundings)), deadline)
        except BaseException:
            first.lifeline.signal(signal.SIGKILL)
            raise
    replace(record, complete=True, switch=switch).save(place.record)


def change(
    program: Path,
    place: Paths,
    network: Paths,
    spec: MachineSpec,
    cgroups: Cgroups,
    known: Record,
    switch: Lifeline,
    prefix_length: int,
) -> None:
    """Bring a running machine to its specification, as far as that goes without a boot."""
    if known.switch != switch and known.lifeline is not None:
        plug_in(program, known.lifeline, switch, network, spec, prefix_length)
        known = replace(known, switch=switch)
        known.save(place.record)
    if known.fingerprint != spec.fingerprint:
        register_address(network, spec.address, (spec.name, *spec.aliases))
        cgroups.create(place.cgroup, Limits(spec.cpus, spec.memory_mib))
        # Last: a change that was cut short is made again.
        replace(known, spec=spec.public(), fingerprint=spec.fingerprint).save(place.record)
