"""The versions of what tests run with, each from the file that pins it."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import Final

from tidepool.toolchain import Module, read_source

_IMAGES: Final = Path(__file__).parents[1] / "images"


def debian(package: str, title: str = "", image: str = "debian-12") -> str:
    """Return a package of an image with its version, as ``title``: its own name, where none is given."""
    (version,) = re.findall(
        rf"^{re.escape(package)} (\S+)", (_IMAGES / image / "packages.lock").read_text(), re.MULTILINE
    )
    upstream = re.sub(r"^\d+:|[-+~].*$", "", version)
    return f"{title or package} {upstream}"


def slurm(image: str = "debian-12") -> str:
    """Return the release of Slurm in an image."""
    return debian("slurmd", "Slurm", image)


def built(module: Module) -> str:
    """Return what `make` builds from Go modules."""
    return f"{module.title} {read_source(module).version}"


def installed(distribution: str) -> str:
    """Return a package of Python that tests are run with."""
    return f"{distribution} {importlib.metadata.version(distribution)}"
