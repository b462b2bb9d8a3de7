"""`reap --listen`: the service of runs, which ends runs in processes of their own when their clusters ask for it."""

from __future__ import annotations

import queue
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NoReturn

from tidepool.cli import show
from tidepool.cli.errors import LACKS, USAGE, Failure
from tidepool.cli.options import Choice

if TYPE_CHECKING:
    from tidepool.runs.results.store import Store

_LAST_PORT: Final = 65535
#: Unless a person says how often.
_SWEPT_EVERY_S: Final = 60.0
#: They hear SIGTERM when this process is gone, however that went: their clusters ask again.
_ENDS_WITH_PARENT: Final = ("setpriv", "--pdeathsig", "TERM", "--")


@dataclass
class Drivers:
    """Processes that drive runs with results at the URL ``results``: one for each, and one that sweeps."""

    choice: Choice
    results: str
    as_json: bool
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def end(self, run: str) -> None:
        """Have a run be driven to its end, where nobody here does yet."""
        self._begin(run, "run", "--resume", run)

    def reap(self, every_s: float) -> None:
        """Have somebody look again and again for runs whose clusters do not ask."""
        self._begin("", "reap", "--every", f"{every_s:g}")

    def _begin(self, key: str, *words: str) -> None:
        # Those that have ended are waited for, so that none stays as a zombie.
        self._running = {other: each for other, each in self._running.items() if each.poll() is None}
        if key in self._running:
            return
        shown = ["--json"] if self.as_json else []
        command = [sys.executable, "-m", "tidepool.cli", *words, "--results", self.results, *shown]
        self._running[key] = subprocess.Popen(
            [*_ENDS_WITH_PARENT, *command],
            stdin=subprocess.DEVNULL,
            env=dict(self.choice.context.env),
            cwd=self.choice.where(None),
        )


def serve(
    drivers: Drivers,
    store: Store,
    listen: str,
    certificate: str | None,
    key: str | None,
    every_s: float | None,
) -> NoReturn:
    """Serve until it is ended, and sweep beside: by default each minute, as a cluster that was killed while it came up cannot ask.

    The first time is so much later as well: clusters that waited for the service end their runs themselves.

    Raises:
        Failure: nobody can listen there, or the certificate is none.
    """
    wanted: queue.SimpleQueue[str] = queue.SimpleQueue()
    every_s = _SWEPT_EVERY_S if every_s is None else every_s
    with _listening(store, wanted, listen, certificate, key):
        show.tell(f"Listening at {listen}.")
        sweeps_at = time.monotonic() + every_s
        while True:
            if (left_s := sweeps_at - time.monotonic()) <= 0:
                drivers.reap(every_s)
                sweeps_at = time.monotonic() + every_s
            with suppress(queue.Empty):
                drivers.end(wanted.get(timeout=max(0.0, left_s)))


@contextmanager
def _listening(
    store: Store, wanted: queue.SimpleQueue[str], listen: str, certificate: str | None, key: str | None
) -> Iterator[None]:
    """Answer clusters of runs, in threads beside, while it is entered; ``wanted`` hears of runs that are to end."""
    from tidepool.runs.service import Service, http_server

    address, port = _address(listen)
    if key and not certificate:
        raise Failure("--key is of a --certificate; name that too", code=USAGE)
    try:
        context = None
        if certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate, key)
        service = Service(store, wanted.put, lambda: datetime.now(UTC))
        server = http_server(service, address, port, context)
    except (OSError, ssl.SSLError) as error:
        remedy = "name an address of this machine, a port that is free, and a certificate with its key"
        raise Failure(f"--listen {listen}: {error}", remedy=remedy, code=LACKS) from error
    thread = threading.Thread(target=server.serve_forever, name="service of runs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _address(listen: str) -> tuple[str, int]:
    address, _, port = listen.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port) <= _LAST_PORT:
        raise Failure(f"--listen {listen}: write ADDRESS:PORT, as 10.9.0.5:8443", code=USAGE)
    return address, int(port)
