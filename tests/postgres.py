"""A PostgreSQL of the tests' own: in a temporary folder, as an unprivileged user, on a Unix socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import children

#: What runs it where tests are root's, which PostgreSQL refuses.
USER = "nobody"


def programs() -> Path | None:
    """The folder of the newest release that is installed."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def missing() -> str:
    """Why none can be started here; empty where one can."""
    return "" if programs() else "not installed: postgresql"


class Postgres:
    """A running server. Its folder is short, as the path of a socket has to be."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self.folder.chmod(0o755)
        (self.folder / "data").mkdir()
        (self.folder / "socket").mkdir()
        if os.geteuid() == 0:
            for path in (self.folder / "data", self.folder / "socket"):
                shutil.chown(path, USER)
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "--no-sync", "--auth=trust", "--username=tidepool", "--encoding=UTF8", "--locale=C"
        )
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://tidepool@/postgres?host={self.folder}/socket"

    def start(self) -> None:
        self._run(
            *("pg_ctl", "start", "--wait", "--silent", f"--log={self.folder}/data/log"),
            f"--options=-F -c listen_addresses= -c unix_socket_directories={self.folder}/socket",
        )

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--mode=fast", "--silent")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        postmaster = int((self.folder / "data/postmaster.pid").read_text().split()[0])
        for pid in [postmaster, *children(postmaster)]:
            os.kill(pid, number)

    def close(self) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate", "--silent")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        folder = programs()
        assert folder is not None
        done = subprocess.run(
            [str(folder / program), f"--pgdata={self.folder}/data", *arguments],
            cwd=self.folder,
            user=USER if os.geteuid() == 0 else None,
            group="nogroup" if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
            # The server would keep a pipe open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.returncode}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server of the tests' own."""
    if missing():
        pytest.skip(missing())
    running = Postgres()
    yield running
    running.close()
