"""Paths on a host, and what of it playbooks may change."""

from __future__ import annotations

import os

ROOT = os.environ.get("TIDEPOOL_KEEPER_ROOT", "")  # of tests
PLACE = ROOT + "/var/lib/tidepool-node"
#: In /run, which is nobody's to restore: a lock that is taken away is none.
LOCK = ROOT + "/run/tidepool-node.lock"
#: What playbooks never change: the kernel's, packages' own (dpkg takes them away), caches, and what is written all the time.
LEAVE_OUT = {
    "/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/usr", "/boot", "/lost+found", "/var/lib/dpkg", "/var/lib/apt",
    "/var/cache", "/var/lib/tidepool-node", "/var/lib/docker", "/var/lib/containerd", "/var/log/journal", "/var/log/apt",
    "/run/tidepool-node.lock", "/run/lock", "/run/user", "/run/sudo",
}  # fmt: skip
ALSO = ("/usr/local",)
#: Of what people write themselves, only who has a folder.
SHALLOW = {"/home", "/srv", "/mnt", "/media", "/data", "/scratch", "/run", "/root", "/opt"}
#: Whose bytes are kept.
SAVED = ("/etc", "/usr/local")
#: Lines of their own, to which others may have been added meanwhile.
BY_LINES = {
    "/etc/" + name for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid", "hosts", "fstab")
}
#: Made anew by whoever needs them.
REMADE = {"/etc/ld.so.cache"}
DAEMONS = ("munged", "slurmd", "slurmctld", "slurmdbd", "kubelet")
#: File systems of a host's own disks. What is on others is somebody's whom other hosts know as well.
OWN_DISKS = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
