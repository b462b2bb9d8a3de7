"""Mounts of volumes on a machine of EC2: lines of shell, by what a volume is at AWS."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

#: As AWS recommends for EFS.
_EFS: Final = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport"


def mounting(source: str, target: str, mode: str) -> Sequence[str]:
    """Return the lines that mount a volume: an id (EBS), ``NAME@tcp:/NAME`` (Lustre), or ``SERVER:/PATH`` (EFS, NFS); ``mode`` is `ro` or `rw`.

    An EBS volume that has no file system is given one: it is new. One whose content is not understood is left as it is.
    """
    at = shlex.quote(target)
    if source.startswith("vol-"):
        device = f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{source.replace('-', '')}"
        return [
            f"until test -b {device}; do sleep 1; done",
            f"blkid -p {device} >/dev/null 2>&1 || test $? -ne 2 || mkfs.ext4 -q {device}",
            f"mountpoint -q {at} || mount -o {mode} {device} {at}",
        ]
    if "@tcp:/" in source:
        command = f"mount -t lustre -o {mode},flock,noatime {shlex.quote(source)} {at}"
    elif ".efs." in source:
        command = f"mount -t nfs4 -o {mode},{_EFS} {shlex.quote(source)} {at}"
    else:
        command = f"mount -t nfs -o {mode},hard {shlex.quote(source)} {at}"
    return [f"mountpoint -q {at} || until {command}; do sleep 2; done"]
