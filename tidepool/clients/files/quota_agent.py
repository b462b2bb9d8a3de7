"""The agent of quotas. It runs where the file system of /home is, by that machine's own Python, as root, and alone.

A request in JSON comes on stdin, and the answer is JSON as well: `{"error": "..."}`, or how it is after what was asked for::

    {"verb": "set", "folder": "/home", "scope": "dev", "default": 53687091200, "quotas": {"ada": 214748364800}}
    {"verb": "read", "folder": "/home", "scope": "dev"}

Each folder there that is not root's is a home; its name is the person's, its owner theirs. A quota is in bytes, 0 for none. It is
a project's of the file system: all in a home counts, whoever wrote it, and nothing outside. ``scope`` sets the projects apart from
those of other stacks on the same file system: 32 bits of a checksum of scope and uid, so that of ten stacks with a thousand
people each, two people share a project once in a hundred times.

Who is not among ``quotas``, where ``default`` is 0, has a home that is the site's to limit: it is left as it is. One that was given
a quota here before loses that, and is the site's again.
"""

from __future__ import annotations

import binascii
import ctypes
import errno
import fcntl
import json
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

#: quotactl_fd(2), the same number on all architectures; Linux 5.14.
_QUOTACTL_FD = 443
_GET_STATE, _GET, _SET = 0x5808, 0x800007, 0x800008
_PROJECT = 2
_COUNTS, _ENFORCES = 1 << 4, 1 << 5
_LIMITS_OF_BLOCKS = 1
_DQBLK = struct.Struct("=8QI4x")
_BLOCK = 1024
#: struct fsxattr of linux/fs.h.
_FSXATTR = struct.Struct("=5I8x")
_GET_FSXATTR, _SET_FSXATTR = 0x801C581F, 0x401C5820
_INHERITS = 0x200
#: Said of a home when all in it is in its project. Only root reads it and writes it.
_MARK = "trusted.tidepool.project"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


