"""The last step of a build: what each machine has of its own, and what differs from one build to the next, goes."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from tidepool.images.contents import inside
from tidepool.images.errors import ImageError

#: Each machine makes its own at its first start.
_PER_MACHINE: Final = (
    "etc/ssh/ssh_host_*",
    "etc/munge/munge.key",
    "var/lib/munge/*",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
)
#: Traces of the build, and of the machine that it ran on.
_TRACES: Final = (
    "etc/hostname",
    "etc/resolv.conf",
    "etc/hosts",
    "etc/.pwd.lock",
    "etc/*-",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*",
    "etc/apt/apt.conf.d/*mmdebstrap*",
    "var/cache/apt/*",
    "var/cache/debconf/*-old",
    "var/cache/ldconfig/aux-cache",
    "var/lib/apt/lists/*",
    "var/lib/apt/extended_states",
    "var/lib/dpkg/*-old",
    "root/.ansible",
    "root/.cache",
    "dev/*",
    "proc/*",
    "run/*",
    "sys/*",
    "tmp/*",
    "tmp/.*",
    "var/tmp/*",
)
_NO_SOURCES: Final = "# Set this to the mirror of the site that this machine stands at.\n"
_DPKG_OPTIONS: Final = "etc/dpkg/dpkg.cfg.d/99mmdebstrap"


def clean(root: Path, epoch: int) -> int:
    """Clean ``root``, set what is younger than ``epoch`` (s since 1970) back to it; give the bytes of its files."""
    for pattern in (*_PER_MACHINE, *_TRACES):
        for path in root.glob(pattern):
            _remove(root, path)
    for folder, _, names in os.walk(inside(root, "var/log")):
        for name in names:
            (Path(folder) / name).unlink()
    inside(root, "etc/machine-id").write_text("")
    if (root / "etc/apt").is_dir():
        inside(root, "etc/apt/sources.list").write_text(_NO_SOURCES)
    _clean_dpkg_options(root)
    return _set_times(root, epoch)


def _remove(root: Path, path: Path) -> None:
    path = inside(root, str(path.relative_to(root)))
    if path.is_dir() and not path.is_symlink():
        if os.path.ismount(path):
            raise ImageError(f"{path} is still mounted: unmount it, and build again")
        shutil.rmtree(path)
    else:
        path.unlink()


def _clean_dpkg_options(root: Path) -> None:
    """Keep the paths that are left out, for packages installed later; haste was for the build alone."""
    path = root / _DPKG_OPTIONS
    if path.exists():
        kept = [line for line in path.read_text().splitlines(keepends=True) if line.startswith("path-")]
        path.unlink()
        if kept:
            path.with_name("leave-out").write_text("".join(kept))


def _set_times(root: Path, epoch: int) -> int:
    total = 0
    seen: set[int] = set()
    for folder, _, _ in os.walk(root, topdown=False):
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_ino not in seen:
                    seen.add(status.st_ino)
                    total += status.st_size
                _set_time(entry.path, status, epoch)
    _set_time(str(root), root.stat(), epoch)
    return total


def _set_time(path: str, status: os.stat_result, epoch: int) -> None:
    # Whole seconds: not every form of an image keeps the rest.
    mtime = min(int(status.st_mtime), epoch)
    os.utime(path, (mtime, mtime), follow_symlinks=False)
