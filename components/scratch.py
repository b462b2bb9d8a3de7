"""Scratch on machines, and the service on controllers that counts homes and wipes it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Final

from pulumi import Input

from tidepool.cluster.boot import Folder, Service
from tidepool.cluster.files import FILES_FOLDER, FILES_PROGRAM
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.users import UserList
from tidepool.infrastructures.contract import Boot, File, Mount

SCRATCH: Final = "scratch"


def scratch_mounts(spec: ClusterSpec, volume: Callable[[str], Input[str]]) -> tuple[Mount, ...]:
    """Return where machines have scratch, of a ``volume`` that is asked for by its name; nothing where there is none."""
    if spec.scratch is None:
        return ()
    return (Mount(volume(SCRATCH), spec.scratch.path, read_only=False),)


def files_boot() -> Boot:
    """Run the service that counts homes and wipes scratch. Its policy comes while the machine runs, and changes then."""
    program = files("tidepool").joinpath("clients/files/files_service.py").read_text(encoding="utf-8")
    serve = ("/usr/bin/python3", "-I", "-S", FILES_PROGRAM, "serve")
    return Boot(
        services=(Service("files", serve),),
        files=(File(FILES_PROGRAM, program),),
        folders=(Folder(FILES_FOLDER, "0700"),),
    )


def has_files(spec: ClusterSpec, users: UserList) -> bool:
    """Return whether anything is said of users' files."""
    has_quotas = spec.home.quota_mib is not None or any(each.quota_mib is not None for each in users.users)
    return has_quotas or spec.scratch is not None
