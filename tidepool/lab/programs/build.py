"""Programs of the laboratory, compiled on this host: those without MPI run anywhere, those with it on machines of the image's MPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tidepool.lab.errors import LabError
from tidepool.lab.programs import SOURCES
from tidepool.lab.programs.command import MPI_PROGRAMS

#: All that there are, by the names of their files.
PROGRAMS: Final = ("probe", "matrix", "stream", *sorted(MPI_PROGRAMS))

#: The image that has Open MPI's headers; its programs run with the Open MPI of all images (docs/mpi.md).
MPI_IMAGE: Final = "debian-12-dev"

#: For any x86-64 or arm64 alike, as the same file runs on all machines.
_FLAGS: Final = ("-std=gnu11", "-D_GNU_SOURCE", "-O3", "-Wall", "-Wextra", "-Werror")
_COMPILE_S: Final = 120.0

NO_COMPILER: Final = (
    "the laboratory's programs are in C, and there is no cc here; install gcc and libc6-dev, or: make setup"
)


def build(
    destination: Path,
    programs: Iterable[str] = PROGRAMS,
    *,
    mpi_root: Path | None = None,
    sources: Path = SOURCES,
) -> None:
    """Compile programs into a folder, where they are not there yet as these sources, flags and root make them.

    Those without MPI are static: they run on machines of every image, and in every pod. Those with it are linked with the
    Open MPI below ``mpi_root``, by this host's compiler; machines have the same or a later one.

    Args:
        destination: the folder, which is made; each program is whole there, or not at all.
        programs: of `PROGRAMS`.
        mpi_root: an unpacked root of `MPI_IMAGE`, for those with MPI.
        sources: the folder of their sources.

    Raises:
        LabError: there is no compiler, or no Open MPI below ``mpi_root``; or a source does not compile.
    """
    found = compiler()
    if found is None:
        raise LabError(NO_COMPILER)
    destination.mkdir(parents=True, exist_ok=True)
    for program in programs:
        arguments = [*_FLAGS, *(_mpi_flags(program, mpi_root) if program in MPI_PROGRAMS else ["-static"])]
        _build(found, sources / f"{program}.c", destination / program, arguments)


def compiler() -> str | None:
    """Return the path of this host's C compiler; None where it has none."""
    return shutil.which("cc")


def _build(compiler: str, source: Path, program: Path, arguments: Sequence[str]) -> None:
    digest = hashlib.sha256(repr((_run([compiler, "--version"]), arguments)).encode())
    for path in (source, source.with_name("record.h")):
        digest.update(path.read_bytes())
    stamp = program.with_name(f".{program.name}.sha256")
    if program.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    made = program.with_name(f".{program.name}.{os.getpid()}")
    try:
        _run([compiler, "-o", str(made), str(source), *arguments])
        made.rename(program)
    finally:
        made.unlink(missing_ok=True)
    stamp.write_text(digest.hexdigest())


def _mpi_flags(program: str, root: Path | None) -> list[str]:
    if root is None:
        raise LabError(
            f"{program} is a program of MPI: build the image {MPI_IMAGE} first, whose root has Open MPI's headers"
        )
    found = sorted(root.glob("usr/lib/*/openmpi"))
    if not found or not (found[0] / "include/mpi.h").exists():
        raise LabError(
            f"{root} has no headers of Open MPI; take a root of the image {MPI_IMAGE}, for {program}"
        )
    folder = found[0]
    return [
        f"--sysroot={root}",
        f"-I{folder / 'include'}",
        f"-L{folder / 'lib'}",
        "-lmpi",
        # Libraries that libmpi itself needs are the machine's.
        "-Wl,--allow-shlib-undefined",
    ]


def _run(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_COMPILE_S,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired as fault:
        raise LabError(
            f"{argv[0]} did not end within {_COMPILE_S:g} s; is the machine overloaded? try again"
        ) from fault
    if done.returncode:
        raise LabError(
            f"a program of the laboratory does not compile: {' '.join(argv)}\n{done.stderr.strip()}"
        )
    return done.stdout
