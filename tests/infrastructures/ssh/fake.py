"""Hosts in folders: each is a root that the real keeper works in; and the faults that ways to hosts have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidepool.cluster.failures import Permanent
from tidepool.infrastructures.ssh.ask import HostError, Silent
from tidepool.infrastructures.ssh.keeper import program

#: What a small host has, before anybody claims it.
FILES = {
    "/etc/passwd": "root:x:0:0::/root:/bin/sh\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/motd": "welcome\n",
    "/etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "/usr/local/bin/site": "#!/bin/sh\n",
    "/home/admin/notes": "mine\n",
    "/var/spool/mail/root": "a letter\n",
    "/var/lib/misc/site": "",
    "/run/here": "",
}


@dataclass
class FakeHosts:
    """`tidepool.infrastructures.ssh.ask.Ask`, of hosts by their addresses.

    ``down`` are those that do not answer, ``read_only`` those whose disk the kernel lets nobody write to any more; of the
    next calls, ``lost`` answers are lost after they were carried out.
    """

    folder: Path
    addresses: tuple[str, ...]
    down: set[str] = field(default_factory=set)
    read_only: set[str] = field(default_factory=set)
    lost: int = 0
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for address in self.addresses:
            for path, text in FILES.items():
                place = self.root(address) / path[1:]
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)

    def root(self, address: str) -> Path:
        return self.folder / address

    def __call__(
        self, connection: Mapping[str, Any], verb: str, told: Mapping[str, Any], timeout_s: float
    ) -> Mapping[str, Any]:
        address = connection["address"]
        self.calls.append(f"{verb} {address}")
        if address in self.down:
            raise Silent(f"nothing answers at {address}, port 22: see whether it is up")
        if address in self.read_only and verb != "facts":
            raise HostError(
                f"root@{address} cannot be told to {verb}: OSError: [Errno 30] Read-only file system: '/var/lib/tidepool-node"
                "/claim.json.new'",
                Permanent,
            )
        answer = self.keeper(address, verb, told)
        if self.lost:
            self.lost -= 1
            raise HostError(
                f"the connection broke while python3 ran at {address}, which may have done its work"
            )
        return answer

    def keeper(self, address: str, verb: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the keeper says there."""
        done = subprocess.run(
            [sys.executable, "-I", "-", verb, json.dumps(told)],
            input=program(),
            env={"PATH": os.environ["PATH"], "TIDEPOOL_KEEPER_ROOT": str(self.root(address))},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer: Mapping[str, Any] = json.loads(done.stdout)
        return answer


def connection(address: str) -> Mapping[str, Any]:
    return {"kind": "host", "address": address, "user": "root", "key": "/k", "known_hosts": "/h"}


def tree(root: Path) -> dict[str, tuple[Any, ...]]:
    """All below a root but the keeper's lock: kinds, modes and texts."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name == "run/tidepool-node.lock":
            continue
        status = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else ""
        found[name] = (oct(status.st_mode), status.st_uid, status.st_gid, content)
    return found
