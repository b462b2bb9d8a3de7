"""`pulumi-language-python`: serves the host on a port, which it prints as plugins do; and puts it beside the CLI.

python -m tidepool.engine.language_host --executor FILE [ENGINE]
python -m tidepool.engine.language_host --install FOLDER    # what was built, for the environment of this Python
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidepool.engine.rpc import CHANNEL_OPTIONS, messages

#: Each program and plugin that runs has a thread to itself.
_THREADS: Final = 256
_LOOK_FOR_PARENT_S: Final = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; gives the exit code."""
    parser = argparse.ArgumentParser(prog="pulumi-language-python", description=__doc__)
    doing = parser.add_mutually_exclusive_group(required=True)
    doing.add_argument("--executor", type=Path, help="the script that runs a program")
    doing.add_argument("--install", type=Path, help="the folder that the CLI was built into")
    parser.add_argument("--tracing", help="taken, and not used")
    parser.add_argument("engine", nargs="?", default="", help="the engine's address")
    given = parser.parse_args(arguments)
    if given.install:
        from tidepool.engine.language_host.installing import install

        try:
            told, code = f"{install(given.install)} is ready", 0
        except OSError as error:
            told, code = f"{error.filename}: {error.strerror}; it is put into the environment {sys.prefix}", 1
        sys.stderr.write(f"pulumi: {told}\n")
        return code
    return serve(given.executor, given.engine, os.environ)


def serve(executor: Path, engine: str, environ: Mapping[str, str]) -> int:
    """Serve until a signal comes, or whoever started this is gone; then end what still runs."""
    import grpc

    from tidepool.engine.language_host.service import LanguageHost

    parent = os.getppid()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    host = LanguageHost(executor, environ, engine)
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=CHANNEL_OPTIONS)
    messages("language_pb2_grpc").add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while not over.wait(_LOOK_FOR_PARENT_S) and os.getppid() == parent:
        pass
    host.children.end_all()
    server.stop(grace=None).wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
