"""A kernel of its own as a process (User Mode Linux), for what this machine's kernel may lack: quotas, a client of NFS.

Its root is this machine's, by hostfs, so that all programs are there. It runs one program of Python as its first process.
"""

from __future__ import annotations

import ctypes
import errno
import shutil
import struct
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

#: What comes before each program: file systems, modules, commands as another user, and the end.
_BEFORE: Final = """\
import ctypes, errno, fcntl, json, os, subprocess, sys, time, traceback
_libc = ctypes.CDLL(None, use_errno=True)
os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"

def run(*argv, uid=0, stdin="", cwd="/"):
    as_user = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups") if uid else ()
    done = subprocess.run([*as_user, *argv], input=stdin, capture_output=True, text=True, cwd=cwd)
    return done.returncode, done.stdout, done.stderr

def must(*argv, **more):
    code, out, err = run(*argv, **more)
    assert code == 0, (argv, code, out, err)
    return out

def modules(*names):
    folder = f"/usr/lib/uml/modules/{os.uname().release}"
    with open(f"{folder}/modules.dep") as file:
        needs = dict(line.split(":") for line in file)
    for name in names:
        wanted = next(path for path in needs if path.endswith(f"/{name}.ko"))
        for path in (*reversed(needs[wanted].split()), wanted):
            with open(f"{folder}/{path}") as file:
                if _libc.syscall(313, file.fileno(), b"", 0):
                    assert ctypes.get_errno() == errno.EEXIST, (path, os.strerror(ctypes.get_errno()))

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.1)

def say(**what):
    print("said", json.dumps(what), flush=True)

try:
    must("mount", "-t", "proc", "proc", "/proc")
    must("mount", "-t", "sysfs", "sysfs", "/sys")
    must("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    must("mount", "-t", "tmpfs", "tmpfs", "/run")
"""
_AFTER: Final = """
except BaseException:
    print("failed", json.dumps(traceback.format_exc()), flush=True)
os.sync()
_libc.reboot(0x4321FEDC)
"""
_WITHIN_S: Final = 300
#: By x86-64's numbers: of `ptrace(PTRACE_GETREGSET, ..., NT_X86_XSTATE)` alone it is said that it cannot be.
_NO_XSTATE: Final = (
    (0x20, 0, 0, 4),  # the architecture
    (0x15, 0, 7, 0xC000003E),
    (0x20, 0, 0, 0),  # the call
    (0x15, 0, 5, 101),
    (0x20, 0, 0, 16),  # its first argument
    (0x15, 0, 3, 0x4204),
    (0x20, 0, 0, 32),  # its third
    (0x15, 0, 1, 0x202),
    (0x06, 0, 0, 0x00050000 | errno.EINVAL),
    (0x06, 0, 0, 0x7FFF0000),
)


#: What would be lost with that state is what nobody is to use, then: variables of a kernel's command line are its first process's.
_NO_AVX: Final = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX_Fast_Unaligned_Load"


class _Program(ctypes.Structure):
    """A program of seccomp: `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _without_xstate() -> None:
    """Have this process's kernel keep to the registers that it has room for.

    Of the extended state it asks for as much as processors had when it was written: where they have more (AMX), it can be read,
    and is not taken back. Where it cannot be read at all, it does without.
    """
    program = b"".join(struct.pack("=HBBI", *each) for each in _NO_XSTATE)
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, by_filter = 38, 22, 2
    told = _Program(len(_NO_XSTATE), program)
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(seccomp, by_filter, ctypes.byref(told)):
        raise OSError(ctypes.get_errno(), "prctl")


def run_in_kernel(
    folder: Path,
    program: str,
    disks: Sequence[Path] = (),
    options: Sequence[str] = (),
    prefix: Sequence[str] = (),
) -> list[dict[str, object]]:
    """Run ``program`` in a kernel with ``disks`` (ubda, ubdb ...), and give all that it said by ``say``.

    ``options`` are its command line's, as of its network; ``prefix`` is a command that runs it.
    """
    import json

    if shutil.which("linux.uml") is None:
        pytest.skip("there is no linux.uml on PATH")
    init = folder / "init.py"
    init.write_text(
        f"#!{sys.executable} -IS\n{_BEFORE}{textwrap.indent(textwrap.dedent(program), '    ')}{_AFTER}"
    )
    init.chmod(0o755)
    argv = [
        *prefix,
        "linux.uml",
        "mem=256M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "rw",
        f"init={init}",
        _NO_AVX,
    ]
    argv += [f"ubd{letter}={disk}" for letter, disk in zip("abcdefgh", disks, strict=False)]
    argv += [*options, "con=null", "con0=null,fd:1", "quiet", f"uml_dir={folder}/uml"]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        stdin=subprocess.DEVNULL,
        check=False,
        preexec_fn=_without_xstate,
    )
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    failed = [json.loads(told) for word, _, told in lines if word == "failed"]
    assert not failed, f"{failed[0]}\n{done.stdout}{done.stderr}"
    said = [json.loads(told) for word, _, told in lines if word == "said"]
    assert said, f"it said nothing: {done.returncode}\n{done.stdout}{done.stderr}"
    return said
