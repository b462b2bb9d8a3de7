"""The salt of a stack's secrets stays with the passphrase that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_KEY: Final = b"encryptionsalt:"


@contextmanager
def unsalted(file: Path, *, ours: bool) -> Iterator[None]:
    """Keep the salt that an engine makes out of ``Pulumi.<stack>.yaml``, where the passphrase is ``ours``.

    A passphrase that Tidepool made is the data folder's. A salt of it in a file that people share would be a wrong
    one on every other machine, and here when the data folder is made anew. The state has the salt as well, and
    PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER has both engines look there.
    """
    had_one = not ours or _salted(file)
    yield
    if not had_one and _salted(file):
        kept = [line for line in file.read_bytes().splitlines(keepends=True) if not line.startswith(_KEY)]
        written = file.with_name(f"{file.name}.{os.getpid()}")
        written.write_bytes(b"".join(kept))
        written.chmod(file.stat().st_mode)
        written.replace(file)


def _salted(file: Path) -> bool:
    try:
        return any(line.startswith(_KEY) for line in file.read_bytes().splitlines())
    except FileNotFoundError:
        return False