def quotactl(fd: int, command: int, project: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
    """Call quotactl_fd for projects of the file system that ``fd`` is on; OSError where it refuses."""
    code = (command << 8) | _PROJECT
    if _libc.syscall(_QUOTACTL_FD, ctypes.c_uint(fd), ctypes.c_uint(code), ctypes.c_uint(project), buffer):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def state_of(fd: int) -> int:
    """Return whether the file system counts what projects use, and whether it enforces limits: flags, 0 for neither."""
    buffer = ctypes.create_string_buffer(b"\x01", 256)  # struct fs_quota_statv, version 1
    try:
        quotactl(fd, _GET_STATE, 0, buffer)
    except OSError as error:
        if error.errno == errno.EPERM:
            raise
        return 0
    return int.from_bytes(buffer.raw[2:4], sys.byteorder) & (_COUNTS | _ENFORCES)


def usage_of(fd: int, project: int) -> tuple[int, int, int]:
    """Return a project's limit (0 for none) and what it uses, both in bytes, and how many files it has."""
    buffer = ctypes.create_string_buffer(_DQBLK.size)
    try:
        quotactl(fd, _GET, project, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):  # XFS has none before it is used
            return 0, 0, 0
        raise
    hard, _, used, _, _, files, *_ = _DQBLK.unpack(buffer.raw)
    return hard * _BLOCK, used, files


def limit(fd: int, project: int, quota: int) -> None:
    """Limit what a project may use to ``quota`` bytes, rounded up to whole KiB; 0 for no limit."""
    blocks = -(-quota // _BLOCK)
    packed = _DQBLK.pack(blocks, 0, 0, 0, 0, 0, 0, 0, _LIMITS_OF_BLOCKS)
    quotactl(fd, _SET, project, ctypes.create_string_buffer(packed, _DQBLK.size))


def project_of(scope: str, uid: int) -> int:
    """Return the project of a person: never 0, which is that of all files without one."""
    return binascii.crc32(f"{scope}/{uid}".encode()) or 1


def assign(fd: int, project: int) -> None:
    """Put a file or a folder into a project; what is made in the folder from now on is in it as well."""
    flags, size, extents, now, cow = _FSXATTR.unpack(fcntl.ioctl(fd, _GET_FSXATTR, bytes(_FSXATTR.size)))
    wanted = flags | _INHERITS if stat.S_ISDIR(os.fstat(fd).st_mode) else flags
    if (now, flags) != (project, wanted):
        fcntl.ioctl(fd, _SET_FSXATTR, _FSXATTR.pack(wanted, size, extents, project, cow))


def assigned(fd: int) -> int:
    """Return the project that a folder is in, with what is made in it from now on; 0 for none."""
    flags, _, _, project, _ = _FSXATTR.unpack(fcntl.ioctl(fd, _GET_FSXATTR, bytes(_FSXATTR.size)))
    return int(project) if flags & _INHERITS else 0


def is_whole(home: int, project: int) -> bool:
    """Return whether a home is in its project, with all that was in it: its owner may have taken it out."""
    try:
        return assigned(home) == project and os.getxattr(home, _MARK) == b"%d" % project
    except OSError as error:
        if error.errno == errno.ENODATA:
            return False
        raise


def let_go(home: int) -> None:
    """Take a home out of its project. What is in it stays there, where nothing limits it any more."""
    flags, size, extents, _, cow = _FSXATTR.unpack(fcntl.ioctl(home, _GET_FSXATTR, bytes(_FSXATTR.size)))
    fcntl.ioctl(home, _SET_FSXATTR, _FSXATTR.pack(flags & ~_INHERITS, size, extents, 0, cow))
    try:
        os.removexattr(home, _MARK)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise


def assign_all(home: int, project: int) -> None:
    """Put a home and all in it into a project."""
    assign(home, project)
    _assign_entries(home, os.fstat(home).st_dev, project)
    os.setxattr(home, _MARK, b"%d" % project)


def _assign_entries(folder: int, device: int, project: int) -> None:
    """Put files and folders into the project. A folder comes before what it holds, so that nothing new is missed."""
    for name in os.listdir(folder):
        try:
            # Others, as links and pipes, take no room.
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                continue
            entry = os.open(name, _OPEN, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):  # it went, or is another one now
                continue
            raise
        try:
            found = os.fstat(entry)
            if found.st_dev == device and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                assign(entry, project)
                if stat.S_ISDIR(found.st_mode):
                    _assign_entries(entry, device, project)
        finally:
            os.close(entry)


def homes(folder: int) -> Iterator[tuple[str, int, int]]:
    """Yield the homes in a folder: name, uid, and the home itself, which is closed after its turn."""
    device = os.fstat(folder).st_dev
    for name in sorted(os.listdir(folder)):
        try:
            home = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                continue
            raise
        try:
            found = os.fstat(home)
            if found.st_uid and found.st_dev == device and not name.startswith("."):
                yield name, found.st_uid, home
        finally:
            os.close(home)


def kind_of(fd: int) -> tuple[str, str, str]:
    """Return the kind of a file system, the device it is on, and where it is mounted."""
    device = os.fstat(fd).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    found = ("unknown", "", "")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            if before.split()[2] == number:
                found = (after.split()[0], after.split()[1], before.split()[4])
                if before.split()[3] == "/":
                    break  # the whole of it, and no folder
    return found


def remedy(kind: str, device: str, place: str, counts: bool) -> str:
    """Say what makes a file system of that kind enforce quotas of projects."""
    if kind == "ext4" and counts:
        return f"mount it anew with the option prjquota, for a remount is not enough: umount {place} && mount -o prjquota {device} {place}"
    if kind == "ext4":
        return (
            f"while it is not mounted: tune2fs -O project,quota -Q prjquota {device}; then mount it with prjquota. The kernel "
            "has to have CONFIG_QFMT_V2"
        )
    if kind == "xfs":
        return f"mount {device} with the option prjquota (of a root: rootflags=prjquota); the kernel has to have CONFIG_XFS_QUOTA"
    if kind.startswith("nfs"):
        return "its server has to: `file_server: {}` makes one of the stack's own, which does"
    return f"put /home on ext4 or xfs with quotas of projects; {kind} has none"


def _set(folder: int, home: int, project: int, quota: int | None) -> None:
    """Give a home its quota; None leaves it to the site, once what it had of us is lifted."""
    if quota is None and assigned(home) != project:
        return
    if quota is not None and not is_whole(home, project):
        try:
            assign_all(home, project)
        except (OSError, RecursionError):
            pass  # deeper than anybody needs, or a disk that fails: it is not whole, which is told
    if usage_of(folder, project)[0] != -(-(quota or 0) // _BLOCK) * _BLOCK:
        limit(folder, project, quota or 0)
    if quota is None:
        let_go(home)


def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do what is asked for, and tell how it is then."""
    folder = os.open(request["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    kind, device, place = kind_of(folder)
    try:
        state, refused = state_of(folder), ""
    except PermissionError:
        state, refused = 0, "root may not set quotas here, as in a container"
    people = []
    for name, uid, home in homes(folder):
        person: dict[str, Any] = {"name": name, "uid": uid}
        if state:
            project = project_of(request["scope"], uid)
            if request["verb"] == "set":
                _set(folder, home, project, request["quotas"].get(name, request["default"] or None))
            # Of a home that the site limits, the site's project tells; of one in none, nothing was counted.
            own = assigned(home)
            quota, used, files = usage_of(folder, own or project)
            person |= {"quota": quota, "whole": is_whole(home, project)}
            person |= {"used": used, "files": files} if own or files else {}
        people.append(person)
    return {
        "enforced": bool(state & _ENFORCES),
        "counted": bool(state),
        "kind": kind,
        "device": device,
        "why": refused or ("" if state & _ENFORCES else f"{kind} here enforces no quotas of projects"),
        "remedy": "" if state & _ENFORCES else remedy(kind, device, place, bool(state & _COUNTS)),
        "people": people,
    }


def main() -> None:
    """Read a request, and write the answer."""
    request = json.load(sys.stdin)
    try:
        told = answer(request)
    except OSError as error:
        told = {"error": f"{error.filename or request['folder']}: {error.strerror}"}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
