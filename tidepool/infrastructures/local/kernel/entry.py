"""Commands inside of a machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.birth import init_program
from tidepool.infrastructures.local.kernel.cgroup_choice import choose
from tidepool.infrastructures.local.kernel.errors import TimedOut
from tidepool.infrastructures.local.kernel.layout import machine_paths
from tidepool.infrastructures.local.kernel.machine import running_machine
from tidepool.infrastructures.local.kernel.spec import DEFAULT_PATH

_END_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a command. ``code`` is its exit code; 128 and the signal's number where one killed it."""

    code: int
    stdout: str
    stderr: str


def enter_prefix(data: Path, stack: str, name: str) -> tuple[str, ...]:
    """Put before a command, it runs in the machine: its namespaces, limits and capabilities; as root.

    The environment and the streams are the caller's. It holds for the machine's present boot; later it refuses
    with exit code 125, even where the pid was given to another process.

    Raises:
        NoSuchMachine: it is not running.
    """
    lifeline = running_machine(data, stack, name)
    entrances = choose().entrances(machine_paths(data, stack, name).inner_cgroup)
    return (str(init_program(data)), "enter", str(lifeline.pid), str(lifeline.start_ticks), *entrances, "--")


def execute(
    data: Path,
    stack: str,
    name: str,
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command in the machine and wait for its end.

    Args:
        data: the data folder.
        stack: the machine's stack.
        name: the machine's name.
        argv: the command and its arguments; no shell is between.
        timeout_s: after it the command, and what it started in its process group, is killed.
        stdin: what it reads.
        environment: beside ``PATH``, ``HOME`` and ``LANG``; nothing of the caller's is passed on.

    Raises:
        NoSuchMachine: it is not running.
        TimedOut: the command did not end in time.
    """
    variables = {"PATH": DEFAULT_PATH, "HOME": "/root", "LANG": "C.UTF-8", **(environment or {})}
    process = subprocess.Popen(
        [*enter_prefix(data, stack, name), *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=variables,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout_s)
    except BaseException as error:
        _let_go(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimedOut(f"{argv[0]} did not end within {timeout_s:g} s on machine {name}") from None
        raise
    return Ended(process.returncode, stdout, stderr)


def _let_go(process: subprocess.Popen[str]) -> None:
    """Kill it, and wait for its end; but not here where that takes long: in a machine that is frozen nothing ends."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, name="a command ends", daemon=True).start()
