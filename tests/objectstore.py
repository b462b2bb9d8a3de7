"""An S3 server of the tests' own: versitygw over a temporary folder, on a port of this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.slurm.real import free_port
from tests.toolchain import built_tools
from tidepool.toolchain import OBJECTSTORE

_DEADLINE_S = 60.0


class ObjectStore:
    """A running server, with the bucket ``tests``; with ``most_mib``, all buckets have so much room, which takes root."""

    def __init__(self, *, most_mib: int | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="s3-"))
        self._is_mounted = most_mib is not None
        if most_mib is not None:
            (self.folder / "buckets").mkdir()
            self.resize(most_mib, "mount", "tmpfs", "-t", "tmpfs")
        (self.folder / "buckets" / "tests").mkdir(parents=True)
        (self.folder / "notes").mkdir()
        self.port = free_port()
        self._secret = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """The credentials of who may do everything."""
        return {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": self._secret}

    def url(self, folder: str, port: int | None = None) -> str:
        """The backend's URL of a folder of the bucket; ``port`` is that of another way to the server."""
        at = f"http://127.0.0.1:{port or self.port}"
        return f"s3://tests/{folder}?region=us-east-1&endpoint={at}&s3ForcePathStyle=true"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(built_tools(OBJECTSTORE).path("versitygw"), "--port", f"127.0.0.1:{self.port}"),
                    *("posix", "--sidecar", self.folder / "notes", self.folder / "buckets"),
                ],
                env={**os.environ, "ROOT_ACCESS_KEY": "tests", "ROOT_SECRET_KEY": self._secret},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        began = time.monotonic()
        while not self._answers():
            told = (self.folder / "log").read_text()
            assert self._process.poll() is None, f"the S3 server ended: {told}"
            assert time.monotonic() - began < _DEADLINE_S, f"the S3 server does not answer: {told}"
            time.sleep(0.05)

    def resize(self, most_mib: int, *mount: str | Path) -> None:
        """Give the buckets another size."""
        words = mount or ("mount", "-o", "remount")
        subprocess.run([*words, "-o", f"size={most_mib}m", self.folder / "buckets"], check=True)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_DEADLINE_S)

    def close(self) -> None:
        self.stop()
        if self._is_mounted:
            subprocess.run(["umount", self.folder / "buckets"], check=True)
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1.0).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="session")
def objectstore() -> Iterator[ObjectStore]:
    """A running server of the tests' own. Skips where it is not built."""
    running = ObjectStore()
    yield running
    running.close()
