"""Becomes another program, for which files need not be on the disk when it says so: fsync(2) and its like do nothing.

    python unsynced.py PROGRAM ARGUMENT...

A build that is cut off is begun anew, so each of the thousand times that dpkg waits for the disk is for nothing; an
image is flushed once, when it is whole. It needs root, and is a script, as the filter holds for all that it starts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Final

#: By machine: the architecture's number (audit.h), and those of fsync, fdatasync, sync, syncfs and sync_file_range.
_CALLS: Final = {
    "x86_64": (0xC000003E, (74, 75, 162, 306, 277)),
    "aarch64": (0xC00000B7, (82, 83, 81, 267, 84)),
}
# linux/bpf_common.h, linux/seccomp.h, linux/prctl.h
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_DO_NOTHING: Final = 0x00050000
_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def sync_filter(machine: str) -> bytes:
    """Return the filter for a machine as `os.uname` names it; an empty one where its numbers are not known."""
    if machine not in _CALLS:
        return b""
    architecture, calls = _CALLS[machine]
    last = len(calls)
    instructions = [
        (_LOAD, 0, 0, 4),
        (_JUMP_IF_EQUAL, 0, last + 1, architecture),
        (_LOAD, 0, 0, 0),
        *((_JUMP_IF_EQUAL, last - number, 0, call) for number, call in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DO_NOTHING),
    ]
    return b"".join(struct.pack("HBBI", *each) for each in instructions)


def main(command: list[str]) -> None:
    """Set the filter, and become ``command``; without it, where the kernel has none."""
    code = sync_filter(os.uname().machine)
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(code) // 8, code)
    if code and libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        sys.stderr.write(
            f"files are flushed one by one: {errno.errorcode.get(ctypes.get_errno(), 'seccomp')}\n"
        )
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
