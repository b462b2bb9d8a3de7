"""The machines of a laboratory: brought up, moved between Slurm and Kubernetes, killed and brought back, by Tidepool's own verbs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidepool.cli import show
from tidepool.cli.stack import Stack
from tidepool.cluster.roles import Role
from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.laboratory import Laboratory
from tidepool.lab.testbed import Testbed
from tidepool.toolchain.file_lock import StillHeld, file_lock

_LAST_LINES: Final = 15
#: In the stack's folder: held by the verb that a campaign has begun, and by what that verb has forked, until all have ended.
_LOCK: Final = "lab.lock"
#: How long one that was begun before is waited for, until the person is told how to find it.
_VERB_ENDS_S: Final = 600.0


@dataclass
class LabMachines:
    """Machines of a stack's pool. What verbs say is kept in ``log``.

    Each verb is a process of its own: it forks, and this one has threads. It works on where this one is killed, so a campaign
    that goes on waits for its end.
    """

    stack: Stack
    testbed: Testbed
    laboratory: Laboratory
    log: Path
    #: The processors that machines are bound to.
    processors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: The role that all of them have, as far as this process knows.
    _role: Role | None = None

    def up(self) -> None:
        """Bring the stack up, or back to what it is, and bind its machines.

        Raises:
            LabError: it does not come up; says why.
        """
        self._tidepool("up", "--yes")
        self._bind()

    def build_image(self, name: str) -> None:
        """Build a golden image, where it is not there as its recipe says.

        Raises:
            LabError: it does not build; says why.
        """
        self._tidepool("image", "build", name)

    def move(self, role: Role) -> None:
        """Have all machines serve a role.

        Raises:
            SchedulerFailed: one of them does not.
        """
        if role == self._role:
            return
        self._role = None
        try:
            self._tidepool(
                "convert", *self.testbed.machines, "--to", role, "--force", "--reason", "for the laboratory"
            )
        except LabError as error:
            raise SchedulerFailed(str(error)) from error
        self._bind()
        self._role = role

    def kill(self, machine: int) -> None:
        """End it at once, with all that runs there."""
        self.testbed.hosting.kill(self.testbed.machines[machine])

    def revive(self, machine: int) -> None:
        """Boot it again, with the role that it had."""
        name = self.testbed.machines[machine]
        self.testbed.hosting.start(name)
        try:
            self.up()
        except LabError as error:
            raise SchedulerFailed(f"machine {name} did not come back: {error}") from error

    def _bind(self) -> None:
        if self.laboratory.pinning == "none":
            return
        self.processors = {name: self.testbed.hosting.bind(name) for name in self.testbed.machines}

    def _tidepool(self, *words: str) -> None:
        command: Sequence[str] = [sys.executable, "-m", "tidepool.cli", "--stack", self.stack.name, *words]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self._after_the_last() as lock, self.log.open("a") as log:
            log.write(f"$ tidepool {' '.join(words)}\n")
            log.flush()
            done = subprocess.run(
                command,
                cwd=self.stack.project.root,
                env=dict(self.stack.context.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(lock,),
                check=False,
            )
        if done.returncode:
            said = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            raise LabError(
                "\n  ".join([f"`tidepool {words[0]}` failed, and said ({self.log} has all of it):", *said])
            )

    @contextmanager
    def _after_the_last(self) -> Iterator[int]:
        """The lock of a campaign's verbs on this stack, for the next of them to inherit.

        The stack's turn does not do for this: a verb that has ordered a conversion has no turn yet.
        """
        folder = self.stack.data / self.stack.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

        def tell() -> None:
            show.tell(
                f"what a campaign has begun on stack {self.stack.name} is under way; its end is waited for"
            )

        try:
            with file_lock(folder / _LOCK, _VERB_ENDS_S, tell) as lock:
                yield lock
        except StillHeld as error:
            raise LabError(str(error)) from error
