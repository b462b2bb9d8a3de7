"""Python packages that programs and plugins need besides the judge's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .copy import Copy, NotHere


def provide(names: Sequence[str], copy: Copy, built: Path) -> None:
    """Put ``names`` on the run's path; each is installed once, in a folder of its own below ``built``.

    Raises:
        NotHere: when one cannot be installed.
    """
    for name in names:
        folder = built / "python" / name
        if not folder.is_dir():
            install([name], folder)
        copy.packages.append(folder)


def install(what: Sequence[str], target: Path) -> None:
    """Install with pip, ``what`` being its arguments. Raises NotHere when that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), *what],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise NotHere(f"{what[-1]} cannot be installed: {done.stderr.strip() or done.stdout.strip()}")
