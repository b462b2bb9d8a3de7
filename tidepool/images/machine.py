"""The machine that builds: what of it a build may read, and its programs, run in namespaces that end with whoever began."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidepool.images.errors import BuildFailed, MissingTool
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
    "mksquashfs": "squashfs-tools",
    "xorriso": "xorriso",
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


_LAST_LINES: Final = 15
_UNSYNCED: Final = Path(__file__).with_name("unsynced.py")


def run(
    command: Sequence[str],
    *,
    what: str,
    log: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    network: bool = False,
    stdin: Path | None = None,
    inherited: Sequence[int] = (),
    flushes: bool = True,
) -> str:
    """Run ``command`` to its end and give back what it said, which goes to ``log`` as well.

    It runs in mount and process namespaces of its own, in a network namespace without a network unless ``network``
    is set. All that it started ends with it, with us (also by kill -9), and when the time is up.

    ``what`` is it as a noun, for the error. ``inherited`` are descriptors that it keeps open, so that a lock is held as
    long as anything of it lives. Without ``flushes`` it does not wait for the disk where it wants files to be there.

    Raises:
        BuildFailed: it ended with an error, or not in time.
    """
    isolated = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child=KILL",
    ]
    isolated += ["--mount-proc", *([] if network else ["--net"]), "--"]
    isolated += [*([] if flushes else [sys.executable, "-I", "-S", str(_UNSYNCED)]), *command]
    said: list[str] = []
    out_of_time = threading.Event()
    with log.open("a") as log_file, (stdin or Path(os.devnull)).open() as read_from:
        child = subprocess.Popen(
            isolated,
            stdin=read_from,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=cwd,
            env=dict(environment),
            pass_fds=tuple(inherited),
            start_new_session=True,
        )

        def end() -> None:
            out_of_time.set()
            _kill(child)

        clock = threading.Timer(timeout_s, end)
        clock.daemon = True
        clock.start()
        try:
            assert child.stdout is not None
            for line in child.stdout:
                log_file.write(line)
                log_file.flush()
                said.append(line)
                if on_line is not None:
                    on_line(line.rstrip("\n"))
            code = child.wait()
        finally:
            clock.cancel()
            clock.join()
            _kill(child)
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
    if out_of_time.is_set():
        raise BuildFailed(f"{what} did not end within {timeout_s:.0f} s", log, last_lines(said))
    if code != 0:
        raise BuildFailed(f"{what} failed with exit code {code}", log, last_lines(said))
    return "".join(said)


def last_lines(said: Sequence[str]) -> list[str]:
    """Return the last lines that are not empty."""
    return list(deque((line.rstrip() for line in said if line.strip()), maxlen=_LAST_LINES))


def _kill(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        # Its session is its own, so this is it and all that it started outside of its process namespace.
        os.killpg(child.pid, signal.SIGKILL)
