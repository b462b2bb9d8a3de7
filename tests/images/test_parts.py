"""The small parts: accounts, progress, paths, sweeping, and running programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidepool.images import BuildFailed, ImageError, ImageStore, MissingTool, Phase, parse_recipe
from tidepool.images.contents import clean, inside
from tidepool.images.machine import require, run
from tidepool.images.progress import BuildLines
from tidepool.images.recipe import account_lines
from tidepool.images.unsynced import sync_filter

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces, which needs root")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def test_accounts_of_daemons_are_there_before_packages_and_people_are_left_to_the_role() -> None:
    recipe = parse_recipe(
        "{release: bookworm, packages: [munge], users: {munge: {uid: 980}, "
        "sshd: {uid: 982, gid: 65534, home: /run/sshd}, ada: {uid: 2000, home: /home/ada}}}",
        origin="x",
    )
    lines = account_lines(recipe.users)
    assert lines.passwd == (
        "munge:*:980:980::/nonexistent:/usr/sbin/nologin\nsshd:*:982:65534::/run/sshd:/usr/sbin/nologin\n"
    )
    assert lines.group == "munge:*:980:\n"


def test_progress_is_read_from_what_programs_say() -> None:
    lines = BuildLines(packages=2, tasks=4)
    said = [
        "Selecting previously unselected package munge.",
        "Unpacking munge (0.5.15-2) ...",
        "Unpacking libmunge2:amd64 (0.5.15-2) ...",
        "Unpacking again (1) ...",
        "Setting up munge (0.5.15-2) ...",
        "TASK [sshd : Log in by key alone] ***********",
        "TASK [users : Groups] ***",
    ]
    seen = [(p.phase, p.fraction, p.text) for line in said if (p := lines.read(line))]
    assert seen == [
        (Phase.UNPACK, 0.0, "munge"),
        (Phase.UNPACK, 0.5, "libmunge2:amd64"),
        (Phase.UNPACK, 1.0, "again"),
        (Phase.CONFIGURE, 0.0, "munge"),
        (Phase.ROLES, 0.0, "sshd : Log in by key alone"),
        (Phase.ROLES, 0.25, "users : Groups"),
    ]


def test_no_path_leads_out_of_an_image(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    assert inside(tmp_path, "/var/lib/x") == tmp_path / "var/lib/x"
    with pytest.raises(ImageError, match="/var/run is a symbolic link"):
        inside(tmp_path, "/var/run/x")


def test_sweeping_removes_what_is_a_machines_own_and_sets_times(tmp_path: Path) -> None:
    gone = [
        "etc/ssh/ssh_host_rsa_key",
        "etc/munge/munge.key",
        "var/log/apt/term.log",
        "tmp/.x/y",
        "etc/passwd-",
    ]
    for name in (*gone, "etc/passwd", "etc/machine-id", "etc/old"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12345")
    (tmp_path / "etc/resolv.conf").symlink_to("/etc/resolv.conf")
    os.utime(tmp_path / "etc/old", (5, 5))
    assert clean(tmp_path, 1000) == 10
    assert [name for name in gone if (tmp_path / name).exists()] == []
    assert Path("/etc/resolv.conf").exists()
    assert (tmp_path / "etc/machine-id").read_text() == ""
    times = {path.name: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert times.pop("old") == 5 * 10**9
    assert set(times.values()) == {1000 * 10**9}
    assert tmp_path.stat().st_mtime_ns == 1000 * 10**9


def test_what_is_missing_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        MissingTool, match="no mmdebstrap, qemu-img: run as root `apt-get install mmdebstrap qemu-ut"
    ):
        require("mmdebstrap", "qemu-img")


@needs_root
def test_a_program_that_fails_is_told_with_its_last_lines_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["sh", "-c", "seq 40; echo why >&2; exit 3"]
    with pytest.raises(BuildFailed, match="counting failed with exit code 3") as raised:
        run(command, what="counting", log=log, environment=ENVIRONMENT, timeout_s=60)
    assert raised.value.last_lines[-2:] == ("40", "why")
    assert len(raised.value.last_lines) == 15
    assert str(log) in str(raised.value)
    assert len(log.read_text().splitlines()) == 41


@needs_root
def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    # The pipe ends only when the last process that holds it does.
    command = ["sh", "-c", "sleep 1000 & sleep 1000"]
    with pytest.raises(BuildFailed, match="waiting did not end within 0 s"):
        run(command, what="waiting", log=tmp_path / "log", environment=ENVIRONMENT, timeout_s=0.3)


@needs_root
def test_a_program_has_no_network_unless_it_is_given(tmp_path: Path) -> None:
    said = run(
        ["cat", "/proc/net/dev"], what="looking", log=tmp_path / "log", environment=ENVIRONMENT, timeout_s=60
    )
    assert [line.split(":")[0].strip() for line in said.splitlines()[2:]] == ["lo"]


HOLDER = """
import os, sys
from pathlib import Path
from tidepool.images import ImageStore
from tidepool.images.machine import run
from tidepool.images.machine import require
with ImageStore(Path(sys.argv[1])).locked("d", on_wait=print, timeout_s=1) as lock:
    run(["sh", "-c", "echo begun; exec sleep 1000"], what="x", log=Path(sys.argv[2]),
        environment={"PATH": os.environ["PATH"]}, timeout_s=1000, inherited=(lock,),
        on_line=lambda line: print(line, flush=True))
"""


@needs_root
def test_what_a_killed_build_started_ends_with_it_and_gives_the_lock_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path), str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "begun\n"
        store = ImageStore(tmp_path)
        with (
            pytest.raises(ImageError, match="another is at work on d"),
            store.locked("d", on_wait=lambda: None, timeout_s=0.2),
        ):
            pass
        builder.send_signal(signal.SIGKILL)
    # The sleep of 1000 s holds the lock, too: getting it proves that it is gone.
    with store.locked("d", on_wait=lambda: None, timeout_s=30):
        pass


@needs_root
@pytest.mark.parametrize("flushes", [True, False])
def test_a_build_does_not_wait_for_the_disk(tmp_path: Path, flushes: bool) -> None:
    # A pipe cannot be flushed, which fsync says; nobody asks it where nothing is flushed.
    program = (
        "import os\nfor call in (os.fsync, os.fdatasync):\n try: print(call(os.pipe()[1]))\n"
        " except OSError: print('asked')\nprint('on')"
    )
    said = run(
        [sys.executable, "-c", program],
        what="it",
        log=tmp_path / "log",
        environment=ENVIRONMENT,
        timeout_s=30,
        flushes=flushes,
    )
    assert said.split() == (["asked", "asked", "on"] if flushes else ["None", "None", "on"])


def test_where_a_machine_s_calls_are_not_known_all_is_flushed() -> None:
    assert len(sync_filter("x86_64")) == len(sync_filter("aarch64")) == 8 * 10
    assert sync_filter("riscv64") == b""
