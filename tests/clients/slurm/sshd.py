"""A real sshd for tests: a private process on the loopback, with its own host key and configuration."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.slurm.real import ALONE, PATH, child_of, eventually, free_port

CONF = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
"""


def missing() -> str:
    """Why no sshd can be started here; empty where it can."""
    if os.geteuid() != 0:
        return "a mount namespace needs root"
    lacking = [
        program
        for program in ("sshd", "ssh-keygen", "unshare", "nsenter")
        if shutil.which(program, path=PATH) is None
    ]
    return f"not installed: {', '.join(lacking)} (openssh-server openssh-client)" if lacking else ""


class Sshd:
    """sshd, who takes the key ``folder/key`` for root, and is known by ``folder/known_hosts``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        for name in ("host_key", "key", "other_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(folder / name)],
                check=True,
            )
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        self.key, self.other_key = folder / "key", folder / "other_key"
        self.known_hosts = folder / "known_hosts"
        self.write_known_hosts("host_key")
        (folder / "sshd_config").write_text(CONF.format(port=self.port, folder=folder))
        self._process = self._start()

    def write_known_hosts(self, key: str) -> None:
        public = (self.folder / f"{key}.pub").read_text()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}")

    def logins(self) -> int:
        """How many connections were let in."""
        return (self.folder / "sshd.log").read_text().count("Accepted publickey")

    def break_connections(self) -> None:
        """Kill all that serves a connection; the listener goes on."""
        mine = child_of(self._process.pid)
        for pid in _below(mine):
            if "sshd" in Path(f"/proc/{pid}/comm").read_text():
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: _below(mine), lambda below: not below)

    def close(self) -> None:
        self._leader.kill()
        self._leader.wait()
        self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # sshd needs /run/sshd, which is not there where no init made it: it gets a /run of its own.
        self._leader = subprocess.Popen(ALONE)
        enter = ["nsenter", f"--target={child_of(self._leader.pid)}", "--mount", "--pid", "--"]
        subprocess.run([*enter, "mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        subprocess.run([*enter, "mkdir", "--mode=755", "/run/sshd"], check=True)
        with (self.folder / "sshd.log").open("wb") as log:
            process = subprocess.Popen(
                [*enter, "/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={"PATH": PATH},
                start_new_session=True,
            )
        eventually(self._answers, bool)
        return process

    def _answers(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0


def _below(pid: int) -> list[int]:
    """The processes that ``pid`` started, and those started, the deepest first."""
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [deeper for child in children for deeper in (*_below(child), child)]


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A running sshd of its own, of each module or conftest that imports this."""
    if why := missing():
        pytest.skip(why)
    running = Sshd(tmp_path_factory.mktemp("sshd"))
    try:
        yield running
    finally:
        running.close()
