"""What is written to hosts' disks and wiped from them: the program that hosts run, at files and at loop devices."""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.infrastructures.boot_media.test_media import USER_DATA, a_medium, iso  # noqa: F401 - a fixture
from tidepool.images.cpio import FILE
from tidepool.infrastructures.boot_media.guest import installer
from tidepool.infrastructures.boot_media.guest.installer import (
    CHUNK,
    EDGE,
    LABEL_AT,
    LABEL_BYTES,
    MIB,
    Refused,
    Untouched,
)
from tidepool.infrastructures.boot_media.media import Kept, Sums
from tidepool.infrastructures.boot_media.service import service

SIZE = 12 * MIB
#: Where the image's root is, and how long.
ROOT = {"begin": 5 * MIB, "size": 6 * MIB}
#: One of each: with the label's place, with something, with nothing.
IMAGE = b"".join(
    [
        (b"GPT" * 200).ljust(LABEL_AT, b"\0") + bytes(LABEL_BYTES) + b"\1" * (CHUNK - LABEL_AT - LABEL_BYTES),
        b"\2" * CHUNK,
        bytes(CHUNK),
    ]
)
SUMS = [installer.digest(IMAGE[at : at + CHUNK]) for at in range(0, SIZE, CHUNK)]
WHOLE = 20 * MIB


def a_task(**more: Any) -> dict[str, Any]:
    told = {
        "task": "install",
        "stack": "one",
        "node": "cpu-1",
        "claim": "00000001",
        "disk": {},
        "wipe": "all",
    }
    return {**told, "size": SIZE, "sums": SUMS, "root": ROOT, "files": [], **more}


def part(begin: int, end: int) -> bytes:
    return IMAGE[begin:end]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)


def a_disk(path: Path, content: bytes = b"", size: int = WHOLE) -> dict[str, Any]:
    with path.open("wb") as file:
        file.write(content)
        file.truncate(size)
    return {"path": str(path), "size": size, "serial": "S1", "wwn": ""}


def written(path: Path) -> bytes:
    """What is on it, but for the label."""
    data = path.read_bytes()
    return data[:LABEL_AT] + bytes(LABEL_BYTES) + data[LABEL_AT + LABEL_BYTES :]


def install(disk: dict[str, Any], **more: Any) -> int:
    _, fd = installer.take([disk], a_task(**more), SIZE)
    try:
        return installer.install(fd, SUMS, SIZE, part)
    finally:
        os.close(fd)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A disk that is a device."""
    file = tmp_path / "disk"
    disk = a_disk(file)
    done = subprocess.run(["losetup", "--find", "--show", file], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine gives no loop device: {done.stderr.strip()}")
    try:
        yield {**disk, "path": done.stdout.strip()}
    finally:
        subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


def test_the_image_is_written_once_and_a_disk_that_has_it_is_not_written_to(loop: dict[str, Any]) -> None:
    device = Path(loop["path"])
    # Zeros are on an empty disk already.
    assert install(loop) == 2 * CHUNK
    assert written(device)[:SIZE] == IMAGE
    assert install(loop) == 0
    with opened(device) as fd:
        assert installer.label_of(fd) == {"stack": "one", "node": "cpu-1", "claim": "00000001"}


@settings(max_examples=20)
@given(st.integers(0, 12), st.integers(0, 3 * MIB // 512))
def test_whoever_loses_power_anywhere_goes_on_and_has_the_image_in_the_end(step: int, sectors: int) -> None:
    """At the n-th write to the disk, of which some sectors come to be there: a disk has one whole, or not at all."""
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"tidepool-disk-{os.getpid()}"
    disk, write, left = a_disk(path), os.pwrite, [step]

    def power_cut(fd: int, data: bytes, at: int) -> int:
        left[0] -= 1
        if left[0] < 0:
            write(fd, data[: 512 * sectors], at)
            raise OSError(errno.EIO, "the power is cut")
        # A disk takes as much as it likes at once.
        return write(fd, data[: 3 * MIB], at)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pwrite", power_cut)
            try:
                install(disk)
            except OSError:
                pass
        install(disk)
        assert written(path)[:SIZE] == IMAGE
        with opened(path) as fd:
            installer.wipe(fd, a_task())
        assert not any(path.read_bytes())
    finally:
        path.unlink()


def test_a_program_that_is_killed_in_the_middle_is_gone_on_with(loop: dict[str, Any], tmp_path: Path) -> None:
    """By kill -9, again and again, as it writes; its disk is never taken for somebody else's."""
    image, task = tmp_path / "image", tmp_path / "task"
    image.write_bytes(IMAGE)
    task.write_text(json.dumps(a_task()))
    program = (
        "import json, sys, time\n"
        "from tidepool.infrastructures.boot_media.guest import installer\n"
        "image, task, disk = open(sys.argv[1], 'rb').read(), json.load(open(sys.argv[2])), json.loads(sys.argv[3])\n"
        "def slowly(begin, end):\n"
        "    print(begin, flush=True)\n"
        "    time.sleep(0.05)\n"
        "    return image[begin:end]\n"
        "_, fd = installer.take([disk], task, task['size'])\n"
        "installer.install(fd, task['sums'], task['size'], slowly)\n"
    )
    command = [sys.executable, "-c", program, str(image), str(task), json.dumps(loop)]
    for kill_at in (1, 2, 1):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as it:
            assert it.stdout is not None
            for _ in range(kill_at):
                it.stdout.readline()
            it.send_signal(signal.SIGKILL)
    assert subprocess.run(command, check=True, capture_output=True).returncode == 0
    assert written(Path(loop["path"]))[:SIZE] == IMAGE


