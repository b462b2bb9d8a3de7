"""Files of the repository itself: not those that a person has put beside them, such as a stack of his own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git knows, those that match ``patterns`` alone where there are any. Skips outside of a clone."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]
