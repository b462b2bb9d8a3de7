"""Slurm's files on a host, over whichever transport leads there.

All of them go in one archive and are put in their place by renames, slurm.conf last: slurmctld's service begins
when that is there.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Collection, Mapping
from typing import Final

from tidepool.clients.slurm import Completed, Transport
from tidepool.resources.errors import Refusal

FOLDER: Final = "/etc/slurm"
_LAST: Final = "slurm.conf"
_NEW: Final = ".new"
_TIMEOUT_S: Final = 20.0


def read_files(host: Transport, names: Collection[str]) -> dict[str, str]:
    """The texts of those of ``names`` that are there.

    Raises:
        SlurmError: the host cannot be reached.
    """
    # One that is missing is only warned of.
    argv = ["tar", "--create", f"--directory={FOLDER}", "--ignore-failed-read", "--", *sorted(names)]
    answer = host.run(argv, timeout_s=_TIMEOUT_S).stdout.encode()
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(answer)) as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    found[member.name] = content.read().decode("utf-8", errors="replace")
    except tarfile.TarError:
        return {}  # a folder that is not there, or bytes that are no text: not what was written
    return found


def write_files(host: Transport, files: Mapping[str, str], *, gone: Collection[str] = ()) -> None:
    """Put ``files`` in their place, and take away those that are ``gone``.

    Raises:
        SlurmError: the host cannot be reached.
        Refusal: they cannot be written there.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(f"{_NEW}/{name}")
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    argv = ["tar", "--extract", f"--directory={FOLDER}"]
    _judge(host, host.run(argv, stdin=packed.getvalue().decode(), timeout_s=_TIMEOUT_S))
    ordered = sorted(files, key=lambda name: (name == _LAST, name))
    sources = [f"{FOLDER}/{_NEW}/{name}" for name in ordered]
    argv = ["mv", "--force", f"--target-directory={FOLDER}", "--", *sources]
    _judge(host, host.run(argv, timeout_s=_TIMEOUT_S))
    if gone:
        argv = ["rm", "--force", "--", *(f"{FOLDER}/{name}" for name in sorted(gone))]
        _judge(host, host.run(argv, timeout_s=_TIMEOUT_S))


def _judge(host: Transport, completed: Completed) -> None:
    if completed.exit_code:
        raise Refusal(f"Slurm's files cannot be written {host.where}: {completed.stderr.strip()}")
