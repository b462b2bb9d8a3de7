"""The golden image for tests: built once for all of them, whatever process they run in, and for the next run too."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.toolchain import kubernetes_tools
from tidepool.cluster.slurm_releases import release_of
from tidepool.images import (
    Image,
    ImageError,
    ImageStore,
    LockError,
    Machine,
    MirrorError,
    build,
    buildable,
    read_source,
    remove_images,
)

#: The images of converged pools, of one Debian and of the next. They skip where the toolchain is not built.
CONVERGED, NEXT_CONVERGED = "debian-12-converged", "debian-13-converged"

#: Of one name, how many are kept.
_KEPT: Final = 2

_ROOT = Path(__file__).parent.parent


def golden_image(name: str = "debian-12") -> Image:
    """The image of images/NAME. Where it is not there, that takes a minute; skips where it cannot be built."""
    if name in (CONVERGED, NEXT_CONVERGED):
        kubernetes_tools()
    return image_of(_ROOT / "images" / name)


def image_of(recipe: Path) -> Image:
    """The same of a recipe's folder."""
    if os.geteuid() != 0:
        pytest.skip("building an image needs root: run the tests with sudo")
    if missing := [name for name in ("mmdebstrap", "mke2fs") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed: scripts/setup installs mmdebstrap and e2fsprogs")
    machine = Machine(dict(os.environ))
    source = read_source(
        recipe,
        _ROOT / "playbooks",
        architecture=machine.architecture(),
        environment=machine.environment,
    )
    store = ImageStore(store_folder())
    # The lock may name versions that the mirror has no more, as it keeps only the newest.
    wanted = buildable(source, store, machine).source
    is_new = store.find(wanted.digest) is None
    image = build(wanted, store, machine)
    if is_new:
        _remove_older(image, store)
    return image


def _remove_older(image: Image, store: ImageStore) -> None:
    """Leave the image that was built before this one by its name, for another work tree, and none of those before it."""
    built = {each: each.folder.stat().st_ctime for each in store.images() if each.name == image.name}
    for each in sorted(built, key=lambda each: built[each])[:-_KEPT]:
        # Machines of another run may stand on it.
        with contextlib.suppress(ImageError):
            remove_images([each], store)


def golden_store(*names: str) -> Path:
    """The folder of an `ImageStore` with those images in it; debian-12 where none is named."""
    for name in names or ("debian-12",):
        golden_image(name)
    return store_folder()


def golden_testing(release: str) -> str:
    """The name of the image of Debian's testing; skips where that has another release of Slurm by now, or none."""
    try:
        packages = golden_image("debian-14").packages
    except (MirrorError, LockError) as error:
        pytest.skip(f"Debian's testing is not to be had: {error}")
    version = next(package.version for package in packages if package.name == "slurmctld")
    if release_of(version) != release:
        pytest.skip(f"Debian's testing is not to be had with Slurm {release}: it has {version}")
    return "debian-14"


def store_folder() -> Path:
    """$TIDEPOOL_TEST_IMAGES, or a cache of whoever runs the tests."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TIDEPOOL_TEST_IMAGES") or cache / "tidepool" / "test-images").absolute()
