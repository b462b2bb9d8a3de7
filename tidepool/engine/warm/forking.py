"""The warm process: it has imported all that operations need, and forks one process for each.

`python -m tidepool.engine.warm.forking FD MODULE...` serves the socket FD until that closes. It has one thread, no channel of
gRPC and no lock, so what it forks is as good as new; and it keeps the keys that its children derived, in memory alone.
"""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from tidepool.engine.command import main as carry_out
from tidepool.engine.state import secrets

#: What an operation imports late.
_ENGINE: Final = (
    "cryptography.hazmat.primitives.ciphers.aead",
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
    "tidepool.engine.program.in_process",
    "tidepool.engine.program.task",
    "tidepool.engine.providers.attached",
    "tidepool.engine.providers.connection",
    "tidepool.engine.providers.plugin",
    "tidepool.engine.running",
    "tidepool.engine.verbs.operation_commands",
)
_MOST_FDS: Final = 64
_KEYS_BYTES: Final = 1 << 16
#: What a request's descriptors are, in their order; more are kept open for as long as the operation runs.
REQUEST, STDOUT, STDERR, STATUS = range(4)


def serve(control: socket.socket, modules: Sequence[str]) -> None:
    """Import ``modules`` and fork operations, one for each message, until nobody holds the other end of ``control``.

    A message has descriptors: a file with the request as JSON (``words``, ``cwd``, ``env``), and where standard
    output, standard error and the status go. The status is the process's id, and its exit code in the end, a line each:
    where that is missing, it was killed.
    """
    for name in (*_ENGINE, *modules):
        import_module(name)
    # What is there now is never garbage; and a collection would copy it all in each child.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    # The kernel reaps those that end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    learning: list[int] = []
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_FDS)
        if not message:
            return
        learning = [reader for reader in learning if not _learnt(reader)]
        if sum(1 for _ in Path("/proc/self/task").iterdir()) > 1:
            raise RuntimeError(f"modules have started threads, which fork cannot copy: {', '.join(modules)}")
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        if os.fork() == 0:
            control.close()
            for other in (reader, *learning):
                os.close(other)
            _operate(descriptors, writer)
        os.close(writer)
        learning.append(reader)
        for descriptor in descriptors:
            os.close(descriptor)


def _learnt(reader: int) -> bool:
    """Take over the keys of a child that has ended; whether it has."""
    try:
        told = os.read(reader, _KEYS_BYTES)
    except BlockingIOError:
        return False
    os.close(reader)
    if told:
        secrets.remember_keys(json.loads(told))
    return True


def _operate(descriptors: Sequence[int], teach: int) -> NoReturn:
    """In the forked process: be what a process of this one operation is, to its end."""
    code = 255
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Whoever ends the operation ends it alone.
        os.setpgid(0, 0)
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
        os.write(descriptors[STATUS], f"{code}\n".encode())
    except BrokenPipeError:
        pass  # nobody wants to know what became of it
    except BaseException:  # noqa: BLE001 - the process ends with it
        os.write(2, traceback.format_exc().encode())
    os._exit(code)


class _Heard(io.RawIOBase):
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
    raw = io.BufferedWriter(_Heard(descriptor))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", line_buffering=True)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as control:
        serve(control, sys.argv[2:])
    os._exit(0)
