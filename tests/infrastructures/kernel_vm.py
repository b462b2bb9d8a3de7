"""Machines that boot by themselves, as machines of this kernel: systemd of their image is the first process.

VMs of clouds are told what they are by their image's cloud-init. What is left out is firmware, a kernel of their own, and disks.
Such a machine is there within seconds, and costs no emulator.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from tidepool.cluster.boot import File, Mount, Service
from tidepool.infrastructures.local.kernel import MachineSpec
from tidepool.infrastructures.local.kernel.plan import KUBELET_WANTS

_SEED: Final = "/var/lib/cloud/seed/nocloud"
_MOUNT: Final = """\
#!/bin/sh
# Exports of NFS are folders of the machine that runs the tests. All else is mounted as ever.
set -eu
for word in "$@"; do before_last=${last:-} last=$word; done
case ${before_last:-} in
    *:/*) exec /usr/bin/mount --bind "/srv/nfs/${before_last##*/}" "$last" ;;
    *) exec /usr/bin/mount "$@" ;;
esac
"""
#: The address is there already; networkd is to know that nothing more comes.
_NETWORK: Final = """\
[Match]
Name=eth0
[Network]
Address={address}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""
_CLOUD_INIT: Final = "datasource_list: [NoCloud]\nnetwork: {config: disabled}\n"
#: It is a link to what machines of this kernel are told of each other.
_HOSTS: Final = "test ! -L /etc/hosts || { rm /etc/hosts; echo '127.0.0.1 localhost' >/etc/hosts; }\n"
_SYSTEMD: Final = """\
# For a kubelet, which reads it.
ln -sf null /dev/kmsg
mkdir -p /run/host/sys /run/host/net; touch /run/host/hostname; /bin/mount --rbind /proc/sys /run/host/sys
exec unshare --pid --mount --fork --kill-child --mount-proc /bin/sh -ec '
    # A VM has settings of its own. Here they are the host'"'"'s: only its name and those of its network may change, and a kubelet
    # finds what it wants.
    /bin/mount --bind /proc/sys/net /run/host/net
    /bin/mount --bind /proc/sys/kernel/hostname /run/host/hostname
    /bin/mount --rbind /run/host/sys /proc/sys
    /bin/mount --bind /run/host/net /proc/sys/net
    /bin/mount --bind /run/host/hostname /proc/sys/kernel/hostname
    for setting; do
        file=/run/host/$(basename "${setting%=*}")
        echo "${setting#*=}" >"$file"
        /bin/mount --bind "$file" "/proc/sys/${setting%=*}"
    done
    exec env --ignore-environment container=tidepool /lib/systemd/systemd' systemd \
    """ + " ".join(f"{name}={value}" for name, value in KUBELET_WANTS.items())
#: Roots of containers are overlays, and the machine's own is one already; a VM's disk is none.
DISK: Final = "mkdir -p /var/lib/containerd; mount -t tmpfs tmpfs /var/lib/containerd\n"
#: Mounts, devices, other users' processes: what a VM's own kernel would let its root do.
_CAPABILITIES: Final = ("sys_admin", "sys_ptrace", "mknod", "sys_boot")


def with_exports(spec: MachineSpec, folder: Path) -> MachineSpec:
    """Return the machine as one to which exports of NFS are folders in ``folder``."""
    return replace(
        spec,
        files=(*spec.files, File("/usr/local/sbin/mount", _MOUNT, "0755")),
        mounts=(*spec.mounts, Mount(str(folder), "/srv/nfs", read_only=False)),
    )


def with_systemd(spec: MachineSpec, before: str = "") -> MachineSpec:
    """Return the machine as one that its image's systemd starts. ``before`` are lines of shell that run before that does."""
    run = ("/bin/sh", "-ec", _HOSTS + before + _SYSTEMD)
    # One that is stopped loses its power.
    service = Service("systemd", run, ready_timeout_s=0, stop_timeout_s=0.1)
    return replace(spec, services=(service,), capabilities=_CAPABILITIES)


def as_vm(spec: MachineSpec, cidr: str, user_data: str, before: str = "") -> MachineSpec:
    """Return the machine as a VM of the network ``cidr`` that its cloud tells ``user_data``. ``before`` is as of `with_systemd`."""
    address = f"{spec.address}/{IPv4Network(cidr).prefixlen}"
    return replace(
        with_systemd(spec, before + DISK),
        files=(
            *spec.files,
            File("/etc/cloud/cloud.cfg.d/99-tests.cfg", _CLOUD_INIT),
            File("/etc/systemd/network/05-tests.network", _NETWORK.format(address=address)),
            File(f"{_SEED}/user-data", user_data, "0600"),
            File(f"{_SEED}/meta-data", f"instance-id: {spec.name}\n"),
        ),
    )
