"""Packages that reports need and clusters do not: they are of a group of their own, and said where they are missing."""

from __future__ import annotations

from importlib.util import find_spec

from tidepool.cli.errors import LACKS, Failure


def require_packages(*names: str) -> None:
    """Look that packages are installed, before anything of a report is made.

    Raises:
        Failure: some are not; names all of them.
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise Failure(
            f"reports of the laboratory need packages that are not installed: {', '.join(missing)}",
            remedy=f"pip install {' '.join(missing)}",
            code=LACKS,
        )
