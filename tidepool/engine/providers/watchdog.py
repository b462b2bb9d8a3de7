"""Children that end with the engine, even when the engine is killed with SIGKILL.

A shell reads from a pipe that only the engine holds open for writing. The kernel closes it when the
engine ends in whatever way, the shell reads the end of the file and kills the child's process group.

PR_SET_PDEATHSIG, the kernel's own means, is not used: it is bound to the *thread* that started the child
(which here is one of a pool and may end at any time), has to be set between fork and exec (where Python
code is not safe in a process with threads), and does not reach the child's own children.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final

# `read` succeeds when the engine calls the watch off by writing a line. Dash takes a process group only
# after `-s KILL`, not after `-KILL`.
_SCRIPT: Final = 'read -r off || kill -s KILL -- "-$1" 2>/dev/null'


class Watchdog:
    """Watches over one process group."""

    def __init__(self, process_group: int) -> None:
        read_end, self._write_end = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", str(process_group)],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                # Ctrl-C in the terminal is for the engine alone.
                process_group=0,
            )
        except OSError:
            os.close(self._write_end)
            raise
        finally:
            os.close(read_end)

    @property
    def lifeline(self) -> int:
        """The pipe's descriptor: the child lives as long as anybody has it, or a copy."""
        return self._write_end

    def call_off(self) -> None:
        """End the watch; the process group is left alone."""
        if self._write_end < 0:
            return
        try:
            os.write(self._write_end, b"off\n")
        except BrokenPipeError:
            pass  # The shell was ended by somebody else.
        os.close(self._write_end)
        self._write_end = -1
        self._shell.wait()
