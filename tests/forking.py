"""Programs of the project for its tests, forked from a process that has imported all that they import.

`tidepool` and its provider import for a second each before they do anything, and a test of a whole cluster has them do some thirty
things. What is forked has a process, a session, an environment, a folder and streams of its own, and imports nothing of another.
What `/proc` tells of it is the server's, though, and its parent is the server: who looks there, or kills, starts the program itself.

`python -m tests.forking FD` serves the socket FD until its own standard input ends. A request is one message of JSON (`argv`, as
Python has it, `cwd`, `env` and the path of a network's `namespace`), with the descriptors that it has as 0, 1, 2 and so on; answers are the
process's id, and what `waitpid` says of its end. A message without `argv` tells keys of stacks that were derived, or modules to import.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import TracebackType
from typing import IO, Any, Final, NoReturn, Self

from tests.net_namespace import enter
from tidepool.engine.automation import with_package
from tidepool.engine.providers import process
from tidepool.engine.state import secrets
from tidepool.engine.warm import process as warm

ROOT: Final = Path(__file__).parents[1]
#: The process that started a plugin, whose parent is the server.
STARTED_BY: Final = "TESTS_STARTED_BY"
_IMPORTED: Final = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.pbkdf2",
    "encodings.utf_8_sig",
    "grpc._channel",
    "grpc._server",
    "grpc.experimental",
    "rich._emoji_codes",
    "rich.table",
    "tidepool.components",
)
#: Packages whose modules are imported once they are needed; none of them does anything then.
_LATE: Final = (
    "tidepool/cli",
    "tidepool/conversion",
    "tidepool/engine",
    "tidepool/infrastructures",
    "tidepool/provider",
    "tidepool/scaling",
)
_NETWORK: Final = "/proc/self/ns/net"
_LARGEST: Final = 1 << 20
_MOST_STREAMS: Final = 8
#: More than any descriptor that a process has for itself.
_ABOVE: Final = 512
_ANSWER: Final = 64
_SCRIPT_BYTES: Final = 4096

Spawned = tuple[Any, process.Watchdog]


class ForkedProcess:
    """A process that the server forked. ``stdout`` and ``stderr`` are pipes where `spawn` made it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ended: int | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self.pid = int(self._told())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, as `subprocess` does; raises its `TimeoutExpired` where it has not ended by then."""
        if self._ended is None:
            self._connection.settimeout(timeout)
            try:
                told = self._told()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0) from None
            self._ended = os.waitstatus_to_exitcode(int(told))
            self._connection.close()
        return self._ended

    def poll(self) -> int | None:
        """Return its exit code where it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send it a signal where it has not ended; not what it started."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def _told(self) -> bytes:
        told = self._connection.recv(_ANSWER)
        if not told:
            raise RuntimeError("the process that forks others has ended")
        return told


