"""Lacks of this machine for being an infrastructure, told all at once and before anything is made."""

from __future__ import annotations

import ipaddress
import os
import platform
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.birth import COMPILER, COMPILER_REMEDY, init_program, newborn
from tidepool.infrastructures.local.kernel.cgroup import hierarchies
from tidepool.infrastructures.local.kernel.cgroup_versions import lacking
from tidepool.infrastructures.local.kernel.confinement import unheld
from tidepool.infrastructures.local.kernel.errors import BootFailed, Lack, LocalError, TimedOut, explained
from tidepool.infrastructures.local.kernel.network import try_cabling
from tidepool.infrastructures.local.kernel.plan import encode, overlay_steps

#: Each with the Debian package that has it.
_COMMANDS: Final = {"ip": "iproute2", "nsenter": "util-linux"}
#: close_range(2) is the newest of what init calls.
_KERNEL: Final = (5, 9)
#: A machine and its controller know each other; with a few machines that it computes with, it is twice as many.
_NEIGHBOURS_PER_MACHINE: Final = 2
_NEIGHBOURS: Final = "net.ipv4.neigh.default.gc_thresh3"
_PIDS_PER_MACHINE: Final = 16
#: What a kubelet and its containerd watch files with, and some more for each pod.
_INOTIFY_PER_KUBELET: Final = 8
_INOTIFY: Final = "fs.inotify.max_user_instances"
_TRIAL_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Plans:
    """Plans of what shall be made here; what is left out is not looked at."""

    machines: int = 0
    memory_mib: int = 0
    cidrs: tuple[str, ...] = ()
    #: How many of the machines have one.
    kubelets: int = 0
    #: Those of control groups that slurmd confines jobs by.
    controllers: tuple[str, ...] = ()


def preflight(data: Path, plans: Plans = Plans()) -> tuple[Lack, ...]:
    """All that this machine lacks. Where it seems to have all, a machine's parts are tried, and taken away again.

    The data folder is made where it is not there.
    """
    groups = (Lack(*each) for each in lacking(tuple(hierarchies(Path("/proc/self/mountinfo").read_text()))))
    found = [*_user(), *_kernel(), *_commands(), *groups, *_jobs(plans), *_limits(plans), *_ranges(plans)]
    if not any(lack.fatal for lack in found):
        found.extend(_trial(data))
    return tuple(found)


def kubelets_at_most() -> int:
    """Return how many machines with a kubelet this machine has room for, by what they watch files with."""
    return (_setting(_INOTIFY) or 0) // _INOTIFY_PER_KUBELET


def _user() -> Iterator[Lack]:
    if os.geteuid() != 0:
        yield Lack("namespaces, mounts and control groups need root", "run it with sudo")


def _kernel() -> Iterator[Lack]:
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    if numbers and tuple(map(int, numbers.groups())) < _KERNEL:
        yield Lack(
            f"the kernel is {platform.release()}",
            f"boot Linux {_KERNEL[0]}.{_KERNEL[1]} or newer (Debian 11)",
        )
    if "\toverlay\n" not in Path("/proc/filesystems").read_text() and os.geteuid() == 0:
        yield Lack(
            "the kernel has no overlay file system loaded", "modprobe overlay (in a container: on its host)"
        )


def _commands() -> Iterator[Lack]:
    for command, package in _COMMANDS.items():
        if shutil.which(command) is None:
            yield Lack(f"the command {command} is not on PATH", f"apt-get install {package}")
    if shutil.which(COMPILER) is None:
        yield Lack(f"there is no C compiler ({COMPILER}) on PATH", COMPILER_REMEDY)


def _jobs(plans: Plans) -> Iterator[Lack]:
    for lack in unheld():
        if lack.controller in plans.controllers:
            told = f"{lack.remedy}; or write process_tracking: linuxproc, by which no job is held to anything"
            yield Lack(lack.what, told)


