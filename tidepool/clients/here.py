"""Commands on this machine, and in the namespaces of another process: a machine that is a namespace tree on this one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidepool.clients.transport import Completed, TimedOut, Unreachable, command_name

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: How long the pipes of a killed command may take to close.
_KILL_GRACE_S: Final = 2.0


class Here:
    """Runs commands on this machine, in the environment that is given and no other.

    The caller's own environment is not handed on: Slurm's commands read dozens of variables (SQUEUE_FORMAT,
    SLURM_CLUSTERS), and jobs inherit what `sbatch` is started with. ``environment`` is added to PATH:
    ``{"SLURM_CONF": "/srv/a/slurm.conf"}`` chooses the cluster.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, *, where: str = "on this machine"
    ) -> None:
        self._environment = {"PATH": PATH, **(environment or {})}
        self._where = where

    @property
    def where(self) -> str:
        return self._where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        try:
            # A session of its own, so that its children can be killed with it.
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as fault:
            raise Unreachable(
                f"{argv[0]} cannot be started: {fault.strerror or fault}",
                where=self._where,
                remedy="install it, or correct PATH in the transport's environment",
            ) from fault
        with process:
            try:
                out, err = process.communicate(stdin.encode(), timeout_s)
            except subprocess.TimeoutExpired:
                raise TimedOut(
                    f"{command_name(argv)} did not end within {timeout_s:g} s",
                    where=self._where,
                    remedy="see whether slurmctld hangs, or allow more time",
                ) from None
            finally:
                self._end(process)
        return Completed(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def close(self) -> None:
        return

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """Kill what is left of a command that did not end, and take what is in its pipes."""
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Something that left the session may hold the pipes open still; it is not waited for.
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_KILL_GRACE_S)


#: Those that a command of Slurm needs: files and keys, addresses, and its host's name.
USUAL: Final = ("mount", "net", "uts", "ipc", "pid")


class InNamespaces:
    """Runs commands in ``namespaces`` (nsenter's words: mount, net, uts, ipc, pid, user, cgroup) of process ``pid``.

    It is that one process: when it has ended and its number was given to another, every call is `Unreachable`.
    Root is needed.
    """

    def __init__(
        self, pid: int, namespaces: Collection[str] = USUAL, environment: Mapping[str, str] | None = None
    ) -> None:
        self._pid = pid
        # In a chroot, the root of a mount namespace is the host's; the process's own is what is meant.
        words = [*namespaces, *(("root", "wd") if "mount" in namespaces else ())]
        self._prefix = ["nsenter", f"--target={pid}", *(f"--{word}" for word in words), "--"]
        self._here = Here(environment, where=f"in the namespaces of process {pid}")
        self._started = _start_time(pid)

    @property
    def where(self) -> str:
        return self._here.where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if self._started is None or _start_time(self._pid) != self._started:
            raise Unreachable(
                f"process {self._pid}, whose namespaces were to be entered, has ended",
                where=self.where,
                remedy="see whether the machine is up",
            )
        return self._here.run([*self._prefix, *argv], stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        self._here.close()


def _start_time(pid: int) -> str | None:
    """Return when process ``pid`` began, in clock ticks since the boot; None where it has ended."""
    try:
        # The name before it stands in brackets and may hold anything: proc(5).
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, start_time = after_name[0], after_name[19]
    return None if state in "ZX" else start_time
