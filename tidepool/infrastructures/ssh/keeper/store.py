"""A claim's files, and the lock under which they are written."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.listing import LOCK, PLACE, ROOT

if TYPE_CHECKING:
    from typing import Any

LOCK_S = 20.0


class Locked:
    """A lock: of two who ask at once, one waits."""

    def __enter__(self) -> None:
        self.file = open(LOCK, "w")
        deadline = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SystemExit(
                        "somebody else claims this host or gives it back at the moment"
                    ) from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self.file.close()


def saved_at(path: str) -> str:
    return PLACE + "/saved" + path


def preserve(path: str) -> None:
    os.makedirs(os.path.dirname(saved_at(path)), mode=0o700, exist_ok=True)
    shutil.copyfile(ROOT + path, saved_at(path))
    os.chmod(saved_at(path), 0o600)


def read(name: str) -> Any:
    try:
        with open(PLACE + "/" + name) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def write(name: str, value: dict[str, Any]) -> None:
    partial = PLACE + "/" + name + ".new"
    with open(partial, "w") as file:
        os.fchmod(file.fileno(), 0o600)
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(partial, PLACE + "/" + name)