class ForkServer:
    """The server, as its tests and what it forked see it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def import_ahead(self, *modules: str) -> None:
        """Have it import more, for what it forks from now on: modules that start no threads."""
        self.tell(modules=modules)

    def tell(self, **told: Any) -> None:
        """Send what is no request: ``keys`` of stacks, or ``modules``."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(self.path)
            connection.send(json.dumps(told).encode())

    def fork(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: Sequence[int],
        namespace: str = "",
    ) -> ForkedProcess:
        """Fork what `python ARGV` is: ``-m MODULE ...``, or a path and what follows it.

        Without a ``namespace`` it is in the network of whoever calls, as a child would be.
        """
        namespace = namespace or f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
        request = {"argv": list(argv), "cwd": str(cwd), "env": dict(env), "namespace": namespace}
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(self.path)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
            socket.send_fds(connection, [json.dumps(request).encode()], streams)
            return ForkedProcess(connection)
        except BaseException:
            connection.close()
            raise

    def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        stdin: str | None = None,
        timeout_s: float,
        namespace: str = "",
        merged: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Do what `subprocess.run` does with the same; raises `subprocess.TimeoutExpired` as it does.

        ``merged`` writes standard error where standard output goes.
        """
        with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            given.write(stdin or "")
            given.seek(0)
            streams = [file.fileno() for file in (given, out, out if merged else err)]
            forked = self.fork(argv, cwd, env, streams, namespace)
            try:
                code = forked.wait(timeout_s)
            except subprocess.TimeoutExpired:
                forked.kill()
                forked.wait()
                raise subprocess.TimeoutExpired(list(argv), timeout_s, _read(out), _read(err)) from None
            return subprocess.CompletedProcess(list(argv), code, _read(out), _read(err))


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


@cache
def fork_server() -> ForkServer:
    """Start the server of this process, which ends with it."""
    ours = ExitStack()
    atexit.register(ours.close)
    path = f"{ours.enter_context(TemporaryDirectory(prefix='forks-'))}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(128)
        # It ends once its standard input does.
        ours.enter_context(
            subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.forking", str(listener.fileno())],
                stdin=subprocess.PIPE,
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "GRPC_VERBOSITY": "ERROR",
                    "PYTHONFAULTHANDLER": "1",
                },
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
        )
    return ForkServer(path)


def serve(listener: socket.socket) -> None:
    """Fork what is asked for, until standard input ends."""
    for name in _IMPORTED:
        import_module(name)
    for name in _late():
        with suppress(ImportError):  # of a package that is not installed: who needs it is told
            import_module(name)
    # What is there now is never garbage; and a collection would copy it all in each child, which hardly lives to need one.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([0, listener.fileno(), *children], [], [])
        for descriptor in children.keys() & set(ready):
            pid, connection = children.pop(descriptor)
            _, ended = os.waitpid(pid, 0)
            os.close(descriptor)
            with suppress(OSError), connection:  # nobody wants to know
                connection.send(str(ended).encode())
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            message, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, _MOST_STREAMS)
            request = json.loads(message) if message else {}
            if "argv" not in request:  # nor is anything else, where whoever asked is gone
                secrets.remember_keys(request.get("keys", {}))
                for name in request.get("modules", ()):
                    getattr(
                        import_module(name), "__doc__", None
                    )  # a lazy one is imported with its first attribute
                connection.close()
                continue
            if threading.active_count() > 1:
                raise RuntimeError("a module has started a thread, which fork cannot copy")
            pid = os.fork()
            if pid == 0:
                listener_path = listener.getsockname()
                listener.close()
                for descriptor, (_, other) in children.items():
                    os.close(descriptor)
                    other.close()
                connection.close()
                _become(request, descriptors, ForkServer(listener_path))
            for descriptor in descriptors:
                os.close(descriptor)
            with suppress(OSError):
                connection.send(str(pid).encode())
            children[os.pidfd_open(pid)] = pid, connection
        elif 0 in ready:
            return


def _late() -> list[str]:
    found = [file for folder in _LATE for file in (ROOT / folder).rglob("*.py") if file.stem != "__main__"]
    parts = [file.relative_to(ROOT).with_suffix("").parts for file in found]
    return sorted(".".join(each[:-1] if each[-1] == "__init__" else each) for each in parts)


def _become(request: Mapping[str, Any], descriptors: Sequence[int], server: ForkServer) -> NoReturn:
    """In the forked process: be what Python is that was started with the same."""
    code = 1
    try:
        os.setsid()
        aside = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for each in descriptors]
        for descriptor in descriptors:
            os.close(descriptor)
        for stream, descriptor in enumerate(aside):
            os.dup2(descriptor, stream)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(request["env"])
        if not Path(_NETWORK).samefile(request["namespace"]):
            enter(request["namespace"])
        os.chdir(request["cwd"])
        of_path = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        sys.path[:] = [*of_path, *(each for each in sys.path if each not in of_path)]
        sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        process.spawn = partial(_spawned, server, process.spawn)
        warm.start = partial(_started_warm, server)
        secrets.remember = partial(_remembered, server, secrets.remember)
        first, *words = request["argv"]
        if first == "-m":
            sys.argv = words
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [first, *words]
            runpy.run_path(first, run_name="__main__")
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the process ends with it
        traceback.print_exc()
    finally:
        for written in (sys.stdout, sys.stderr):
            with suppress(OSError):
                written.flush()
        os._exit(code)


def _spawned(
    server: ForkServer,
    start: Callable[..., Spawned],
    argv: Iterable[str],
    cwd: Path,
    environ: Mapping[str, str],
    *,
    stderr: int = subprocess.PIPE,
    bufsize: int = -1,
) -> Spawned:
    """Do what ``start`` does, which is `tidepool.engine.providers.process.spawn`: plugins of this interpreter are forked."""
    argv = list(argv)
    if (words := _python_words(*argv)) is None:
        return start(argv, cwd, environ, stderr=stderr, bufsize=bufsize)
    env = {**environ, STARTED_BY: str(os.getpid())}
    with Path(os.devnull).open("r+b") as nothing:
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe() if stderr == subprocess.PIPE else (-1, os.dup(nothing.fileno()))
        forked = server.fork(words, cwd, env, [nothing.fileno(), theirs_out, theirs_err])
    for descriptor in (theirs_out, theirs_err):
        os.close(descriptor)
    forked.stdout = os.fdopen(out, "rb", bufsize)
    forked.stderr = os.fdopen(err, "rb", bufsize) if err >= 0 else None
    return forked, process.Watchdog(forked.pid)


def _python_words(program: str, *words: str) -> list[str] | None:
    """What Python is told by a plugin's command line; None where that is another's."""
    if program == sys.executable:
        return [*words] if words and Path(words[0], "__main__.py").is_file() else None
    # A program that `tests.plugins.serving.search_path` made; a plugin that is installed may be anything.
    with Path(program).open("rb") as file:
        served = re.search(rb"-m (tests\.plugins\.serving) (\w+) ", file.read(_SCRIPT_BYTES))
    return ["-m", served[1].decode(), served[2].decode(), *words] if served else None


def _remembered(server: ForkServer, remember: Callable[[str, bytes], None], name: str, key: bytes) -> None:
    """Remember the key of a stack, and have the server know it: it takes longer to derive than most of what is asked of a stack."""
    remember(name, key)
    with suppress(OSError):
        server.tell(keys=secrets.keys())


def _started_warm(
    server: ForkServer, control: socket.socket, modules: Sequence[str], env: Mapping[str, str]
) -> Any:
    """Do what `tidepool.engine.warm.process.start` does."""
    words = ["-m", "tidepool.engine.warm.forking", "3", *modules]
    env = {**env, "PYTHONPATH": with_package(env.get("PYTHONPATH", ""))}
    with Path(os.devnull).open("r+b") as nothing:
        return server.fork(words, Path("/"), env, [*(3 * [nothing.fileno()]), control.fileno()])


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as of_tests:
        serve(of_tests)
