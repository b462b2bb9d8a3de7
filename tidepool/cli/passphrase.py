"""The salt of a stack's secrets stays with the passphrase that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tidepool.cli.show import warn

_NAME: Final = "encryptionsalt"
_KEY: Final = f"{_NAME}:".encode()


@contextmanager
def unsalted(file: Path, *, ours: bool) -> Iterator[None]:
    """Keep the salt that an engine makes out of ``Pulumi.<stack>.yaml``, where the passphrase is ``ours``.

    A passphrase that Tidepool made is the data folder's. A salt of it in a file that people share would be a wrong
    one on every other machine, and here when the data folder is made anew. The state has the salt as well, and
    PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER has both engines look there.
    """
    if not ours or _salted(file):
        yield
        return
    before = file.read_bytes() if file.exists() else None
    try:
        yield
    finally:
        _unsalt(file, before)


def _unsalt(file: Path, before: bytes | None) -> None:
    if _salted(file):
        # Whoever writes YAML writes all of it a little different: where a person wrote nothing meanwhile, theirs is back.
        same = before is not None and _said(before) == _said(file.read_bytes())
        _write(file, before if before is not None and same else _without_salt(file))


def forget_salt(file: Path, project: str) -> bool:
    """Take a salt of another passphrase out of ``file``; whether it was. Not where something is encrypted with it."""
    from tidepool.engine.config import is_secure
    from tidepool.engine.config_file import read

    if not _salted(file) or any(map(is_secure, read(file, project).values.values())):
        return False
    warn(
        f"{file}: encryptionsalt was of another passphrase, and nothing is encrypted with it; it is taken out"
    )
    _write(file, _without_salt(file))
    return True


def _said(text: bytes) -> Any:
    """What a stack's file says but for the salt."""
    from tidepool.engine.yaml_reading import load

    document = load(text.decode())
    return {k: v for k, v in document.items() if k != _NAME} if isinstance(document, dict) else document


def _without_salt(file: Path) -> bytes:
    kept = [line for line in file.read_bytes().splitlines(keepends=True) if not line.startswith(_KEY)]
    return b"".join(kept)


def _write(file: Path, content: bytes) -> None:
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_bytes(content)
    written.chmod(file.stat().st_mode)
    written.replace(file)


def _salted(file: Path) -> bool:
    try:
        return any(line.startswith(_KEY) for line in file.read_bytes().splitlines())
    except FileNotFoundError:
        return False
