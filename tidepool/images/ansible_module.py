#!/usr/bin/python3
"""Runs modules of Ansible's in an image's root, each of which comes as an archive of it and of all that it imports.

    ansible_module.py <ARCHIVE       runs one
    ansible_module.py --serve FILE   runs those that come by the socket FILE, each in a process of its own

The package ``ansible`` stands beside it: each module would compile what it imports from its archive, which takes most of
its time. Here that is compiled once, imported before the archive could be and, where it serves, imported once.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# What it finds beside it is the same release, as it was copied from where the archives are made.


def next_module(file: str) -> bytes:
    """Return the archive that a new process is to run; the process that serves never returns."""
    from multiprocessing.connection import Listener

    import_module("ansible.module_utils.basic")  # each module wants it
    listener = Listener(f"{file}.new", "AF_UNIX")
    Path(f"{file}.new").rename(file)  # so that nobody finds it before it listens
    while True:
        with listener.accept() as client, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            archive = client.recv_bytes()
            module = os.fork()
            if module == 0:
                os.dup2(out.fileno(), sys.stdout.fileno())
                os.dup2(err.fileno(), sys.stderr.fileno())
                return archive
            code = os.waitstatus_to_exitcode(os.waitpid(module, 0)[1])
            for part in (str(code).encode(), _read(out.fileno()), _read(err.fileno())):
                client.send_bytes(part)


def _read(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


if __name__ == "__main__":
    _archive = next_module(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else sys.stdin.buffer.read()
    exec(compile(_archive, "<stdin>", "exec"))  # noqa: S102
