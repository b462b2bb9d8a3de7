"""Applies roles to a folder that is the root of an image, by chroot. ansible-core brings no such connection."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: tidepool_chroot
short_description: A folder on this machine, as the root of another
description: Runs commands by chroot in the folder that ansible_host names.
author: Tidepool
options:
  remote_addr:
    description: The folder.
    vars:
      - name: ansible_host
"""

#: Nothing of the environment that Ansible itself runs in, but the time that what is made should bear.
_ENVIRONMENT = ("SOURCE_DATE_EPOCH", "DEBIAN_FRONTEND")


class Connection(ConnectionBase):
    """A chroot; needs root, and /proc mounted in the folder where a role needs it."""

    transport = "tidepool_chroot"
    has_pipelining = True

    def _connect(self) -> Connection:
        if not self._connected:
            root = Path(self.get_option("remote_addr"))
            if not (root / "bin/sh").exists():
                raise AnsibleConnectionFailure(f"{root} is not the root of a system: it has no /bin/sh")
            self._root = root
            self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        kept = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
        done = subprocess.run(
            ["/usr/sbin/chroot", str(self._root), "/bin/sh", "-c", cmd],
            input=in_data or b"",
            capture_output=True,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **kept},
        )
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        shutil.copyfile(in_path, self._inside(out_path))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        shutil.copyfile(self._inside(in_path), out_path)

    def close(self) -> None:
        self._connected = False

    def _inside(self, path: str) -> Any:
        return self._root / path.lstrip("/")
