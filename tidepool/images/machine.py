"""The machine that builds: what of it a build may read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidepool.images.errors import MissingTool
from tidepool.images.sources import SourceFile

#: What is run; the Debian package that has it.
PACKAGE_OF: Final[Mapping[str, str]] = {
    "mmdebstrap": "mmdebstrap",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "tar": "tar",
    "debugfs": "e2fsprogs",
    "dumpe2fs": "e2fsprogs",
    "mke2fs": "e2fsprogs",
    "qemu-img": "qemu-utils",
    "sfdisk": "fdisk",
    "mformat": "mtools",
    "mmd": "mtools",
    "mcopy": "mtools",
}


@dataclass(frozen=True)
class Machine:
    """Folder of the configuration of the machine's apt, and the environment that apt runs with (its proxies)."""

    environment: Mapping[str, str]
    apt_folder: Path = field(default=Path("/etc/apt"))

    def architecture(self) -> str:
        """Return Debian's word for the machine, such as amd64.

        Raises:
            MissingTool: this machine is no Debian.
        """
        command = ["dpkg", "--print-architecture"]
        try:
            said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
        except FileNotFoundError:
            raise MissingTool(
                "there is no dpkg on PATH; images are built on Debian, or in a container of it"
            ) from None
        return said.stdout.strip()

    def package_sources(self) -> tuple[SourceFile, ...]:
        """Return the files of package sources, as they are."""
        parts = self.apt_folder / "sources.list.d"
        paths = [
            self.apt_folder / "sources.list",
            *sorted(parts.glob("*.list")),
            *sorted(parts.glob("*.sources")),
        ]
        return tuple(
            SourceFile("sources" if path.suffix == ".sources" else "list", path.read_text())
            for path in paths
            if path.is_file()
        )


def ansible_playbook() -> Path:
    """Return the program `ansible-playbook` of this interpreter's environment, else the one on PATH.

    Raises:
        MissingTool: there is none.
    """
    beside = Path(sys.executable).parent / "ansible-playbook"
    if beside.is_file():
        return beside
    found = shutil.which("ansible-playbook")
    if found is None:
        raise MissingTool(
            "ansible-core, which applies the roles, is not installed: run `make setup`, or "
            f"`{sys.executable} -m pip install ansible-core`"
        )
    return Path(found)


def require(*names: str) -> None:
    """Refuse to begin where a program is missing, or root.

    Raises:
        MissingTool: with all that are missing and the command that installs them.
    """
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        packages = sorted({PACKAGE_OF[name] for name in missing})
        raise MissingTool(
            f"this machine has no {', '.join(missing)}: run as root `apt-get install {' '.join(packages)}`"
        )
    if os.geteuid() != 0:
        raise MissingTool(
            "an image is built by root, as its files have many owners: run it as root, or with sudo"
        )
