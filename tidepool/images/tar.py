"""A root as a tar: the same bytes for the same files, and so the digest of all that is in it."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tidepool.images.errors import ImageError

_TIMES: Final = "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"


def tar_command(root: Path, target: str) -> list[str]:
    """What writes all of ``root`` to the file ``target``; `-` is standard output."""
    command = ["tar", "--create", f"--file={target}", f"--directory={root}", "--format=posix", "--sort=name"]
    return [*command, "--numeric-owner", "--xattrs", "--xattrs-include=*", _TIMES, "."]


def root_sha256(root: Path) -> str:
    """The digest of ``root`` as a tar, in hexadecimal digits; nothing is written. A second for each GiB.

    Raises:
        ImageError: something of it cannot be read.
    """
    digest = hashlib.sha256()
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(tar_command(root, "-"), stdout=subprocess.PIPE, stderr=said) as tar:
            assert tar.stdout is not None
            while chunk := tar.stdout.read(2**20):
                digest.update(chunk)
        if tar.returncode != 0:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise ImageError(f"{root} cannot be read to its end: {''.join(last) or f'tar: {tar.returncode}'}")
    return digest.hexdigest()