def _limits(plans: Plans) -> Iterator[Lack]:
    wanted = {
        # One table for all namespaces: past its end, machines do not find each other.
        _NEIGHBOURS: _NEIGHBOURS_PER_MACHINE * plans.machines,
        "kernel.pid_max": _PIDS_PER_MACHINE * plans.machines,
        "user.max_net_namespaces": plans.machines,
        "user.max_pid_namespaces": plans.machines,
        "user.max_mnt_namespaces": plans.machines,
        _INOTIFY: _INOTIFY_PER_KUBELET * plans.kubelets,
    }
    for name, least in wanted.items():
        is_now = _setting(name)
        if is_now is not None and is_now < least:
            whom = (
                f"{plans.kubelets} machines with a kubelet"
                if name == _INOTIFY
                else f"{plans.machines} machines"
            )
            yield Lack(f"{name} is {is_now}, too few for {whom}", f"sysctl -w {name}={least}")
        elif is_now is not None and name == _NEIGHBOURS and is_now < 2 * least:
            yield Lack(
                f"{name} is {is_now}, too few for jobs that span most of {plans.machines} machines",
                f"sysctl -w {name}={2 * least}",
                fatal=False,
            )
    memory = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if memory and plans.memory_mib > (has := int(memory[1]) >> 10):
        yield Lack(
            f"the machines may use {plans.memory_mib} MiB together, and this one has {has} MiB",
            "smaller or fewer machines, or hope that they do not use it all at once",
            fatal=False,
        )


def _setting(name: str) -> int | None:
    """A setting of the kernel's; None where it has no such."""
    path = Path("/proc/sys") / name.replace(".", "/")
    return int(path.read_text()) if path.exists() else None


def _ranges(plans: Plans) -> Iterator[Lack]:
    routes = tuple(_host_routes(Path("/proc/net/route").read_text()))
    for cidr in plans.cidrs:
        wanted = ipaddress.IPv4Network(cidr)
        for interface, network in routes:
            if network.prefixlen and wanted.overlaps(network):
                yield Lack(
                    f"the range {cidr} is in use: this machine reaches {network} through {interface}",
                    "give the network another range; its machines work in this one too, but a person will mix "
                    "them up with the real ones",
                    fatal=False,
                )


def host_networks() -> frozenset[ipaddress.IPv4Network]:
    """Return the networks that this machine reaches by routes of its own; the default is none of them."""
    found = _host_routes(Path("/proc/net/route").read_text())
    return frozenset(network for _, network in found if network.prefixlen)


def _host_routes(table: str) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    for line in table.splitlines()[1:]:
        interface, destination, _, _, _, _, _, mask, *_ = line.split()
        # Written as the number that the bytes are on this machine.
        address, netmask = (int.from_bytes(bytes.fromhex(text), "little") for text in (destination, mask))
        yield interface, ipaddress.IPv4Network((address, netmask.bit_count()))


def _trial(data: Path) -> Iterator[Lack]:
    """The real thing: namespaces, an overlay on the data folder's disk, a bridge and a cable."""
    try:
        with explained("trying it out"):
            data.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="preflight-", dir=data) as folder:
                yield from _try_in(init_program(data), data, Path(folder))
    except TimedOut as error:
        # What takes long says nothing of what there is.
        what = f"this machine was too busy to try what machines are made of ({error})"
        yield Lack(what, "`tidepool doctor` tries it again", fatal=False)
    except LocalError as error:
        yield Lack(str(error), "not in a container without --privileged; else see the kernel's log (dmesg)")


def _try_in(program: Path, data: Path, folder: Path) -> Iterator[Lack]:
    layers = [folder / name for name in ("lower", "upper", "work", "root")]
    for layer in layers:
        layer.mkdir()
    # Compiling was not part of it: on a busy machine that alone takes longer.
    deadline = time.monotonic() + _TRIAL_S
    with newborn(program, folder / "log", folder / "status", deadline) as first:
        try:
            try_cabling(first.lifeline)
        except TimedOut:
            raise
        except LocalError as error:
            yield Lack(f"no bridge and no veth can be made ({error})", "modprobe -a bridge veth")
        try:
            steps = (*overlay_steps(*map(str, layers)), ("root", str(layers[-1])))
            first.boot(encode(iter(steps)), deadline)
        except BootFailed as error:
            if error.code == "chroot":
                yield Lack(str(error), "leave the chroot; in a container with a root of its own it works")
            else:
                remedy = (
                    "put the data folder on a disk with ext4, xfs or btrfs, or on tmpfs; not on an overlay"
                )
                yield Lack(f"no overlay can be mounted on {data} ({error})", remedy)
        first.lifeline.signal(signal.SIGKILL)
        first.lifeline.wait_gone(_TRIAL_S)
