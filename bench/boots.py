"""Measure a boot of an image as a node on libvirt, by phase, emulated. Neither KVM, libvirt nor a controller is needed; root is.

QEMU is started as libvirt starts a node of `virtualization: qemu`: the same processor, devices and seed. What the
seed says is a node's: munged, slurmd, sshd; slurmd reads a slurm.conf of its own and has no controller to register with.
After them the machine tells its times on the console, by the command that the scaler asks with.

    python bench/boots.py [--image debian-12-vm] [--rounds 3] [--blame] [--suspend]

*processor* is what QEMU took of this machine's from its start until sshd ran, and *clock* how long that was.
"""

from __future__ import annotations

import argparse
import base64
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.local import scratch  # noqa: E402
from tests.golden import golden_image  # noqa: E402
from tests.patience import cpu_s_of  # noqa: E402
from tidepool.cluster import addresses  # noqa: E402
from tidepool.cluster.boot import Service  # noqa: E402
from tidepool.cluster.shape import Shape  # noqa: E402
from tidepool.components.boots import Keys, node_boot  # noqa: E402
from tidepool.images import ImageStore, Machine, export  # noqa: E402
from tidepool.infrastructures.boot_times import ASK, BOOT_PHASES, BootPhase, read_boot  # noqa: E402
from tidepool.infrastructures.cloud_init import Surroundings, written  # noqa: E402
from tidepool.infrastructures.contract import File  # noqa: E402
from tidepool.infrastructures.libvirt.domain import DEAR_FEATURES, EMULATED, TRANSLATED_MIB  # noqa: E402

