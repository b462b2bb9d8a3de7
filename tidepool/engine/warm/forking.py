"""The warm process: it has imported all that operations need, and forks one process for each.

`python -m tidepool.engine.warm.forking FD MODULE...` serves the socket FD until that closes. It has one thread, no channel of
gRPC and no lock, so what it forks is as good as new; and it keeps the keys that its children derived, in memory alone.
"""

from __future__ import annotations

import gc
import io
import json
import os
import select
import socket
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from tidepool.engine.command import end_process
from tidepool.engine.command import main as carry_out
from tidepool.engine.state import secrets

#: What an operation imports late.
_ENGINE: Final = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.pbkdf2",
    "google.protobuf.empty_pb2",
    "grpc",
    "pulumi.runtime",
    "pulumi.runtime.proto.callback_pb2_grpc",
    "pulumi.runtime.proto.engine_pb2_grpc",
    "pulumi.runtime.proto.provider_pb2_grpc",
    "pulumi.runtime.proto.resource_pb2_grpc",
    "tidepool.engine.deployment.deployment",
    "tidepool.engine.deployment.live",
    "tidepool.engine.display.event_log",
    "tidepool.engine.display.plain",
    "tidepool.engine.operation",
    "tidepool.engine.program.runners",
    "tidepool.engine.providers.connection",
    "tidepool.engine.providers.plugin",
    "tidepool.engine.running",
    "tidepool.engine.verbs.commands",
)
_MOST_FDS: Final = 64
_KEYS_BYTES: Final = 1 << 16
#: What a request's descriptors are, in their order; more are kept open for as long as the operation runs.
REQUEST, STDOUT, STDERR, STATUS = range(4)


@dataclass(frozen=True, slots=True)
class _Child:
    """An operation under way. ``process``, ``status`` and ``keys`` are descriptors; from ``keys`` comes what it derived."""

    pid: int
    process: int
    status: int
    keys: int

    def reap(self) -> None:
        """Tell how it ended, and take over its keys."""
        _, ended = os.waitpid(self.pid, 0)
        try:
            os.write(self.status, f"{_shell_code(ended)}\n".encode())
        except BrokenPipeError:
            pass  # nobody wants to know
        # Where it left a process behind, its end of the pipe may be open still.
        with suppress(BlockingIOError):
            if told := os.read(self.keys, _KEYS_BYTES):
                secrets.remember_keys(json.loads(told))
        self.close()

    def close(self) -> None:
        for descriptor in (self.process, self.status, self.keys):
            os.close(descriptor)


def serve(control: socket.socket, modules: Sequence[str]) -> None:
    """Import ``modules`` and fork operations, one for each message, until nobody holds the other end of ``control``.

    A message has descriptors: a file with the request as JSON (``words``, ``cwd``, ``env``), and where standard
    output, standard error and the status go. The status is the operation's process id, and in the end its exit code, a
    line each. Without the latter, this process ended before it, and the operation has ended when the status does.
    """
    for name in (*_ENGINE, *modules):
        import_module(name)
    # What is there now is never garbage; and a collection would copy it all in each child.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    children: dict[int, _Child] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), *children], [], [])
        for process in children.keys() & ready:
            children.pop(process).reap()
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_FDS)
        if not message:
            return
        child = _forked(control, children.values(), descriptors)
        children[child.process] = child


def _forked(control: socket.socket, others: Iterable[_Child], descriptors: Sequence[int]) -> _Child:
    if sum(1 for _ in Path("/proc/self/task").iterdir()) > 1:
        raise RuntimeError("a module that was imported ahead has started a thread, which fork cannot copy")
    keys, teach = os.pipe()
    os.set_blocking(keys, False)
    pid = os.fork()
    if pid == 0:
        control.close()
        os.close(keys)
        for other in others:
            other.close()
        _operate(descriptors, teach)
    os.close(teach)
    for at, descriptor in enumerate(descriptors):
        if at != STATUS:
            os.close(descriptor)
    return _Child(pid, os.pidfd_open(pid), descriptors[STATUS], keys)


def _operate(descriptors: Sequence[int], teach: int) -> NoReturn:
    """In the forked process: be what a process of this one operation is, to its end."""
    code = 255
    try:
        # Whoever ends the operation ends it alone; and what it starts has none of these.
        os.setpgid(0, 0)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        os.dup2(descriptors[STDOUT], 1)
        os.dup2(descriptors[STDERR], 2)
        with os.fdopen(descriptors[REQUEST], encoding="utf-8") as file:
            request: dict[str, Any] = json.load(file)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        invalidate_caches()
        os.write(descriptors[STATUS], f"{os.getpid()}\n".encode())
        stdout, stderr = _text(descriptors[STDOUT]), _text(descriptors[STDERR])
        known = secrets.keys()
        code = carry_out(
            request["words"], Path.cwd(), os.environ, stdout, stderr, interactive=False, owns_process=True
        )
        for stream in (sys.stdout, sys.stderr, stdout, stderr):
            stream.flush()
        if (learnt := secrets.keys()) != known:
            os.write(teach, json.dumps(learnt).encode())
    except BaseException:  # noqa: BLE001 - the process ends with it
        with suppress(OSError):
            os.write(2, traceback.format_exc().encode())
    end_process(code)


def _shell_code(ended: int) -> int:
    code = os.waitstatus_to_exitcode(ended)
    return code if code >= 0 else 128 - code


class _DetachableStream(io.RawIOBase):
    """A descriptor, for as long as somebody listens there: an operation goes on when its caller is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        try:
            return os.write(self._descriptor, content)
        except BrokenPipeError:
            return len(content)


def _text(descriptor: int) -> TextIO:
    # Not the process's own streams: those become the program's.
    raw = io.BufferedWriter(_DetachableStream(descriptor))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", line_buffering=True)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as control:
        serve(control, sys.argv[2:])
    os._exit(0)
