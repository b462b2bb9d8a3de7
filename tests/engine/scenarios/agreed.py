"""Digests of what the CLI and the engine came to when both last played a scenario.

While neither the scenario nor how it is played has changed, the engine alone is held to it. A digest says that something is different and not what, so then both play: that, and not the digest, decides.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from .format import Scenario

_HERE: Final = Path(__file__).parent
FILE: Final = _HERE.parent / "agreed.json"
#: How it is renewed.
REMEDY: Final = "make agreed"


def played_with(scenario: Scenario, cli_version: str) -> str:
    """Return the digest of all that decides what comes of a scenario, but for the engine."""
    programs = scenario.folder.parent
    folders = (scenario.folder, programs / "sdk", programs / "plugins", _HERE)
    digest = hashlib.sha256(f"{cli_version} {importlib.metadata.version('pulumi')}".encode())
    for path in sorted(each for folder in folders for each in folder.rglob("*") if each.is_file()):
        if "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(programs.parent)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def digest_of(seen: Iterable[dict[str, Any]]) -> str:
    """Return the digest of what was seen of all steps of a play."""
    return hashlib.sha256(json.dumps(list(seen), sort_keys=True).encode()).hexdigest()[:16]


def agreed(scenario: Scenario, cli_version: str) -> str | None:
    """Return the digest of what both came to; None where it was of another scenario, another way to play or another CLI."""
    entry = _read().get(scenario.name)
    return entry["came to"] if entry and entry["played with"] == played_with(scenario, cli_version) else None


def agree(scenario: Scenario, cli_version: str, came_to: str) -> None:
    """Write down what both came to."""
    entry = {"played with": played_with(scenario, cli_version), "came to": came_to}
    with _HERE.joinpath("__init__.py").open() as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        FILE.write_text(json.dumps(_read() | {scenario.name: entry}, indent=1, sort_keys=True) + "\n")


def _read() -> dict[str, dict[str, str]]:
    read: dict[str, dict[str, str]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return read
