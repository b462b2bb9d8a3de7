"""Commands on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from tidepool.clients.transport import Completed, Unreachable, late

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
                raise late(argv, timeout_s, self._where) from None
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
