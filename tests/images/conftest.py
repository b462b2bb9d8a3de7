"""What tests of images share: a lock in memory, and one small image that is really built, once for all of them."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidepool.images import (
    Image,
    ImageSource,
    ImageStore,
    Lock,
    LockedPackage,
    Machine,
    Progress,
    build,
    lock,
    read_recipe,
    read_source,
    render_lock,
)
from tidepool.toolchain import KUBERNETES

ROOT = Path(__file__).parent.parent.parent
PLAYBOOKS = ROOT / "playbooks"

#: Small, with what real images have: accounts, packages that make keys when they are installed, roles, a file, a tool, a
#: container.
SMALL = """\
release: bookworm
packages: [munge, openssh-server, passwd, python3]
tools: {/usr/lib/tools/kubelet: kubelet}
containers:
  tidepool/small:1:
    tools: {/pause: pause}
    files: {/sh: /usr/bin/dash}
    command: [/pause]
roles: [users, sshd]
users:
  munge: {uid: 980}
  sshd: {uid: 982, gid: 65534, home: /run/sshd}
  ada: {uid: 2000, home: /home/ada, shell: /bin/bash}
files:
  /etc/motd: {text: "made by a test\\n", mode: "0600", uid: 980}
leave_out: [/usr/share/doc/*, /usr/share/locale/*, /usr/share/man/*]
size_mib: 512
"""


def a_lock(**changes: object) -> Lock:
    packages = (LockedPackage("munge", "0.5.15-2", "amd64", 1000, "a" * 64),)
    fields = {"release": "bookworm", "architecture": "amd64", "epoch": 1_700_000_000, "requested": ("munge",)}
    return Lock(**{**fields, "packages": packages, **changes})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Built:
    """``progress`` is what whoever built it was told."""

    image: Image
    source: ImageSource
    folder: Path
    store: ImageStore
    machine: Machine
    progress: tuple[Progress, ...]


def why_no_image_can_be_built() -> str | None:
    if os.geteuid() != 0:
        return "building an image needs root"
    missing = [name for name in ("mmdebstrap", "mke2fs") if shutil.which(name) is None]
    return f"{', '.join(missing)} is not installed" if missing else None


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The small image; of several workers of the tests the first builds it, and the last removes it."""
    if reason := why_no_image_can_be_built():
        pytest.skip(reason)
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "images"
    machine = Machine(dict(os.environ))
    store = ImageStore(shared / "store")
    folder = shared / "small"
    folder.mkdir(parents=True, exist_ok=True)
    with (shared / "users").open("w") as users:
        with one_worker(shared):
            fcntl.flock(users, fcntl.LOCK_SH)
            if not (folder / "packages.lock").exists():
                (folder / "recipe.yaml").write_text(SMALL)
                made = lock(read_recipe(folder, PLAYBOOKS), store, machine, epoch=int(time.time()) - 3600)
                (folder / "packages.lock").write_text(render_lock(made))
        source = read_source(
            folder, PLAYBOOKS, architecture=machine.architecture(), environment=a_toolchain(folder / "tools")
        )
        with one_worker(shared):
            seen: list[Progress] = []
            image = build(source, store, machine, observe=seen.append)
            if seen:
                (shared / "progress").write_bytes(pickle.dumps(seen))
        progress = tuple(pickle.loads((shared / "progress").read_bytes()))
        yield Built(image, source, folder, store, machine, progress)
        with one_worker(shared), suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(store.folder)


def a_toolchain(folder: Path) -> dict[str, str]:
    """An environment with tools that are just their names: an image is not about what they do."""
    folder.mkdir(exist_ok=True)
    for tool in KUBERNETES.tools:
        (folder / tool).write_text(f"{tool}\n")
        (folder / tool).chmod(0o755)
    return {KUBERNETES.variable: str(folder)}


@contextmanager
def one_worker(shared: Path) -> Iterator[None]:
    with (shared / "lock").open("w") as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def builder(folder: Path, store: Path) -> subprocess.Popen[str]:
    """A builder of its own, as a person starts it; tells its progress on standard error."""
    command = [sys.executable, "-m", "tidepool.images", "build", str(folder)]
    command += ["--store", str(store), "--playbooks", str(PLAYBOOKS)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | a_toolchain(folder / "tools"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
