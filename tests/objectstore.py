"""An S3 server of the tests' own: versitygw over a temporary folder, on a port of this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.patience import until
from tests.toolchain import built_tools
from tidepool.toolchain import OBJECTSTORE


class ObjectStore:
    """A running server with the bucket ``state``."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="s3-"))
        (self.folder / "buckets").mkdir()
        self._secret = secrets.token_hex(16)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    built_tools(OBJECTSTORE).path("versitygw"),
                    *("--port", "127.0.0.1:0", "--iam-dir", self.folder / "accounts"),
                    *("posix", "--sidecar", self.folder / "notes", self.folder / "buckets"),
                ],
                env={**os.environ, "ROOT_ACCESS_KEY": "tests", "ROOT_SECRET_KEY": self._secret},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def environment(self) -> dict[str, str]:
        """The credentials."""
        return {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": self._secret}
