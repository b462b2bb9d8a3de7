#!/usr/bin/python3 -IS
"""Writes the golden image to a host's disk, and wipes that disk when the host is given back. It runs in the system in memory.

    install /usr/lib/tidepool/task.json

A disk of ours has a label in the gap before its first partition, written before anything else: whoever loses power in the middle
finds it again, and goes on. A disk with anything of somebody else's on it is left alone, unless the spec allows it.

It is one file of Python's standard library alone: hosts have nothing else.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

MIB = 2**20
#: Parts of the image, each with a sum of its own.
CHUNK = 4 * MIB
#: Where a label is: behind the tables of a GPT, before the first partition. The image has zeros there.
LABEL_AT = MIB // 2
LABEL_BYTES = 4096
LABEL = b"TIDEPOOL DISK\n"
#: Where file systems, RAIDs and volume managers say that they are there: at the beginning, or at the end.
EDGE = MIB
#: Of a disk that forgot what was on it, so many places are looked at.
SAMPLES = 256
TRIES = 5
AGAIN_S = 2.0
ANSWER_S = 60.0
#: linux/fs.h
BLKRRPART, BLKFLSBUF, BLKGETSIZE64, BLKDISCARD, BLKZEROOUT = 0x125F, 0x1261, 0x80081272, 0x1277, 0x127F
#: By what a disk is none that a system is put on.
NO_DISKS = ("loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd")
ZEROS = bytes(CHUNK)

T = TypeVar("T")
#: Gives the bytes of the image from the first to before the last.
Fetch = Callable[[int, int], bytes]


class Refused(Exception):
    """It is not done. The text is for a person."""


class Untouched(Refused):
    """And no disk was written to."""


# The host's disks


def disks(sys_block: str = "/sys/block", dev: str = "/dev") -> list[dict[str, Any]]:
    """All disks that are built in: dictionaries of path, size in bytes, serial and wwn, the smallest first."""
    found = []
    for name in sorted(os.listdir(sys_block)):
        at = f"{sys_block}/{name}"
        size = int(text(f"{at}/size") or 0) * 512
        if name.startswith(NO_DISKS) or not size or text(f"{at}/removable") == "1" or text(f"{at}/ro") == "1":
            continue
        found.append({"path": f"{dev}/{name}", "size": size, "serial": serial_of(at), "wwn": wwn_of(at)})
    return sorted(found, key=lambda disk: (disk["size"], disk["path"]))


def serial_of(at: str) -> str:
    for name in ("serial", "device/serial"):
        if told := text(f"{at}/{name}"):
            return told
    try:
        # SCSI's own page of it, which SATA has by translation: four bytes of head.
        with open(f"{at}/device/vpd_pg80", "rb") as file:
            return file.read()[4:].decode("latin-1").strip("\0 ")
    except OSError:
        return ""


def wwn_of(at: str) -> str:
    told = text(f"{at}/wwid") or text(f"{at}/device/wwid")
    kind, _, digits = told.partition(".")
    # Others are made of the serial number.
    return digits.lower() if kind in ("naa", "eui") else ""


def meant(all_disks: list[dict[str, Any]], wanted: dict[str, Any], size: int) -> list[dict[str, Any]]:
    """The disks that may be written to, the best first: one that has our label, else the smallest that is large enough."""
    serial, wwn = wanted.get("serial", ""), wanted.get("wwn", "").lower().removeprefix("0x")
    least, most = max(size, wanted.get("least", 0)), wanted.get("most", 0)
    return [
        disk
        for disk in all_disks
        if serial in ("", disk["serial"])
        and wwn in ("", disk["wwn"])
        and disk["size"] >= least
        and (not most or disk["size"] <= most)
    ]


def described(disk: dict[str, Any]) -> str:
    told = [f"{disk['size'] // 10**9} GB"]
    told += [f"serial {disk['serial']}"] if disk["serial"] else []
    told += [f"wwn {disk['wwn']}"] if disk["wwn"] else []
    return f"{disk['path']} ({', '.join(told)})"


# A disk, by its descriptor


def label_of(fd: int) -> dict[str, Any]:
    """The label of a disk; empty where it has none."""
    data = os.pread(fd, LABEL_BYTES, LABEL_AT)
    if not data.startswith(LABEL):
        return {}
    try:
        told = json.loads(data[len(LABEL) :].rstrip(b"\0"))
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def write_label(fd: int, label: dict[str, Any]) -> None:
    """Write it: all of it is in one sector, which is there whole or not at all."""
    write(fd, (LABEL + json.dumps(label).encode()).ljust(LABEL_BYTES, b"\0"), LABEL_AT)
    os.fsync(fd)


def is_empty(fd: int, size: int) -> bool:
    """Tell if nothing says that there is something on a disk."""
    return not any(os.pread(fd, EDGE, 0)) and not any(os.pread(fd, EDGE, max(0, size - EDGE)))


def write(fd: int, data: bytes, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], at + done)


def size_of(fd: int) -> int:
    return os.lseek(fd, 0, os.SEEK_END)


def take(found: list[dict[str, Any]], task: dict[str, Any], size: int) -> tuple[dict[str, Any], int]:
    """The disk to write to and its descriptor; its label is written, where it had none.

    Raises:
        Refused: there is none, or somebody else's data are on it.
    """
    reasons = []
    candidates = meant(found, task["disk"], size)
    if not candidates:
        have = "; ".join(map(described, found)) or "none"
        raise Untouched(
            f"no disk of the host is as the spec says ({json.dumps(task['disk'])}, {size // 10**6} MB at least); it has {have}"
        )
    label = {"stack": task["stack"], "node": task["node"], "claim": task["claim"]}
    for disk in sorted(candidates, key=lambda disk: not is_ours(disk, task)):
        fd = os.open(disk["path"], os.O_RDWR | os.O_EXCL)
        if whose := somebodys(fd, disk, task):
            os.close(fd)
            reasons.append(f"{described(disk)} has data that are {whose}")
            continue
        if label_of(fd) != label:
            write_label(fd, label)
        return disk, fd
    raise Untouched(
        f"{'; '.join(reasons)}: write overwrite: true in disk of the offering where they may go, with serial or wwn of the disk; or "
        "name another host"
    )


def is_ours(disk: dict[str, Any], task: dict[str, Any]) -> bool:
    fd = os.open(disk["path"], os.O_RDONLY)
    try:
        return bool(label_of(fd).get("stack") == task["stack"])
    finally:
        os.close(fd)


def somebodys(fd: int, disk: dict[str, Any], task: dict[str, Any]) -> str:
    """Return whose data are on a disk that may not be written to; empty where it may."""
    told = label_of(fd)
    if told.get("stack") == task["stack"] or task["disk"].get("overwrite"):
        return ""
    if told:
        return f"of the stack {told['stack']}"
    return "" if is_empty(fd, disk["size"]) else "not ours"


# The image


def install(fd: int, sums: list[str], size: int, fetch: Fetch) -> int:
    """Write the image, of which ``fetch(begin, end)`` gives a part; gives how many bytes were written. What is right already stays.

    Raises:
        Refused: what it was given is not the image, or the disk does not keep it.
    """
    wrote = []
    for number, wanted in enumerate(sums):
        begin = number * CHUNK
        length = min(CHUNK, size - begin)
        if digest(read(fd, begin, length)) == wanted:
            continue
        data = fetched(fetch, begin, length, wanted)
        if number == 0:
            # Its label stays there all the while.
            write(fd, data[:LABEL_AT], begin)
            write(fd, data[LABEL_AT + LABEL_BYTES :], begin + LABEL_AT + LABEL_BYTES)
        else:
            write(fd, data, begin)
        wrote.append(number)
    flush(fd)
    for number in wrote:
        begin = number * CHUNK
        if digest(read(fd, begin, min(CHUNK, size - begin))) != sums[number]:
            raise Refused(
                f"the disk does not keep what is written to it: {begin} bytes from its beginning it is something else"
            )
    return sum(min(CHUNK, size - number * CHUNK) for number in wrote)


def digest(data: bytes) -> str:
    """The sum of a part; of one that is zeros, nothing."""
    return "" if data == ZEROS[: len(data)] else hashlib.sha256(data).hexdigest()


def read(fd: int, begin: int, length: int) -> bytes:
    """Return a part of the disk as it is in the image: without the label."""
    data = os.pread(fd, length, begin)
    if begin <= LABEL_AT < begin + length:
        at = LABEL_AT - begin
        data = data[:at] + bytes(min(LABEL_BYTES, length - at)) + data[at + LABEL_BYTES :]
    return data


def fetched(fetch: Fetch, begin: int, length: int, wanted: str) -> bytes:
    if not wanted:
        return bytes(length)
    for _ in range(TRIES):
        data = fetch(begin, begin + length)
        if digest(data) == wanted:
            return data
    raise Refused(
        f"what the boot service gave is not the image: {begin} bytes from its beginning it has another sum"
    )


def flush(fd: int) -> None:
    """Have it on the disk, and read it from there the next time."""
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def lay_over(disk: str, root: dict[str, int], files: list[tuple[str, int, str]], folder: str) -> None:
    """Put files into the root that was written: ``root`` says where it begins, and how long it is."""
    os.makedirs(folder, exist_ok=True)
    where = f"loop,offset={root['begin']},sizelimit={root['size']}"
    run(["mount", "-t", "ext4", "-o", where, disk, folder])
    try:
        for path, mode, content in files:
            to = f"{folder}/{path}"
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if os.path.lexists(to):
                os.unlink(to)
            if stat.S_ISLNK(mode):
                os.symlink(base64.b64decode(content), to)
                continue
            with open(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(base64.b64decode(content))
                os.fchmod(file.fileno(), mode & 0o7777)
    finally:
        run(["umount", folder])


# Wiping


def wipe(fd: int, task: dict[str, Any]) -> str:
    """Wipe a disk that has our label, which goes last; gives what was done.

    With `headers` what says that something is there is gone, and what jobs wrote is not.
    """
    size = size_of(fd)
    if task["wipe"] == "headers":
        how = "tables, signatures and the first MiB of each GiB were zeroed; what was written elsewhere is there still"
        for begin in range(0, size, 1024 * MIB):
            zero(fd, begin, min(EDGE, size - begin))
    elif discard(fd, size) and reads_as_zeros(fd, size):
        how = "all of it was discarded, and reads as zeros"
    else:
        how = "all of it was zeroed"
        zero(fd, 0, size)
    zero(fd, max(0, size - EDGE), min(EDGE, size))
    flush(fd)
    os.pwrite(fd, bytes(LABEL_BYTES), LABEL_AT)
    flush(fd)
    return how


def zero(fd: int, begin: int, length: int) -> None:
    """Zero a part of it, but for the label."""
    for start, end in around_label(begin, begin + length):
        for at in range(start, end, 64 * MIB):
            part = min(64 * MIB, end - at)
            try:
                fcntl.ioctl(fd, BLKZEROOUT, struct.pack("QQ", at, part))
            except OSError:
                for each in range(at, at + part, CHUNK):
                    write(fd, ZEROS[: min(CHUNK, at + part - each)], each)


def discard(fd: int, size: int) -> bool:
    """Have the disk forget all of it but the label; whether it can."""
    try:
        for start, end in around_label(0, size):
            fcntl.ioctl(fd, BLKDISCARD, struct.pack("QQ", start, end - start))
    except OSError:
        return False
    return True


def around_label(begin: int, end: int) -> list[tuple[int, int]]:
    """The parts of a range that the label is not in."""
    parts = [(begin, min(end, LABEL_AT)), (max(begin, LABEL_AT + LABEL_BYTES), end)]
    return [(start, stop) for start, stop in parts if start < stop]


def reads_as_zeros(fd: int, size: int) -> bool:
    """Tell if it does in many places: what a disk was told to forget may be there still."""
    flush(fd)
    places = {(size - CHUNK) * number // SAMPLES // 4096 * 4096 for number in range(SAMPLES + 1)}
    return all(digest(read(fd, max(0, at), min(CHUNK // 4, size))) == "" for at in places)


# A host


def do(
    task: dict[str, Any], found: list[dict[str, Any]], fetch: Fetch, folder: str = "/run/tidepool-root"
) -> str:
    """Do what a task says; gives what was done. The root that is written is mounted at ``folder`` for a while."""
    if task["task"] == "wipe":
        done = []
        for disk in found:
            fd = os.open(disk["path"], os.O_RDWR | os.O_EXCL)
            try:
                if label_of(fd).get("stack") == task["stack"]:
                    done.append(f"{described(disk)}: {wipe(fd, task)}")
            finally:
                os.close(fd)
        return "; ".join(done) or "no disk of the host has anything of ours"
    size = task["size"]
    disk, fd = take(found, task, size)
    try:
        began = time.monotonic()
        wrote = install(fd, task["sums"], size, fetch)
        took = time.monotonic() - began
    finally:
        os.close(fd)
    lay_over(disk["path"], task["root"], task["files"], folder)
    return f"{described(disk)}: {wrote} bytes were written and read again, in {took:.0f} s"


def by_http(url: str) -> Fetch:
    def fetch(begin: int, end: int) -> bytes:
        request = urllib.request.Request(f"{url}.disk", headers={"Range": f"bytes={begin}-{end - 1}"})
        return patiently(lambda: answer(request))

    return fetch


def report(url: str, told: dict[str, Any]) -> None:
    data = json.dumps(told).encode()
    request = urllib.request.Request(
        f"{url}.report", data, {"Content-Type": "application/json"}, method="POST"
    )
    patiently(lambda: answer(request))


def answer(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=ANSWER_S) as there:
        return bytes(there.read())


def patiently(ask: Callable[[], T], tries: int = 60) -> T:
    """Return the answer to ``ask``, once there is one."""
    while True:
        tries -= 1
        try:
            return ask()
        except OSError as error:
            if tries <= 0 or (isinstance(error, urllib.error.HTTPError) and error.code < 500):
                raise Refused(f"the boot service does not answer: {error}") from error
            print(f"tidepool: the boot service does not answer yet: {error}", flush=True)
            time.sleep(AGAIN_S)


def text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"{' '.join(command)}: {done.stderr.strip()}")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        task = json.load(file)
    told = {"claim": task["claim"], "task": task["task"]}
    try:
        told |= {"isDone": True, "what": do(task, disks(), by_http(task["url"]))}
    except (Refused, OSError) as error:
        told |= {"isDone": False, "what": str(error), "wrote": not isinstance(error, Untouched)}
    print(f"tidepool: {told['what']}", flush=True)
    try:
        report(task["url"], told)
    finally:
        os.sync()
        subprocess.run(["systemctl", "poweroff", "--force"], check=False)


if __name__ == "__main__":
    main()