@given(st.integers(0, EDGE - 1), st.booleans(), st.binary(min_size=1, max_size=9).filter(any))
def test_a_disk_with_somebodys_data_is_left_as_it_is(at: int, at_the_end: bool, data: bytes) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"tidepool-disk-{os.getpid()}"
    disk = a_disk(path, size=4 * MIB)
    try:
        with path.open("r+b") as file:
            file.seek(min(4 * MIB - EDGE + at if at_the_end else at, 4 * MIB - len(data)))
            file.write(data)
        before = path.read_bytes()
        with pytest.raises(Untouched, match=r"serial S1.*has data that are not ours.*overwrite: true"):
            installer.take([disk], a_task(), 2 * MIB)
        assert path.read_bytes() == before
        # Where the person allows it, and for that disk alone.
        with pytest.raises(Untouched, match="no disk of the host is as the spec says"):
            installer.take([disk], a_task(disk={"serial": "S2", "overwrite": True}), 2 * MIB)
        _, fd = installer.take([disk], a_task(disk={"serial": "S1", "overwrite": True}), 2 * MIB)
        os.close(fd)
    finally:
        path.unlink()


def test_a_disk_of_another_stack_is_told_as_that_and_one_of_ours_is_taken_before_an_empty_one(
    tmp_path: Path,
) -> None:
    theirs, ours, empty = (a_disk(tmp_path / name) for name in ("theirs", "ours", "empty"))
    install(theirs, stack="two")
    install(ours, node="cpu-9", claim="00000009")
    with pytest.raises(Untouched, match="has data that are of the stack two"):
        installer.take([theirs], a_task(), SIZE)
    disk, fd = installer.take([theirs, empty, ours], a_task(), SIZE)
    os.close(fd)
    assert disk == ours


def test_what_is_not_the_image_is_never_written(tmp_path: Path) -> None:
    disk, asked = a_disk(tmp_path / "disk"), []

    def another(begin: int, end: int) -> bytes:
        asked.append(begin)
        return part(begin, end) if begin == 0 else b"\3" * (end - begin)

    _, fd = installer.take([disk], a_task(), SIZE)
    with pytest.raises(
        Refused, match=f"what the boot service gave is not the image: {CHUNK} bytes from its beginning"
    ):
        installer.install(fd, SUMS, SIZE, another)
    os.close(fd)
    assert asked == [0, *[CHUNK] * installer.TRIES]
    assert b"\3" not in (tmp_path / "disk").read_bytes()


