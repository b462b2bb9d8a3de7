"""The golden image for tests: built once for all of them, whatever process they run in, and for the next run too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tidepool.images import Image, ImageStore, Machine, build, read_source

_ROOT = Path(__file__).parent.parent


def golden_image() -> Image:
    """The image of images/debian-12. Where it is not there, that takes a minute; skips where it cannot be built."""
    if os.geteuid() != 0:
        pytest.skip("building an image needs root: run the tests with sudo")
    if missing := [name for name in ("mmdebstrap", "mke2fs") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed: scripts/setup installs mmdebstrap and e2fsprogs")
    machine = Machine(dict(os.environ))
    source = read_source(
        _ROOT / "images" / "debian-12", _ROOT / "playbooks", architecture=machine.architecture()
    )
    return build(source, ImageStore(_store()), machine)


def golden_store() -> Path:
    """The folder of an `ImageStore` with the golden image in it."""
    golden_image()
    return _store()


def _store() -> Path:
    """$TIDEPOOL_TEST_IMAGES, or a cache of whoever runs the tests."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TIDEPOOL_TEST_IMAGES") or cache / "tidepool" / "test-images").absolute()
