"""Machines of slurmctld, of the one that stands by, and login machines; slurmctld of a pool's machine."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from pulumi import Input

from tidepool.cluster import controller_programs
from tidepool.cluster.frozen import FrozenDict
from tidepool.components.boots.shared import MUNGED, RUN_FOLDERS, SSHD, Keys
from tidepool.infrastructures.boot import Boot, File, Folder, Mount, Service

_STATE: Final = "/var/spool/slurmctld"
_SETTINGS: Final = "/etc/slurm"
#: Programs that slurmctld runs (`tidepool.cluster.controller_programs`), and is the parent of; there whether slurm.conf names them or not, so that no machine
#: boots for a change of that. A standby also runs the second when it has just been started.
_STANDING_BY: Final = (
    File(
        controller_programs.IN_CHARGE_PROGRAM,
        f"""\
#!/bin/sh
exec </dev/null >/dev/null 2>&1  # slurmctld has closed all
# The first controller of slurm.conf ends when another takes over; only the others stand by again.
host=$(uname -n)
first=$(sed -n 's/^SlurmctldHost=\\([^(]*\\).*/\\1/p' {_SETTINGS}/slurm.conf | head -n 1)
test "${{host%%.*}}" = "$first" || echo "$PPID" >{controller_programs.FOLDER}/in-charge
""",
        "0755",
    ),
    File(
        controller_programs.STANDS_BY_PROGRAM,
        f"""\
#!/bin/sh
exec </dev/null >/dev/null 2>&1
# By what the shell itself can, which takes no time: its state is saved, and it listens already. Told to take over now, it
# would stop the controller that it gave control to, and be gone before it was in charge.
read -r was <{controller_programs.FOLDER}/in-charge
test "$was" = "$PPID" || exit 0
: >{controller_programs.FOLDER}/in-charge
read -r name <"/proc/$PPID/comm"
test "$name" != slurmctld || kill -KILL "$PPID"
""",
        "0755",
    ),
)


def controller_boot(
    keys: Keys,
    *,
    state: Input[str],
    home: Input[str],
    settings: Input[str] | None = None,
    names_slots: bool = False,
    is_alone: bool = True,
    configuration: Mapping[str, str] = FrozenDict(),
) -> Boot:
    """Run munged, sshd and slurmctld; ``home`` is the volume of /home, all else is as of `slurmctld_boot`.

    ``configuration`` are the texts of Slurm's files, by name: they come when machines run, and change then.
    """
    slurmctld = slurmctld_boot(state=state, settings=settings, names_slots=names_slots, is_alone=is_alone)
    return Boot(
        # sshd first: whoever comes in to see why slurmctld does not start gets in.
        services=(MUNGED, SSHD, *slurmctld.services),
        files=(*keys.files, *slurmctld.files, *_power_programs()),
        folders=(
            *RUN_FOLDERS,
            *keys.homes,
            *slurmctld.folders,
            Folder(controller_programs.SPOOL, "0700", "slurm", "slurm"),
        ),
        mounts=(*slurmctld.mounts, Mount(home, "/home", read_only=False)),
        live_files=tuple(File(f"{_SETTINGS}/{name}", text) for name, text in sorted(configuration.items())),
    )


def slurmctld_boot(
    *,
    state: Input[str],
    settings: Input[str] | None = None,
    names_slots: bool = False,
    is_alone: bool = True,
    role: str = "",
) -> Boot:
    """Run slurmctld, and nothing that it needs besides.

    Args:
        state: the volume of StateSaveLocation.
        settings: that of Slurm's files, where several machines have the same; None where each is given its own.
        names_slots: slurm.conf has the slots.
        is_alone: there is no other controller. Else one that ended without an error is not started again: another one
            took over from it, and a primary that starts takes control back.
        role: that of the machine whose service it is.
    """
    # Nodes that slurm.conf says are FUTURE are so again when slurmctld starts, unless it recovers all of its state.
    recovers = ("-R",) if names_slots else ()
    slurmctld = Service(
        "slurmctld",
        ("/usr/sbin/slurmctld", "-D", *recovers),
        ready="tcp:6817",
        stop_timeout_s=20,
        # Its configuration comes when all machines that have it are up.
        begins=f"path:{_SETTINGS}/slurm.conf",
        role=role,
        restart="always" if is_alone else "on-failure",
    )
    shared = () if settings is None else (Mount(settings, _SETTINGS, read_only=False, role=role),)
    return Boot(
        services=(slurmctld,),
        files=_STANDING_BY,
        folders=(
            Folder(_STATE, "0700", "slurm", "slurm"),
            Folder(controller_programs.FOLDER, "0700", "slurm", "slurm"),
        ),
        mounts=(Mount(state, _STATE, read_only=False, role=role), *shared),
    )


def login_boot(keys: Keys, *, home: Input[str]) -> Boot:
    """Run munged and sshd, for Slurm's commands; ``home`` is the volume of /home."""
    return Boot(
        services=(MUNGED, SSHD),
        files=keys.files,
        folders=(*RUN_FOLDERS, *keys.homes),
        mounts=(Mount(home, "/home", read_only=False),),
    )


def _power_programs() -> tuple[File, ...]:
    """Return the programs that Slurm's power saving calls. They are there in either mode, so that no machine boots for a change of it.

    slurmctld runs them without arguments of its own, hence a file for each.
    """
    written = files("tidepool").joinpath("scaling/power/request.py").read_text(encoding="utf-8")
    calls = {controller_programs.UP_PROGRAM: "up", controller_programs.DOWN_PROGRAM: "down"}
    return (
        File(controller_programs.REQUEST_PROGRAM, written),
        *(
            File(
                path,
                f'#!/bin/sh\nexec /usr/bin/python3 -I -S {controller_programs.REQUEST_PROGRAM} {what} "$@"\n',
                "0755",
            )
            for path, what in calls.items()
        ),
    )
