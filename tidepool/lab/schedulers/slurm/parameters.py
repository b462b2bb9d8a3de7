"""SchedulerParameters of one scheduler of a laboratory, in slurmctld's slurm.conf for as long as its trial lasts.

What the stack's spec says stays in that file as a comment meanwhile, so that whoever comes after a driver that was killed puts it back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from tidepool.clients.slurm import SlurmError
from tidepool.clients.slurm.client import ENVIRONMENT
from tidepool.clients.slurm.commands import judge
from tidepool.clients.transport import Transport
from tidepool.lab.errors import LabError
from tidepool.lab.schedulers.contract import Pause
from tidepool.lab.schedulers.slurm.answers import read_settings

#: The option's name in the laboratory's file, and in slurm.conf.
KEY: Final = "SchedulerParameters"
_CONF: Final = "/etc/slurm/slurm.conf"
_NEW: Final = f"{_CONF}.laboratory"
_MARK: Final = "# of the spec, while a laboratory measures: "
_OF_THE_SPEC: Final = re.compile(rf"^{KEY}=.*$", re.MULTILINE)
_PUT_IN: Final = re.compile(rf"^{_MARK}(.*)\n(?:{KEY}=.*\n)?", re.MULTILINE)
_VALUE: Final = re.compile(r"[A-Za-z0-9_=,:+./-]*")
_COMMAND_S: Final = 30.0
#: How long slurmctld may take to read its file again.
_READ_S: Final = 30.0


def parameters_of(value: object) -> str:
    """Return the option as slurm.conf has it; "" stands for Slurm's own defaults.

    Raises:
        LabError: it is no list of parameters.
    """
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise LabError(
            f"{KEY} is {value!r}, and should be as in slurm.conf: names and values with commas between them, without blanks, such as "
            "batch_sched_delay=0,bf_interval=1; or '' for Slurm's defaults"
        )
    return value


def with_parameters(conf: str, parameters: str | None) -> str:
    """Return the text of slurm.conf with these instead of the spec's; None puts those of the spec back."""
    conf = _PUT_IN.sub(r"\1\n", conf)
    if parameters is None:
        return conf
    own = f"{KEY}={parameters}\n" if parameters else ""
    return _OF_THE_SPEC.sub(lambda spec: f"{_MARK}{spec[0]}\n{own}".rstrip("\n"), conf, count=1)


def use_parameters(controller: Transport, parameters: str | None, pause: Pause = time.sleep) -> None:
    """Have slurmctld decide by these; None by those of the spec. Nothing is asked of it where that is so already.

    Raises:
        SlurmError: the controller's machine or slurmctld does not do it.
    """

    def run(*argv: str, stdin: str = "") -> str:
        return judge(argv, controller.run(argv, stdin=stdin, timeout_s=_COMMAND_S), controller.where)

    there = run("cat", _CONF)
    if not _OF_THE_SPEC.search(there) and _MARK not in there:
        raise SlurmError(
            f"{_CONF} has no {KEY}", where=controller.where, remedy="see what changed it; `tidepool refresh`"
        )
    wanted = with_parameters(there, parameters)
    if wanted == there:
        return
    # Renamed, so that slurmctld never reads half of it; a copy has the same owner and mode.
    run("cp", "--preserve=mode,ownership", _CONF, _NEW)
    run("tee", _NEW, stdin=wanted)
    run("mv", _NEW, _CONF)
    run(*ENVIRONMENT, "scontrol", "reconfigure")
    _until_read(lambda: run(*ENVIRONMENT, "scontrol", "show", "config"), wanted, pause, controller.where)


def _until_read(asked: Callable[[], str], conf: str, pause: Pause, where: str) -> None:
    """Wait until slurmctld says the parameters that its file says; it reads the file after it has answered."""
    found = _OF_THE_SPEC.search(conf)
    wanted = found[0].partition("=")[2] if found else "(null)"
    for _ in range(int(_READ_S / 0.1)):
        if read_settings(asked()).get(KEY) == wanted:
            return
        pause(0.1)
    raise SlurmError(
        f"slurmctld has not read {KEY} again within {_READ_S:g} s",
        where=where,
        remedy="see its log, `tidepool logs controller`",
    )
