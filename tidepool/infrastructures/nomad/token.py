"""The ACL token: from a file for one person alone, or the environment; never from an argument."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class TokenError(Exception):
    """It cannot be read. The text is for a person."""


def read_token(file: str | None, environment: Mapping[str, str]) -> str:
    """The token of that file, else NOMAD_TOKEN; empty where there is none.

    Raises:
        TokenError: the file cannot be read, or others can read it.
    """
    if file is None:
        return environment.get("NOMAD_TOKEN", "")
    path = Path(file)
    try:
        if path.stat().st_mode & 0o077:
            raise TokenError(f"others can read the token in {file}; run: chmod 600 {file}")
        return path.read_text().strip()
    except OSError as error:
        raise TokenError(f"the token in {file} cannot be read: {error.strerror}") from error
