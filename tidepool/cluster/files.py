"""Files of people in a spec: quotas of /home, and a scratch that is wiped by age."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from tidepool.cluster.part import ImageName, Part, Whole
from tidepool.cluster.shape import Quota, Shape
from tidepool.cluster.spec_entries import Mistake, part

HOME: Final = "/home"
MIB: Final = 1 << 20

#: On controllers: the program that counts homes and wipes scratch (`tidepool.clients.files.files_service`), and its folder, which is on
#: the volume of slurmctld's state, so that whoever is in charge has it.
FILES_PROGRAM: Final = "/usr/local/lib/tidepool/files.py"
FILES_FOLDER: Final = "/var/spool/slurmctld/files"

#: Folders of a machine itself: scratch is mounted over none of them, and in none.
_SYSTEM: Final = (
    *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var"),
)  # fmt: skip


def _folder(path: str) -> str:
    root, *parts = path.split("/")
    if root or not parts or not all(part.strip(".") for part in parts):
        raise ValueError(f"write a path from the root, such as /scratch, and not {path!r}")
    if parts[0] in _SYSTEM:
        raise ValueError(f"/{parts[0]} is the machine's own; take another, such as /scratch")
    if not all(character.isalnum() or character in "/._-" for character in path):
        raise ValueError("letters, digits, '.', '_', '-' and '/' can be in it")
    return path


class HomeFolders(Part):
    """The quota of /home."""

    quota_mib: Quota | None = Field(
        default=None,
        validation_alias="quota",
        description="What each user may use of /home who has no `quota` of their own, in MiB or with a unit: `50GiB`; by default all. All counts that is in their "
        "folder. It is enforced where the file system has quotas of projects, and watched elsewhere.",
    )


class Scratch(Part):
    """A folder on all machines, in which each person has one of their own, and from which goes what nobody uses."""

    path: Annotated[str, AfterValidator(_folder)] = Field(
        default="/scratch", description="Where machines have it. A person's is in it, under their name."
    )
    wipe_after_days: Whole = Field(
        default=30,
        ge=1,
        le=36_500,
        description="After so many days in which nobody reads, writes or changes a file, it goes.",
    )
    warn_days: Whole = Field(
        default=7,
        ge=0,
        le=3_650,
        description="So many days before, people are told which of their files go; and so long nothing goes by a rule that is new.",
    )


class FileServer(Part):
    """A machine `nfs` that serves /home and scratch to the cluster's network, and to nobody else."""

    shape: Shape = Field(default=Shape(cpus=2, memory_mib=2048), description="What its machine has.")
    image: ImageName | None = Field(
        default=None,
        description="Its image, which has nfs-ganesha; by default the controller's with `-nfs` behind its name.",
    )


#: Infrastructures whose machines can be one.
SERVING: Final = ("local", "libvirt", "cloudstack")


def file_mistakes(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Days that leave no time, and a file server where none can be, as a check of `spec_checks`."""
    scratch = part(spec, "scratch")
    after, warn = scratch.get("wipe_after_days", 30), scratch.get("warn_days", 7)
    if isinstance(after, int) and isinstance(warn, int) and warn >= after:
        yield Mistake(
            "scratch.warn_days" if "warn_days" in scratch else "scratch.wipe_after_days",
            warn if "warn_days" in scratch else after,
            f"files go after {after} days, and people are told {warn} days before: lower warn_days, or raise wipe_after_days",
        )
    own = part(spec, "controller").get("infrastructure")
    name = own.get("name") if isinstance(own, Mapping) else own or "local"
    if spec.get("file_server") is not None and isinstance(name, str) and name not in SERVING:
        yield Mistake(
            "file_server",
            None,
            f"machines of {name} are none; it can be one of {' or '.join(SERVING)}. Leave it out, and name where /home is in the "
            f"options of {name}",
        )
