"""A machine that people log in to, and submit jobs from."""

from __future__ import annotations

from pulumi import Input

from tidepool.components.boots.shared import MUNGED, RUN_FOLDERS, SSHD, Keys
from tidepool.infrastructures.boot import Boot, Mount


def login_boot(keys: Keys, *, home: Input[str]) -> Boot:
    """Run munged and sshd, for Slurm's commands; ``home`` is the volume of /home."""
    return Boot(
        services=(MUNGED, SSHD),
        files=keys.files,
        folders=(*RUN_FOLDERS, *keys.homes),
        mounts=(Mount(home, "/home"),),
    )