ADDRESS: Final = IPv4Address("10.0.2.15")
_SLURM_CONF: Final = """\
ClusterName=bench
SlurmctldHost=ctl
SlurmUser=slurm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdSpoolDir=/var/spool/slurmd
SlurmdPidFile=/run/slurmd.pid
NodeName=vm-1 CPUs=1
PartitionName=main Nodes=ALL Default=YES
"""
_UP, _END, _BEAT = "bench: up", "bench: end", "bench: goes on"
_SLOWEST_S: Final = 1200.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One boot, in seconds. ``text`` is all that the machine told."""

    phases: dict[BootPhase, float]
    processor_s: float
    clock_s: float
    text: str


def seed(folder: Path, blame: bool) -> Path:
    """Write the seed of a node that tells its times, as a CD."""
    tell = f"{{ echo; echo '{_UP}'; {{ {ASK} }} 2>&1;"
    if blame:
        moments = "InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic"
        tell += f" systemctl show '*' --property=Id,{moments}; ps -eo cputimes,etimes,comm --sort=-cputimes; dmesg;"
    tell += f" echo '{_END}'; }} >/dev/ttyS0; (while sleep 1; do echo '{_BEAT}'; done >/dev/ttyS0) &"
    keys = Keys(munge=base64.b64encode(b"a key of a bench" * 64).decode(), ssh="ssh-ed25519 AAAA bench")
    boot = node_boot(keys, home="", controllers=["ctl"], shape=Shape(cpus=1, memory_mib=512))
    services = tuple(
        replace(each, argv=("/usr/sbin/slurmd", "-D", "-b")) if each.name == "slurmd" else each
        for each in boot.services
    )
    boot = replace(
        boot,
        services=(*services, Service("bench", ("/bin/bash", "-c", tell), once=True)),
        files=(*boot.files, File("/etc/slurm/slurm.conf", _SLURM_CONF)),
        mounts=(),
    )
    around = Surroundings({"ctl": IPv4Address("10.0.2.2"), "vm-1": ADDRESS}, prefix=24, beside=True)
    told = written(boot, around, [str(file.content) for file in boot.files], [])
    (folder / "seed").mkdir()
    (folder / "seed/user-data").write_text(told.user_data)
    (folder / "seed/meta-data").write_text(told.meta_data)
    (folder / "seed/network-config").write_text(told.network_config)
    made = folder / "seed.iso"
    command = ["genisoimage", "-quiet", "-output", str(made), "-volid", "cidata", "-joliet", "-rock", "."]
    subprocess.run(command, check=True, cwd=folder / "seed")
    return made


def qemu(folder: Path, disk: Path, seed_iso: Path) -> Sequence[str]:
    """Return the command of a node on a new overlay of ``disk``."""
    over = folder / "over.qcow2"
    over.unlink(missing_ok=True)
    base = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(disk), str(over), "6G"]
    subprocess.run(base, check=True)
    without = ",".join(f"{name}=off" for name in DEAR_FEATURES)
    devices = [
        f"virtio-net-pci,netdev=net,mac={addresses.mac(ADDRESS)},romfile=",
        "virtio-scsi-pci,id=scsi",
        "virtio-blk-pci,drive=root,bootindex=1",
        "virtio-rng-pci",
    ]
    command = [
        "qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none",
        "-machine", "pc-q35-7.2", "-accel", f"tcg,tb-size={TRANSLATED_MIB}", "-cpu", f"max,{without}",
        "-smp", "1", "-m", "768", "-boot", "strict=on", "-smbios", f"type=1,serial=ds=nocloud;h=vm-1,family={EMULATED}",
        "-serial", f"file:{folder / 'serial.log'}", "-monitor", f"unix:{folder / 'monitor'},server=on,wait=off",
        "-drive", f"file={over},if=none,id=root,format=qcow2",
        "-drive", f"file={seed_iso},if=none,id=seed,format=raw,readonly=on",
        "-netdev", "user,id=net,restrict=on",
    ]  # fmt: skip
    # Two more than there are devices: so libvirt has it.
    for number in range(len(devices) + 2):
        at = f"addr=0x{1 + number // 8:x}.0x{number % 8:x},multifunction=on"
        command += ["-device", f"pcie-root-port,id=port{number},chassis={number + 1},{at}"]
    for number, device in enumerate(devices):
        command += ["-device", f"{device},bus=port{number}"]
    return [*command, "-device", "scsi-cd,bus=scsi.0,drive=seed"]


def save(folder: Path, saved: Path) -> None:
    """Have a machine's memory and devices written to a file, as libvirt's managed save does."""
    began = time.monotonic()
    order(folder, f'migrate "exec:cat >{saved}"')
    print(f"saved in {time.monotonic() - began:.1f} s: {saved.stat().st_size / 2**20:.0f} MiB", flush=True)


def order(folder: Path, command: str) -> None:
    """Have QEMU carry out a command of its monitor."""
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.connect(str(folder / "monitor"))
        monitor.settimeout(_SLOWEST_S)
        monitor.sendall(f"{command}\ninfo status\n".encode())
        while b"VM status" not in monitor.recv(1 << 16):
            pass


def resume(folder: Path, command: Sequence[str], saved: Path) -> None:
    """Start a machine that was saved, and tell how long it is until it goes on."""
    console = folder / "serial.log"
    console.unlink()
    began = time.monotonic()
    with running([*command, "-incoming", f"exec:cat {saved}"]) as process:
        while _BEAT not in (console.read_text(errors="replace") if console.exists() else ""):
            assert process.poll() is None
            assert time.monotonic() - began < _SLOWEST_S
            time.sleep(0.02)
        took = f"processor {cpu_s_of(process.pid):.1f} s, clock {time.monotonic() - began:.1f} s"
    print(f"goes on after {took}", flush=True)


def boot(folder: Path, command: Sequence[str], saved: Path | None) -> Measured:
    """Boot it once, until it has told its times; then have it saved, where that is asked for."""
    console = folder / "serial.log"
    console.unlink(missing_ok=True)
    began = time.monotonic()
    with running(command) as process:
        up: tuple[float, float] | None = None
        while _END not in (text := console.read_text(errors="replace") if console.exists() else ""):
            if up is None and _UP in text:
                up = cpu_s_of(process.pid), time.monotonic() - began
            if process.poll() is not None or time.monotonic() - began > _SLOWEST_S:
                raise SystemExit(f"it does not boot:\n{text[-3000:]}")
            time.sleep(0.1)
        if up is None:
            up = cpu_s_of(process.pid), time.monotonic() - began
        if saved is not None:
            save(folder, saved)
    told = text.partition(_UP)[2].replace("\r", "")
    ages = read_boot(told).ages
    known = [phase for phase in BOOT_PHASES if phase in ages]
    ends = [*(ages[phase] for phase in known[1:]), 0.0]
    phases = {phase: ages[phase] - end for phase, end in zip(known, ends, strict=True)}
    return Measured(phases, *up, told)


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run QEMU; it ends with the block, or with this process."""
    with subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def main() -> None:
    """Boot it so many times, and print the median of each time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--image", default="debian-12-vm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--blame", action="store_true", help="have it tell of all units, processes and the kernel, too"
    )
    parser.add_argument("--suspend", action="store_true", help="save it then, and start it again from that")
    options = parser.parse_args()
    image = golden_image(options.image)
    disk = export(image, "disk.qcow2", ImageStore(image.folder.parent), Machine(dict(os.environ))).path
    with scratch() as folder:
        seed_iso = seed(folder, options.blame)
        found = []
        for _ in range(options.rounds):
            command = qemu(folder, disk, seed_iso)
            saved = folder / "saved" if options.suspend else None
            each = boot(folder, command, saved)
            if saved is not None:
                resume(folder, command, saved)
            found.append(each)
            phases = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in each.phases.items())
            print(f"processor {each.processor_s:.1f} s, clock {each.clock_s:.1f} s: {phases}", flush=True)
            if options.blame:
                print(each.text)
    print("| | " + " | ".join(found[0].phases) + " | processor | clock |")
    middle = [median(each.phases[phase] for each in found) for phase in found[0].phases]
    middle += [median(each.processor_s for each in found), median(each.clock_s for each in found)]
    print(f"| {options.image} | " + " | ".join(f"{seconds:.1f}" for seconds in middle) + " |")


if __name__ == "__main__":
    main()
