"""Verbs of `tidepool` in processes of their own, forked from one that has imported what they need: they begin at once.

The process that forks them has one thread, and does nothing else. It ends with the one that it serves, and a cluster's verbs hear
SIGTERM then: an `up` that nobody waits for would make what nobody ends. Runs of a sweep are forked so too, and go on without it.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Final, Literal, Self

import tidepool
from tidepool.cli.context import Context
from tidepool.cli.runs.forked import end_with, has_threads, have_streams, never_return
from tidepool.cli.stack import Stack, find_stack
from tidepool.cluster.desired_state import FORCE_SETTINGS
from tidepool.engine.errors import EngineError
from tidepool.engine.providers import discovery, interpreters
from tidepool.engine.providers.connection import VARIABLE
from tidepool.engine.providers.process import port_of
from tidepool.engine.state import secrets

#: What an `up` and a `down` import late. None of them starts a thread.
_AHEAD: Final = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.pbkdf2",
    "pulumi.runtime",
    "tidepool.cli.down",
    "tidepool.cli.jobs",
    "tidepool.cli.up",
    "tidepool.components",
    "tidepool.engine.deployment.deployment",
    "tidepool.engine.operation",
    "tidepool.engine.program.runners",
    "tidepool.engine.providers.plugin",
    "tidepool.engine.running",
    "tidepool.engine.verbs.operations",
)
#: What else a run does in its own process, its provider and its scaler import; where several runs are forked, all of them have it.
_AHEAD_OF_RUNS: Final = (
    *_AHEAD,
    "tidepool.cli.runs.driving",
    "tidepool.cli.runs.run",
    "tidepool.cli.runs.stack_cluster",
    "tidepool.cli.scale",
    "tidepool.cli.scaler_ports",
    "tidepool.engine.warm",
    "tidepool.infrastructures.local.boots",
    "tidepool.infrastructures.local.kinds",
    "tidepool.provider.configuration",
    "tidepool.provider.image",
    "tidepool.provider.keys",
    "tidepool.provider.node",
    "tidepool.provider.serving",
    "tidepool.provider.slots",
    "tidepool.provider.users",
    "tidepool.runs.cluster_files",
    "tidepool.runs.credentials",
    "tidepool.runs.drive",
    "tidepool.runs.feasibility",
    "tidepool.runs.page",
    "tidepool.runs.results.records",
    "tidepool.runs.slurm_jobs",
    "tidepool.scaling.daemon.daemon",
    "tidepool.scaling.daemon.loop",
    "tidepool.scaling.daemon.operations",
    "tidepool.scaling.journal",
)
#: The verbs of one cluster, with a provider, which end with whoever began them; or runs, each of which ends by itself.
Kind = Literal["cluster", "runs"]
#: Verbs that are the provider's; the scaler keeps one of its own.
_OPERATIONS: Final = frozenset({"up", "down"})
_LARGEST: Final = 1 << 16


class Verb:
    """One that was begun, by its process. It has ended when its status, a pipe that its parent holds, has an end."""

    def __init__(self, status: int) -> None:
        self._status = os.fdopen(status, "rb", buffering=0)
        self._code: int | None = None
        told = self._status.readline()
        if not told.endswith(b"\n"):
            self._status.close()
            raise OSError("the process that forks verbs has ended")
        self.pid = int(told)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Return its exit code, of one that was killed minus the signal; None where it has not ended by then."""
        if self._code is None:
            ready, _, _ = select.select([self._status], [], [], timeout_s)
            if not ready:
                return None
            told = self._status.readline()
            # Without it whoever forked it has ended, and it was told to.
            self._code = int(told) if told.endswith(b"\n") else -signal.SIGTERM
            self._status.close()
        return self._code

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, where it has not ended."""
        if self.wait(0) is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class VerbServer:
    """The process that forks verbs about ``stack`` in its project's folder, as the one that it serves has them."""

    def __init__(self, control: socket.socket, wait: Callable[[], object]) -> None:
        self._control, self._wait = control, wait

    @classmethod
    def start(cls, stack: Stack, kind: Kind = "cluster") -> Self:
        """Fork it from this process; where that has other threads, which are not copied, start one anew.

        That of ``runs`` is forked before a journal is open: SQLite's connections are of one process.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if has_threads():
            with theirs:
                program = [sys.executable, "-m", "tidepool.cli.runs.verbs"]
                started = subprocess.Popen(
                    [*program, str(theirs.fileno()), stack.name, kind],
                    cwd=stack.project.root,
                    env=dict(stack.context.env),
                    pass_fds=(theirs.fileno(),),
                )
            return cls(ours, started.wait)
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            end_with(parent, signal.SIGKILL)
            never_return(partial(_serve, theirs, stack, kind))
        theirs.close()
        return cls(ours, partial(os.waitpid, pid, 0))

    def begin(self, words: Sequence[str], log: int) -> Verb:
        """Begin a verb, whose output goes to the descriptor ``log``."""
        read, write = os.pipe()
        try:
            socket.send_fds(self._control, [json.dumps(list(words)).encode()], [log, write])
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        return Verb(read)

    def close(self) -> None:
        """End it; a cluster's verbs that have not ended hear SIGTERM, and runs go on."""
        self._control.close()
        with suppress(ChildProcessError):
            self._wait()


