"""Programs beside the control plane: they run in its machine, under its limits, as the scheduler of Kubernetes does."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from tidepool.cluster.names import CONTROL_PLANE_HOST
from tidepool.infrastructures.local import kernel
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.testbed import Testbed

#: In the machine.
FOLDER: Final = PurePosixPath("/opt/tidepool-lab")
KUBECONFIG: Final = FOLDER / "kubeconfig"
_READY_S: Final = 60.0
_END_S: Final = 10.0
_LOOK_S: Final = 0.05
_LAST: Final = 2000


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs there until it is ended.

    Attributes:
        file: the program, on this host; its name is that of its process, of 15 characters at most.
        arguments: what it is called with.
        port: where it listens on the machine's loopback once it works.
        files: texts that it needs, by their names in `FOLDER`.
    """

    file: Path
    arguments: tuple[str, ...]
    port: int
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> str:
        return self.file.name


class Beside:
    """Programs in the machine of the control plane. Those of their names that another process left there are ended first."""

    def __init__(self, testbed: Testbed, programs: Sequence[Program]) -> None:
        self._testbed = testbed
        self._programs = tuple(programs)
        self._started: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """Have them run, and wait until they work.

        Raises:
            SchedulerFailed: one ended, or does not work in time; says its last words.
        """
        if not self._programs:
            return
        self.end()
        root = self._root()
        folder = root / FOLDER.relative_to("/")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._testbed.kubeconfig is None:
            raise SchedulerFailed(f"stack {self._testbed.stack} has no Kubernetes")
        _write(folder / KUBECONFIG.name, self._testbed.kubeconfig.read_text())
        prefix = kernel.enter_prefix(self._testbed.data, self._testbed.stack, CONTROL_PLANE_HOST)
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "KUBECONFIG": str(KUBECONFIG),
        }
        for program in self._programs:
            _copy(program.file, folder / program.name)
            for name, text in program.files.items():
                _write(folder / name, text)
            with (folder / f"{program.name}.log").open("wb") as log:
                self._started.append(
                    subprocess.Popen(
                        [*prefix, str(FOLDER / program.name), *program.arguments],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=environment,
                        start_new_session=True,
                    )
                )
        for program, process in zip(self._programs, self._started, strict=True):
            self._until_ready(program, process, folder)

    def end(self) -> None:
        """End them, and wait until they are gone."""
        names = {program.name[:15] for program in self._programs}
        deadline, number = time.monotonic() + _END_S, signal.SIGTERM
        while left := [pid for pid, name in self._testbed.pids(CONTROL_PLANE_HOST).items() if name in names]:
            if time.monotonic() > deadline:
                number = signal.SIGKILL
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(_LOOK_S)
        for process in self._started:
            process.wait(_END_S)
        self._started.clear()

    def _root(self) -> Path:
        machine = kernel.read_machine(self._testbed.data, self._testbed.stack, CONTROL_PLANE_HOST)
        if machine is None or machine.pid is None:
            raise SchedulerFailed(
                f"the machine {CONTROL_PLANE_HOST} of stack {self._testbed.stack} does not run; `tidepool up` starts it"
            )
        return Path(f"/proc/{machine.pid}/root")

    def _until_ready(self, program: Program, process: subprocess.Popen[bytes], folder: Path) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                kernel.dial(
                    self._testbed.data,
                    self._testbed.stack,
                    CONTROL_PLANE_HOST,
                    "127.0.0.1",
                    program.port,
                    1.0,
                ).close()
            except OSError:
                if process.poll() is None and time.monotonic() < deadline:
                    time.sleep(_LOOK_S)
                    continue
            else:
                return
            said = (folder / f"{program.name}.log").read_text(errors="replace")[-_LAST:]
            why = f"does not work within {_READY_S:g} s" if process.poll() is None else "ended"
            raise SchedulerFailed(f"{program.name}, beside the control plane, {why}; its last words:\n{said}")


def _copy(source: Path, target: Path) -> None:
    """Copy a program, where it is not there yet as it is."""
    there, wanted = target.stat() if target.exists() else None, source.stat()
    if there and (there.st_size, there.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns):
        return
    made = target.with_name(f".{target.name}.new")
    shutil.copy2(source, made)
    made.replace(target)


def _write(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)
