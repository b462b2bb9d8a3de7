"""Applies roles to a folder that is the root of an image, by chroot. ansible-core brings no such connection."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from multiprocessing.connection import Client
from pathlib import Path

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
  module_runner:
    description: A program in the folder that is the interpreter of modules, and serves at the socket of its name and C(.socket).
    vars:
      - name: tidepool_module_runner
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
        if in_data and self._runs_a_module_alone(cmd):
            return self._ask_runner(in_data)
        kept = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
        done = subprocess.run(
            ["/usr/sbin/chroot", str(self._root), "/bin/sh", "-c", cmd],
            input=in_data or b"",
            capture_output=True,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **kept},
        )
        return done.returncode, done.stdout, done.stderr

    def _runs_a_module_alone(self, cmd: str) -> bool:
        runner = self.get_option("module_runner")
        return bool(runner) and shlex.split(shlex.split(cmd)[-1])[:2] in ([runner], [runner, "&&"])

    def _ask_runner(self, module: bytes) -> tuple[int, bytes, bytes]:
        runner = self._inside(self.get_option("module_runner"))
        # A socket's path may have 107 characters, and the folder's alone may have more.
        folder = os.open(runner.parent, os.O_PATH)
        try:
            with Client(f"/proc/self/fd/{folder}/{runner.name}.socket", "AF_UNIX") as server:
                server.send_bytes(module)
                code, out, err = (server.recv_bytes() for _ in range(3))
                return int(code), out, err
        except (OSError, EOFError) as error:
            raise AnsibleConnectionFailure(
                f"{runner}, which runs modules, does not answer: {error!r}"
            ) from error
        finally:
            os.close(folder)

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        shutil.copyfile(in_path, self._inside(out_path))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        shutil.copyfile(self._inside(in_path), out_path)

    def close(self) -> None:
        self._connected = False

    def _inside(self, path: str) -> Path:
        return self._root / path.lstrip("/")
