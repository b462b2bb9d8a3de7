"""Modules of Ansible's, run by one process that forks for each."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from tidepool.images import ansible_module
from tidepool.images.build import serve_modules


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    """One that serves, and its socket."""
    program = shutil.copy(ansible_module.__file__ or "", tmp_path / "python")
    basic = tmp_path / "ansible/module_utils/basic.py"
    basic.parent.mkdir(parents=True)
    basic.write_text("imported = []\n")
    for package in (basic.parents[1], basic.parent):
        (package / "__init__.py").touch()
    socket = tmp_path / "socket"
    with subprocess.Popen([sys.executable, program, "--serve", str(socket)]) as serving:
        while not socket.exists():
            assert serving.poll() is None
            time.sleep(0.01)
        yield socket
        serving.kill()


def ask(socket: Path, module: str) -> tuple[int, str, str]:
    with Client(str(socket), "AF_UNIX") as client:
        client.send_bytes(module.encode())
        code, out, err = (client.recv_bytes().decode() for _ in range(3))
        return int(code), out, err


def test_a_module_gives_its_exit_code_and_its_words(server: Path) -> None:
    module = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    assert ask(server, module) == (3, "out\n", "err\n")


def test_a_module_leaves_nothing_for_the_next(server: Path) -> None:
    module = "from ansible.module_utils import basic; basic.imported.append(1); print(len(basic.imported))"
    assert [ask(server, module)[1] for _ in range(2)] == ["1\n", "1\n"]


def test_a_module_that_is_killed_is_told_and_the_next_runs(server: Path) -> None:
    assert ask(server, "import os; os.kill(os.getpid(), 9)")[0] == -9
    assert ask(server, "print('well')") == (0, "well\n", "")


def test_a_module_that_says_much_is_heard_to_the_end(server: Path) -> None:
    assert len(ask(server, "print('x' * 3_000_000)")[1]) == 3_000_001


def test_a_server_that_does_not_come_up_ends_the_build(tmp_path: Path) -> None:
    """The hook waits for its socket no longer than it lives."""
    (tmp_path / "bin").mkdir()
    dead = tmp_path / "bin/chroot"
    dead.write_text("#!/bin/sh\nexit 1\n")
    dead.chmod(0o755)
    hook = tmp_path / "hook"
    hook.write_text("set -eu\n" + serve_modules(()).replace("cp --recursive", ": cp"))
    done = subprocess.run(
        ["/bin/sh", str(hook), str(tmp_path / "root")],
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
        timeout=20,
        check=False,
    )
    assert done.returncode != 0
