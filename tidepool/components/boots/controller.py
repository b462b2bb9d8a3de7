"""The machine of slurmctld, and the one that stands by."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from pulumi import Input

from tidepool.cluster import power_saving
from tidepool.components.boots.shared import MUNGED, RUN_FOLDERS, SSHD, Keys
from tidepool.components.infrastructure.boot import Boot, File, Folder, Mount, Service

_STATE: Final = "/var/spool/slurmctld"


def controller_boot(keys: Keys, *, state: Input[str], home: Input[str], names_slots: bool = False) -> Boot:
    """Run munged, sshd and slurmctld; ``state`` is the volume of StateSaveLocation, ``home`` that of /home.

    With ``names_slots``, slurm.conf has the slots.
    """
    # Nodes that slurm.conf says are FUTURE are so again when slurmctld starts, unless it recovers all of its state.
    recovers = ("-R",) if names_slots else ()
    slurmctld = Service(
        "slurmctld",
        ("/usr/sbin/slurmctld", "-D", *recovers),
        ready="tcp:6817",
        stop_timeout_s=20,
        # Its configuration comes when all machines that have it are up.
        begins="path:/etc/slurm/slurm.conf",
    )
    return Boot(
        # sshd first: whoever comes in to see why slurmctld does not start gets in.
        services=(MUNGED, SSHD, slurmctld),
        files=(*keys.files, *_power_programs()),
        folders=(
            *RUN_FOLDERS,
            *keys.homes,
            Folder(_STATE, "0700", "slurm", "slurm"),
            Folder(power_saving.SPOOL, "0700", "slurm", "slurm"),
        ),
        mounts=(Mount(state, _STATE), Mount(home, "/home")),
    )


def _power_programs() -> tuple[File, ...]:
    """What Slurm's power saving calls. They are there in either mode, so that no machine boots for a change of it.

    slurmctld runs them without arguments of its own, hence a file for each.
    """
    written = files("tidepool").joinpath("scaling/power/request.py").read_text(encoding="utf-8")
    calls = {power_saving.UP_PROGRAM: "up", power_saving.DOWN_PROGRAM: "down"}
    return (
        File(power_saving.REQUEST_PROGRAM, written),
        *(
            File(
                path,
                f'#!/bin/sh\nexec /usr/bin/python3 -I -S {power_saving.REQUEST_PROGRAM} {what} "$@"\n',
                "0755",
            )
            for path, what in calls.items()
        ),
    )
