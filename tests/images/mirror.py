"""A mirror of Debian's form in a folder, with a few packages that say nothing of real ones; it can move on."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidepool.images import Machine


@dataclass(frozen=True)
class Mirror:
    """The mirror in ``folder`` of the release ``release``, and the machine whose apt is set to it."""

    folder: Path
    machine: Machine
    release: str

    @classmethod
    def make(cls, folder: Path, release: str = "trixie", **versions: str) -> Mirror:
        mirror = cls(folder / "mirror", Machine(dict(os.environ), folder / "apt"), release)
        mirror.machine.apt_folder.mkdir(parents=True)
        line = f"deb [trusted=yes] file:{mirror.folder} {release} main\n"
        (mirror.machine.apt_folder / "sources.list").write_text(line)
        mirror.moves_on(**versions)
        return mirror

    def moves_on(self, **versions: str) -> None:
        """From now on it has just these packages, of these versions; ``base`` is essential."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.lists(a_package(self.folder, name, version) for name, version in versions.items())

    def lists(self, files: Iterable[Path], **release: str) -> None:
        """Write its lists of these files, which are in its folder, and what else its Release file is to say."""
        entries = []
        for file in files:
            said = subprocess.run(["dpkg-deb", "--field", file], check=True, capture_output=True, text=True)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            more = (
                f"Filename: {file.relative_to(self.folder)}\nSize: {file.stat().st_size}\nSHA256: {digest}\n"
            )
            entries.append(f"{said.stdout.rstrip()}\n{more}")
        dist = self.folder / "dists" / self.release
        packages = dist / f"main/binary-{self.machine.architecture()}/Packages"
        packages.parent.mkdir(parents=True, exist_ok=True)
        packages.write_text("\n".join(entries))
        digest = hashlib.sha256(packages.read_bytes()).hexdigest()
        fields: Mapping[str, str] = {
            "Codename": self.release,
            "Suite": "stable",
            "Architectures": self.machine.architecture(),
            "Components": "main",
            "Date": time.strftime("%a, %d %b %Y %H:%M:%S UTC", time.gmtime()),
            **{key.replace("_", "-"): value for key, value in release.items()},
            "SHA256": f"\n {digest} {packages.stat().st_size} {packages.relative_to(dist)}",
        }
        (dist / "Release").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()))

    def goes(self) -> None:
        """It is there no more."""
        shutil.rmtree(self.folder)


def a_package(folder: Path, name: str, version: str) -> Path:
    """Make a package with one file, which says its version."""
    tree = folder / f"{name}.tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/share/moments").mkdir(parents=True)
    (tree / "usr/share/moments" / name).write_text(version)
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "all",
        "Maintainer": "A Test <test@example.org>",
        "Essential": "yes" if name == "base" else "no",
        "Description": "of a test",
    }
    (tree / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()))
    file = folder / f"{name}_{version}_all.deb"
    command = ["dpkg-deb", "--build", "--root-owner-group", "-Znone", str(tree), str(file)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(tree)
    return file
