from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.state.recordings import save
from tidepool.engine.resource import ResourceState, Snapshot
from tidepool.engine.state import files
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.files import StorageError
from tidepool.engine.state.folder import Folder
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.secrets import NoSecrets
from tidepool.engine.state.store import UpdateInfo

DEV = StackReference("project", "dev")
STACK = ResourceState(
    "urn:pulumi:dev::project::pulumi:pulumi:Stack::project-dev", "pulumi:pulumi:Stack", False
)


def of_size(name: str, size: int) -> Snapshot:
    inputs = {"name": name, "filling": "x" * size}
    urn = f"urn:pulumi:dev::project::my:index:C::{name}"
    return Snapshot((STACK, ResourceState(urn, "my:index:C", False, inputs=inputs, parent=STACK.urn)))


def name_in(backend: DiyBackend) -> str:
    snapshot = backend.load(DEV, NoSecrets())
    assert snapshot is not None
    return str(snapshot.resources[1].inputs["name"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_old_state(small_disk: Path) -> None:
    backend = DiyBackend(Folder(small_disk))
    backend.create(DEV)
    path = save(backend, DEV, of_size("old", 300_000), NoSecrets())
    with pytest.raises(StorageError) as caught:
        save(backend, DEV, of_size("new", 900_000), NoSecrets())
    assert str(path) in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert name_in(backend) == "old"
    assert [p.name for p in path.parent.iterdir() if p.name.endswith(".tmp")] == []
    # With space again, the next save goes through.
    save(backend, DEV, of_size("small", 10), NoSecrets())
    assert name_in(backend) == "small"


def test_a_disk_too_full_for_a_copy_leaves_the_old_state(small_disk: Path) -> None:
    backend = DiyBackend(Folder(small_disk))
    backend.create(DEV)
    save(backend, DEV, of_size("old", 600_000), NoSecrets())
    with pytest.raises(StorageError, match="No space left"):
        save(backend, DEV, of_size("new", 10), NoSecrets())
    assert name_in(backend) == "old"
    with pytest.raises(StorageError, match="No space left"):
        backend.add_history(DEV, UpdateInfo("update", 1, 2, "succeeded"))


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    files.write(path, b"old")

    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(StorageError, match=f"cannot write {path}: Input/output error"):
        files.write(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_write_that_takes_only_a_part_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, content[:7]))
    files.write(tmp_path / "file", b"x" * 100)
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"x" * 100


CALLS = ("open", "write", "fsync", "fchmod", "close", "rename", "replace", "unlink")


def save_killed_at(backend: DiyBackend, call: int) -> int:
    """Save "new" in a process that kills itself at its Nth system call; gives how the process ended."""
    child = os.fork()
    if child == 0:
        try:
            left = call

            def counted(real: Callable[..., Any]) -> Callable[..., Any]:
                def counting(*args: Any, **kwargs: Any) -> Any:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*args, **kwargs)

                return counting

            for name in CALLS:
                setattr(os, name, counted(getattr(os, name)))
            save(backend, DEV, of_size("new", 1000), NoSecrets())
            os._exit(0)
        finally:
            os._exit(1)  # an error of the save itself; the test must not go on in the child
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    seen: list[str] = []
    for call in range(60):
        root = tmp_path / str(call)
        root.mkdir()
        backend = DiyBackend(Folder(root))
        backend.create(DEV)
        save(backend, DEV, of_size("old", 1000), NoSecrets())
        ended = save_killed_at(backend, call)
        assert ended in (0, -signal.SIGKILL)
        seen.append(name_in(backend))
        folder = backend.layout.checkpoint(DEV).parent
        save(backend, DEV, of_size("next", 10), NoSecrets())
        assert name_in(backend) == "next"
        assert [p.name for p in folder.iterdir() if p.name.endswith(".tmp")] == []
        if ended == 0:
            break
    else:
        pytest.fail("the save never came to its end")
    assert seen[0] == "old"
    assert seen[-1] == "new"
    assert seen == sorted(seen, key=["old", "new"].index)  # old until the rename, new from then on
    assert seen.count("old") >= 5


def test_the_backup_is_the_state_before(tmp_path: Path) -> None:
    backend = DiyBackend(Folder(tmp_path))
    backend.create(DEV)
    save(backend, DEV, of_size("a", 1), NoSecrets())
    path = save(backend, DEV, of_size("b", 1), NoSecrets())
    backup = path.with_name("dev.json.bak")
    assert json.loads(backup.read_bytes())["checkpoint"]["latest"]["resources"][1]["inputs"]["name"] == "a"
    assert not backup.samefile(path)
    assert backup.stat().st_nlink == 1