def test_a_disk_that_does_not_keep_what_it_is_given_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, write = a_disk(tmp_path / "disk"), os.pwrite
    _, fd = installer.take([disk], a_task(), SIZE)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: len(data) if at == CHUNK else write(fd, data, at))
    with pytest.raises(Refused, match="does not keep what is written to it"):
        installer.install(fd, SUMS, SIZE, part)
    os.close(fd)


def test_a_disk_is_wiped_whole_and_its_label_goes_last(loop: dict[str, Any]) -> None:
    device = Path(loop["path"])
    install(loop)
    with opened(device) as fd:
        # What jobs wrote.
        os.pwrite(fd, b"secret", 17 * MIB + 3)
        assert installer.wipe(fd, a_task()) == "all of it was discarded, and reads as zeros"
        assert installer.label_of(fd) == {}
    assert not any(device.read_bytes())
    # It is nobody's: whoever comes next may have it.
    assert install(loop, stack="two") == 2 * CHUNK


@pytest.mark.parametrize("lies", [True, False])
def test_what_a_disk_does_not_forget_is_zeroed(
    loop: dict[str, Any], lies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(loop)
    monkeypatch.setattr(installer, "discard", lambda *_: lies)
    with opened(Path(loop["path"])) as fd:
        assert installer.wipe(fd, a_task()) == "all of it was zeroed"
    assert not any(Path(loop["path"]).read_bytes())


def test_a_wipe_that_was_cut_off_goes_on_as_the_label_is_there_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = a_disk(tmp_path / "disk")
    install(disk)
    with monkeypatch.context() as patch:
        patch.setattr(installer, "flush", lambda _: (_ for _ in ()).throw(OSError("the power is cut")))
        with opened(tmp_path / "disk") as fd, pytest.raises(OSError, match="the power is cut"):
            installer.wipe(fd, a_task())
    said = installer.do(a_task(task="wipe"), [disk], part)
    assert "all of it was zeroed" in said
    assert not any((tmp_path / "disk").read_bytes())
    assert installer.do(a_task(task="wipe"), [disk], part) == "no disk of the host has anything of ours"


def test_by_headers_what_says_that_there_is_something_goes_and_what_jobs_wrote_stays_which_is_told(
    tmp_path: Path,
) -> None:
    disk = a_disk(tmp_path / "disk")
    install(disk)
    with opened(tmp_path / "disk") as fd:
        os.pwrite(fd, b"secret", 17 * MIB + 3)
        assert "what was written elsewhere is there still" in installer.wipe(fd, a_task(wipe="headers"))
        assert installer.is_empty(fd, WHOLE)
    assert b"secret" in (tmp_path / "disk").read_bytes()


def test_no_disk_is_wiped_that_is_not_ours(tmp_path: Path) -> None:
    theirs, somebodys = a_disk(tmp_path / "theirs"), a_disk(tmp_path / "somebodys", b"data")
    install(theirs, stack="two")
    before = [(tmp_path / name).read_bytes() for name in ("theirs", "somebodys")]
    assert (
        installer.do(a_task(task="wipe"), [theirs, somebodys], part)
        == "no disk of the host has anything of ours"
    )
    assert [(tmp_path / name).read_bytes() for name in ("theirs", "somebodys")] == before


sizes = st.integers(1, 2**42)
some_disks = st.lists(
    st.fixed_dictionaries(
        {
            "path": st.just("/dev/sdx"),
            "size": sizes,
            "serial": st.sampled_from(["", "A", "B"]),
            "wwn": st.sampled_from(["", "50"]),
        }
    ),
    max_size=4,
)
hints = st.fixed_dictionaries(
    {},
    optional={
        "serial": st.sampled_from(["", "A"]),
        "wwn": st.sampled_from(["", "0x50"]),
        "least": sizes,
        "most": st.one_of(st.just(0), sizes),
    },
)


@given(some_disks, hints, sizes)
def test_no_disk_is_meant_that_is_not_as_the_spec_says(
    found: list[dict[str, Any]], wanted: dict[str, Any], size: int
) -> None:
    for disk in installer.meant(found, wanted, size):
        assert disk in found
        assert disk["size"] >= max(size, wanted.get("least", 0))
        assert not wanted.get("most") or disk["size"] <= wanted["most"]
        assert wanted.get("serial", "") in ("", disk["serial"])
        assert wanted.get("wwn", "") in ("", f"0x{disk['wwn']}")


def test_disks_are_those_that_are_built_in_the_smallest_first(tmp_path: Path) -> None:
    """As the kernel tells of SATA, NVMe and virtio."""
    told: dict[str, dict[str, str | bytes]] = {
        "sda": {
            "size": "2000000",
            "removable": "0",
            "device/vpd_pg80": b"\0\x80\0\x04S3Z8",
            "device/wwid": "naa.5002538e40000000",
        },
        "nvme0n1": {"size": "1000000", "device/serial": "PHLJ1  ", "wwid": "eui.0025385B7150"},
        "vda": {"size": "3000000", "serial": "disk-of-alpha", "device/wwid": "t10.ATA     QEMU HARDDISK"},
        "sr0": {"size": "400000", "removable": "1"},
        "sdb": {"size": "8", "removable": "1"},
        "sdc": {"size": "0", "removable": "0"},
        "loop0": {"size": "400000"},
    }
    for name, files in told.items():
        for file, content in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert installer.disks(str(tmp_path)) == [
        {"path": "/dev/nvme0n1", "size": 512000000, "serial": "PHLJ1", "wwn": "0025385b7150"},
        {"path": "/dev/sda", "size": 1024000000, "serial": "S3Z8", "wwn": "5002538e40000000"},
        {"path": "/dev/vda", "size": 1536000000, "serial": "disk-of-alpha", "wwn": ""},
    ]


def test_a_host_takes_the_image_from_the_boot_service_and_says_what_came_of_it(
    loop: dict[str, Any],
    iso: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    image = tmp_path / "image.disk"
    root = tmp_path / "root"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", root, f"{ROOT['size'] // MIB}M"], check=True)
    content = bytearray(IMAGE)
    content[ROOT["begin"] : ROOT["begin"] + ROOT["size"]] = root.read_bytes()
    image.write_bytes(content)
    sums = Sums.of(image)
    kept = Kept(tmp_path / "data", "one")
    kept.write_boot("cpu", USER_DATA)
    kept.write_site('{"boot_service": "http://127.0.0.1:1"}')
    kept.write("alpha", a_medium(iso, task="install", disk_image=str(image), claim="00000001"))
    kept.path("alpha")
    server = service(tmp_path / "data", "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}{kept.path('alpha')}"
        files = [("etc/tidepool/who", FILE | 0o600, base64.b64encode(b"cpu-1").decode())]
        task = a_task(sums=list(sums.sums), size=sums.size, files=files, url=url)
        said = installer.do(task, [loop], installer.by_http(url))
        assert "bytes were written and read again" in said
        installer.report(url, {"claim": "00000001", "task": "install", "isDone": True, "what": said})
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    told = kept.read_report("alpha", "00000001", "install")
    assert told is not None
    assert (told.is_done, told.what, told.wrote) == (True, said, True)
    assert kept.read_report("alpha", "00000002", "install") is None
    subprocess.run(
        [
            "dd",
            f"if={loop['path']}",
            f"of={root}",
            "bs=1M",
            f"skip={ROOT['begin'] // MIB}",
            "count=6",
            "status=none",
        ],
        check=True,
    )
    shown = subprocess.run(
        ["debugfs", "-R", "cat /etc/tidepool/who", root], check=True, capture_output=True, text=True
    )
    assert shown.stdout == "cpu-1"


def test_a_boot_service_that_does_not_answer_is_asked_again_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    asked = []

    def ask() -> None:
        asked.append(1)
        raise ConnectionRefusedError("nobody is there")

    with pytest.raises(Refused, match="the boot service does not answer: nobody is there"):
        installer.patiently(ask, 3)
    assert len(asked) == 3


def test_it_needs_nothing_but_pythons_own_library() -> None:
    """As on a host: alone, without packages."""
    copy = Path(installer.__file__)
    done = subprocess.run(
        [shutil.which("python3") or sys.executable, "-IS", copy], capture_output=True, text=True, check=False
    )
    assert "IndexError" in done.stderr, done.stderr
