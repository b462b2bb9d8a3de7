"""The machine of slurmctld, and the one that stands by."""

from __future__ import annotations

from typing import Final

from pulumi import Input

from tidepool.components.boots.shared import MUNGED, RUN_FOLDERS, SSHD, Keys
from tidepool.components.infrastructure.boot import Boot, Folder, Mount, Service

_STATE: Final = "/var/spool/slurmctld"
#: Begun once its configuration is there, which comes when all machines that have it are up.
_SLURMCTLD: Final = Service(
    "slurmctld",
    ("/usr/sbin/slurmctld", "-D"),
    ready="tcp:6817",
    stop_timeout_s=20,
    begins="path:/etc/slurm/slurm.conf",
)


def controller_boot(keys: Keys, *, state: Input[str], home: Input[str]) -> Boot:
    """Run munged, sshd and slurmctld; ``state`` is the volume of StateSaveLocation, ``home`` that of /home."""
    return Boot(
        # sshd first: whoever comes in to see why slurmctld does not start gets in.
        services=(MUNGED, SSHD, _SLURMCTLD),
        files=keys.files,
        folders=(*RUN_FOLDERS, *keys.homes, Folder(_STATE, "0700", "slurm", "slurm")),
        mounts=(Mount(state, _STATE), Mount(home, "/home")),
    )