def _serve(control: socket.socket, stack: Stack, kind: Kind) -> int:
    # A person's Ctrl-C is for whoever drives, and for the verb.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    provider = _Provider(stack) if kind == "cluster" else None
    for name in _AHEAD if kind == "cluster" else _AHEAD_OF_RUNS:
        import_module(name)
    gc.collect()
    gc.freeze()
    children: dict[int, _Child] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), *children], [], [])
        for process in children.keys() & set(ready):
            children.pop(process).reap()
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _LARGEST, 2)
        if not message:
            return 0
        log, status = descriptors
        words: list[str] = json.loads(message)
        attached = provider.settings if provider and _OPERATIONS & {*words} else {}
        keys, teach = os.pipe()
        os.set_blocking(keys, False)
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            control.close()
            for other in children.values():
                other.close()
            os.close(status)
            os.close(keys)
            if kind == "cluster":
                end_with(server, signal.SIGTERM)
            never_return(partial(_carry_out, words, log, stack, attached, teach))
        os.close(log)
        os.close(teach)
        os.write(status, f"{pid}\n".encode())
        child = _Child(pid, os.pidfd_open(pid), status, keys)
        children[child.process] = child


@dataclass(frozen=True, slots=True)
class _Child:
    """A verb under way. ``process``, ``status`` and ``keys`` are descriptors; from ``keys`` comes what it derived, as that is slow on purpose."""

    pid: int
    process: int
    status: int
    keys: int

    def reap(self) -> None:
        """Tell how it ended, and know its keys: a `down` opens the stack that an `up` sealed."""
        _, ended = os.waitpid(self.pid, 0)
        with suppress(BrokenPipeError):
            os.write(self.status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
        # Where it left a process behind, its end of the pipe may be open still.
        with suppress(BlockingIOError):
            if told := os.read(self.keys, _LARGEST):
                secrets.remember_keys(json.loads(told))
        self.close()

    def close(self) -> None:
        for descriptor in (self.process, self.status, self.keys):
            os.close(descriptor)


class _Provider:
    """The provider of the stack's project, forked: it has imported all that it needs, and serves one operation after the other.

    It takes jobs for no reason not to delete: a run's cluster comes up without any, and goes with all. Where the project has
    another provider than this release's, or somebody attaches one, operations start what they need.
    """

    def __init__(self, stack: Stack) -> None:
        self._port: int | None = None
        self._told: IO[bytes] | None = None
        folder = _provider_folder(stack)
        if folder is None:
            return
        read, write = os.pipe()
        env, server = {**stack.environment, **FORCE_SETTINGS}, os.getpid()
        if os.fork() == 0:
            end_with(server, signal.SIGTERM)
            os.close(read)
            have_streams(write, os.open(os.devnull, os.O_WRONLY))
            os.environ.clear()
            os.environ.update(env)
            os.chdir(stack.project.root)
            never_return(partial(_served, folder))
        os.close(write)
        self._told = os.fdopen(read, "rb")

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings by which an operation attaches to it; none where there is no such provider."""
        if self._told is not None:
            # The pipe stays open: the provider would be ended by writing to none.
            self._port, self._kept, self._told = port_of(self._told.readline().decode()), self._told, None
        return {} if self._port is None else {VARIABLE: f"tidepool:{self._port}"}


def _served(folder: str) -> int:
    sys.argv = [folder]
    runpy.run_path(folder, run_name="__main__")
    return 0


def _provider_folder(stack: Stack) -> str | None:
    """Return the folder of this very package's provider, where an operation of the stack would start that one."""
    env, project = stack.environment, stack.project
    if VARIABLE in env:
        return None
    try:
        command = discovery.find(
            discovery.PluginRequest("tidepool"),
            project_plugins=project.providers,
            environ=env,
            pulumi_home=Path(env.get("PULUMI_HOME") or Path.home() / ".pulumi"),
            python=interpreters.of_project(project, env, sys.executable),
        )
    except EngineError:
        return None
    program, *rest = command.argv
    ours = Path(tidepool.__file__).resolve().parent.parent / "provider"
    return rest[0] if program == sys.executable and rest and Path(rest[0]).resolve() == ours else None


def _carry_out(words: Sequence[str], log: int, stack: Stack, attached: Mapping[str, str], teach: int) -> int:
    """Be what a process of this one verb is, to its end; keys that it derives go to ``teach``."""
    from tidepool.cli.main import PROGRAM, cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    have_streams(log, log)
    env = {**stack.context.env, **attached}
    os.environ.clear()
    os.environ.update(env)
    os.chdir(stack.project.root)
    own = replace(stack.context, env=os.environ, cwd=stack.project.root, person=False, owns_process=True)
    known = secrets.keys()
    try:
        cli.main(list(words), prog_name=PROGRAM, obj=own)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    finally:
        if (learnt := secrets.keys()) != known:
            os.write(teach, json.dumps(learnt).encode())
    return 0


def _main(control: str, stack: str, kind: Kind) -> int:
    """Serve the socket of that number, for whoever started this process."""
    end_with(os.getppid(), signal.SIGKILL)
    with socket.socket(fileno=int(control)) as served:
        return _serve(served, find_stack(Context.of_process(), stack, None), kind)


if __name__ == "__main__":
    control_fd, stack_name, kind_name = sys.argv[1:]
    os._exit(_main(control_fd, stack_name, "runs" if kind_name == "runs" else "cluster"))
