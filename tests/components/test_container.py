"""A boot as a container's first process: what it writes, and what it does when a shell runs it."""

from __future__ import annotations

import base64
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pulumi import Output
from pulumi.runtime.sync_await import _sync_await

from tidepool.cluster.boot import Device, Folder, Service
from tidepool.components.boots import Keys
from tidepool.infrastructures import container
from tidepool.infrastructures.contract import Boot, File

ME = pwd.getpwuid(os.getuid()).pw_name
LOOP = "while :; do sleep 0.05; done"


def told(*words: str) -> tuple[str, ...]:
    return ("sh", "-c", *words)


@contextmanager
def started(boot: Boot, folder: Path) -> Iterator[subprocess.Popen[str]]:
    files = folder / "files"
    files.mkdir()
    for file in boot.files:
        (files / container.key_of(file.path)).write_text(str(file.content))
    program = folder / "start"
    program.write_text(container.start(boot, str(files), str(folder)))
    subprocess.run(["sh", "-n", str(program)], check=True)
    running = subprocess.Popen(
        ["sh", str(program)], start_new_session=True, text=True, stderr=subprocess.PIPE
    )
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def until(holds: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_services_start_in_their_order_each_when_the_one_before_is_ready(tmp_path: Path) -> None:
    log, ready = tmp_path / "log", tmp_path / "ready"
    boot = Boot(
        services=(
            Service("a", told(f"sleep 0.3; echo a >>{log}; touch {ready}; {LOOP}"), ready=f"path:{ready}"),
            Service("once", told(f"echo once >>{log}"), once=True),
            Service("b", told(f"echo b >>{log}; {LOOP}")),
        )
    )
    with started(boot, tmp_path):
        until(lambda: lines(log) == ["a", "once", "b"])


def test_a_service_that_ends_is_started_again_and_no_other(tmp_path: Path) -> None:
    log = tmp_path / "log"
    boot = Boot(
        services=(
            Service("a", told(f"echo a >>{log}; {LOOP}")),
            Service("b", told(f"echo b >>{log}; exit 1")),
        )
    )
    with started(boot, tmp_path):
        until(lambda: lines(log).count("b") >= 2)
        assert lines(log).count("a") == 1


def test_one_that_is_for_failures_alone_stays_ended_until_it_is_asked_for(tmp_path: Path) -> None:
    """As a slurmctld that a backup took over from; and no other one waits for it, or is started again for it."""
    log, how, mine = tmp_path / "log", tmp_path / "how", tmp_path / "mine"
    # Each takes one word, as a file: of a pipe, the next would have the end that the one before left.
    takes = f"until mv {how} {mine} 2>/dev/null; do sleep 0.05; done; exit $(cat {mine})"

    def end(code: int) -> None:
        (tmp_path / "new").write_text(str(code))
        (tmp_path / "new").rename(how)

    boot = Boot(
        services=(
            Service("a", told(f"echo a >>{log}; {takes}"), restart="on-failure"),
            Service("b", told(f"echo b >>{log}; {LOOP}")),
        )
    )
    with started(boot, tmp_path) as running:
        until(lambda: sorted(lines(log)) == ["a", "b"])
        end(1)
        until(lambda: lines(log).count("a") == 2)
        end(0)
        time.sleep(1.5)
        assert lines(log).count("a") == 2
        (tmp_path / "a").touch()
        until(lambda: lines(log).count("a") == 3)
        # One that is asked for before it ends starts again, and that is over by it.
        (tmp_path / "a").touch()
        end(0)
        until(lambda: lines(log).count("a") == 4)
        end(0)
        time.sleep(0.5)
        assert (lines(log).count("a"), lines(log).count("b")) == (4, 1)
        running.terminate()
        assert running.wait(60) == 0


def test_services_stop_backwards_each_when_the_one_after_it_has(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def stops(name: str) -> tuple[str, ...]:
        return told(f"trap 'sleep 0.2; echo {name} >>{log}; exit' TERM; touch {tmp_path}/{name}; {LOOP}")

    boot = Boot(services=tuple(Service(name, stops(name), stop_timeout_s=60) for name in ("a", "b")))
    with started(boot, tmp_path) as running:
        until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
        running.terminate()
        assert running.wait(60) == 0
        assert lines(log) == ["b", "a"]


def test_one_that_begins_later_holds_back_those_after_it(tmp_path: Path) -> None:
    log, conf = tmp_path / "log", tmp_path / "slurm.conf"
    boot = Boot(
        services=(
            Service("a", told(f"echo a >>{log}; {LOOP}")),
            Service("b", told(f"echo b >>{log}; {LOOP}"), begins=f"path:{conf}"),
        )
    )
    with started(boot, tmp_path) as running:
        until(lambda: lines(log) == ["a"])
        time.sleep(0.5)
        assert lines(log) == ["a"]
        conf.touch()
        until(lambda: lines(log) == ["a", "b"])
        assert running.poll() is None


def test_folders_and_files_are_there_first_with_their_modes(tmp_path: Path) -> None:
    key, folder, seen = tmp_path / "etc/munge/munge key", tmp_path / "run/munge", tmp_path / "seen"
    boot = Boot(
        services=(Service("a", told(f"stat -c %a '{key}' {folder} >{seen}; {LOOP}")),),
        files=(File(str(key), "it's $ecret", "0400", ME, ME),),
        folders=(Folder(str(folder), "0711", ME, ME),),
    )
    with started(boot, tmp_path):
        until(lambda: lines(seen) == ["400", "711"])
    assert key.read_text() == "it's $ecret"


def test_devices_that_have_other_numbers_are_found_under_the_names_that_slurm_knows(tmp_path: Path) -> None:
    for number in (1, 3, 5):
        (tmp_path / f"nvidia{number}").touch()
    (tmp_path / "nvidiactl").touch()
    done = tmp_path / "done"
    boot = Boot(
        services=(Service("a", told(f"touch {done}; {LOOP}")),),
        devices=tuple(Device(f"{tmp_path}/nvidia{number}") for number in (0, 1, 2)),
    )
    with started(boot, tmp_path):
        until(done.exists)
    assert (tmp_path / "nvidia0").readlink() == tmp_path / "nvidia3"
    assert (tmp_path / "nvidia2").readlink() == tmp_path / "nvidia5"
    assert not (tmp_path / "nvidia1").is_symlink()


def test_files_are_told_in_base64_by_names_that_a_secret_may_have() -> None:
    keys = Keys("bXVuZ2U=", "ssh-ed25519 PUBLIC")
    files = _sync_await(container.files(Boot(services=(), files=keys.files)).future())
    assert files is not None
    assert files["etc.munge.munge.key"] == "bXVuZ2U="
    assert base64.b64decode(files["etc.ssh.authorized_keys.d.root"]) == b"ssh-ed25519 PUBLIC"


def test_a_secret_file_makes_all_of_them_secret() -> None:
    told_files = container.files(Boot(services=(), files=(File("/key", Output.secret("k")), File("/b", "b"))))
    assert _sync_await(told_files.is_secret())


def test_a_service_of_a_role_is_refused() -> None:
    with pytest.raises(ValueError, match="role kubernetes run on machines of `local` alone"):
        container.start(Boot(services=(Service("kubelet", ("kubelet",), role="kubernetes"),)), "/run/boot")


def test_another_user_is_become_by_the_images_name_for_it() -> None:
    text = container.start(Boot(services=(Service("munged", ("munged", "-F"), user="munge"),)), "/run/boot")
    assert "keep '' setpriv --reuid=munge --regid=munge --init-groups -- munged -F" in text
