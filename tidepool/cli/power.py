"""`tidepool power-up` and `power-down`: what Slurm's power saving calls, and what people call to see it work.

As the first word of a command line neither comes here: see `tidepool.cli.__main__`.
"""

from __future__ import annotations

import click

from tidepool.scaling.power.request import run

_EPILOG = (
    "On slurmctld's machine, as slurmctld's user. The scaler does the rest, with `scaling.mode: power_save`."
)


@click.command("power-up", epilog=_EPILOG)
@click.argument("hostlist")
def power_up_verb(hostlist: str) -> int:
    """Ask for nodes, as Slurm's ResumeProgram.

    HOSTLIST is written down, durably, and that is all: the daemon `tidepool scale` takes it from there.
    """
    return run(["up", hostlist])


@click.command("power-down", epilog=_EPILOG)
@click.argument("hostlist")
def power_down_verb(hostlist: str) -> int:
    """Give nodes back, as Slurm's SuspendProgram.

    HOSTLIST is written down, durably, and that is all: the daemon `tidepool scale` takes it from there.
    """
    return run(["down", hostlist])
