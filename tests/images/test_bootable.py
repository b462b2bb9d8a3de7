"""The image debian-12-vm as a disk: what is on it, and that it boots by UEFI up to a node's daemons."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import golden_image
from tests.patience import cpu_s_of, until_booted
from tidepool.images import (
    Image,
    ImageError,
    ImageStore,
    Machine,
    boots,
    export,
    read_source,
    refuse_forms,
)
from tidepool.images.disk import LOADERS, MIB, SECTOR, Layout
from tidepool.infrastructures.libvirt.domain import EMULATED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MACHINE = Machine(dict(os.environ))
SLURM_CONF = """\
ClusterName=test
SlurmctldHost=vm-1
SlurmUser=slurm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
NodeName=vm-1 CPUs=2
PartitionName=main Nodes=ALL Default=YES
"""
FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE.fd")


@pytest.fixture(scope="module")
def image() -> Image:
    if missing := [name for name in ("sfdisk", "mcopy") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed (fdisk, mtools)")
    return golden_image("debian-12-vm")


@pytest.fixture(scope="module")
def disk(image: Image) -> Path:
    return export(image, "disk", ImageStore(image.folder.parent), MACHINE).path


def test_an_image_without_a_kernel_is_refused_before_it_is_built() -> None:
    source = read_source(
        ROOT / "images/debian-12", ROOT / "playbooks", architecture="amd64", environment=MACHINE.environment
    )
    with pytest.raises(
        ImageError, match=r"debian-12 does not boot by itself, as its recipe has no role boot"
    ):
        refuse_forms(source, ["tar", "disk"])


def test_an_image_without_a_kernel_is_refused_as_a_disk() -> None:
    image = golden_image()
    assert not boots(image)
    with pytest.raises(
        ImageError, match=r"has no /usr/lib/tidepool/boot/boot.img, .* no /initrd.img\. Take an"
    ):
        export(image, "disk", ImageStore(image.folder.parent), MACHINE)


def test_loaders_kernel_and_initrd_are_where_firmware_and_grub_look(
    image: Image, disk: Path, tmp_path: Path
) -> None:
    assert boots(image)
    loaders = image.root / LOADERS
    layout = Layout.around(image.size_mib * MIB)
    assert disk.stat().st_size == layout.size
    with disk.open("rb") as file:
        first = file.read(SECTOR)
        assert first[:0x5C] == (loaders / "boot.img").read_bytes()[:0x5C]
        assert first[510:] == b"\x55\xaa"
        file.seek(layout.bios.begin + SECTOR)
        core = (loaders / "core.img").read_bytes()
        assert file.read(len(core) - SECTOR) == core[SECTOR:]
    efi = tmp_path / "loader"
    command = ["mcopy", "-i", f"{disk}@@{layout.efi.begin}", "::/EFI/BOOT/BOOTX64.EFI", str(efi)]
    subprocess.run(command, check=True)
    assert efi.read_bytes() == (loaders / "bootx64.efi").read_bytes()
    root = tmp_path / "root"
    begin = layout.root.begin // MIB
    subprocess.run(
        [
            "dd",
            f"if={disk}",
            f"of={root}",
            "bs=1M",
            f"skip={begin}",
            f"count={image.size_mib}",
            "conv=sparse",
            "status=none",
        ],
        check=True,
    )
    subprocess.run(["e2fsck", "-fn", root], check=True, capture_output=True)
    told = subprocess.run(
        ["debugfs", "-R", "ls -p /boot", root], check=True, capture_output=True, text=True
    ).stdout
    assert "/vmlinuz-" in told
    assert "/initrd.img-" in told


def test_the_initrd_is_no_larger_than_a_virtual_machine_needs(image: Image) -> None:
    """Firmware reads it and the kernel unpacks it, at each boot: one for any hardware would be 13 MB."""
    (initrd,) = (image.root / "boot").glob("initrd.img-*")
    assert initrd.stat().st_size < 6 * MIB


def test_the_same_image_is_the_same_disk_in_another_place(image: Image, disk: Path, tmp_path: Path) -> None:
    """Its ext4 is compared where images are built; here it is what is put around it."""
    (tmp_path / "root").symlink_to(image.root)
    for name in ("image.ext4", "image.ext4.sha256"):
        (tmp_path / name).symlink_to(image.folder / name)
    mine = export(image, "disk", ImageStore(image.folder.parent), MACHINE)
    theirs = export(replace(image, folder=tmp_path), "disk", ImageStore(tmp_path / "store"), MACHINE)
    assert theirs.path != mine.path
    assert theirs.sha256 == mine.sha256


@pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None, reason="qemu-system-x86_64 is not installed (qemu-system-x86)"
)
def test_by_uefi_it_boots_up_to_a_node_that_runs_a_job(image: Image, disk: Path, tmp_path: Path) -> None:
    """By BIOS it boots in tests/whole/test_libvirt_stack.py."""
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-img is not installed (qemu-utils)")
    if not FIRMWARE.exists():
        pytest.skip("there is no UEFI for virtual machines (ovmf)")
    machine = Guest(tmp_path, export(image, "disk.qcow2", ImageStore(image.folder.parent), MACHINE).path)
    with machine.running():
        machine.wait()
        # What the seed says; keys and an identity of its own; a root as large as the disk; nothing that failed.
        assert machine.run("hostname") == "vm-1"
        assert machine.run("cat /etc/machine-id") != ""
        assert machine.run("systemctl --failed --quiet --no-legend") == ""
        assert int(machine.run("df --output=size -m / | tail -1")) > 5000
        assert machine.run("cat /sys/firmware/efi/fw_platform_size") == "64"
        # The emulator does not translate libraries anew for each process.
        assert machine.run("cat /proc/sys/kernel/randomize_va_space") == "0"
        assert "tsc=reliable" in machine.run("cat /proc/cmdline").split()
        assert machine.run("systemctl is-active munge slurmd slurmctld slurmdbd || true").split() == [
            "active",
            "active",
            "active",
            "inactive",
        ]
        assert machine.run("timeout 120 srun --immediate=100 hostname") == "vm-1"


class Guest:
    """A virtual machine of this disk, with a seed, in software: on the loopback alone, and gone with the test."""

    def __init__(self, folder: Path, disk: Path) -> None:
        self._folder, self._disk = folder, disk
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self._key = folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._key], check=True)
        self._seed()

    def _seed(self) -> None:
        files = {
            "etc/hostname": ("vm-1\n", 0o644),
            "etc/hosts": ("127.0.0.1 localhost\n127.0.1.1 vm-1\n", 0o644),
            "etc/ssh/authorized_keys.d/root": (self._key.with_suffix(".pub").read_text(), 0o644),
            "etc/munge/munge.key": ("a key for a test" * 64, 0o600),
            "etc/slurm/slurm.conf": (SLURM_CONF, 0o644),
            "etc/slurm/cgroup.conf": ("CgroupPlugin=cgroup/v1\n", 0o644),
            "etc/tidepool/services/slurmd": ("", 0o644),
            "etc/tidepool/services/slurmctld": ("", 0o644),
        }
        with tarfile.open(self._folder / "seed.tar", "w") as tar:
            for name, (text, mode) in files.items():
                place = self._folder / "file"
                place.write_text(text)
                entry = tar.gettarinfo(place, name)
                entry.mode = mode
                entry.uid = entry.gid = 980 if "munge" in name else 0
                with place.open("rb") as content:
                    tar.addfile(entry, content)

    @contextmanager
    def running(self) -> Iterator[None]:
        over = self._folder / "over.qcow2"
        command = [
            "qemu-img",
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            "qcow2",
            "-b",
            str(self._disk),
            str(over),
            "6G",
        ]
        subprocess.run(command, check=True)
        command = [
            "qemu-system-x86_64",
            "-machine",
            "q35,accel=tcg",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-m",
            "1024",
        ]
        command += ["-smbios", f"type=1,family={EMULATED}"]
        command += ["-display", "none", "-serial", f"file:{self._folder / 'serial.log'}", "-monitor", "none"]
        command += ["-drive", f"file={over},if=none,id=root,cache=unsafe"]
        command += ["-device", "virtio-blk-pci,drive=root,bootindex=1"]
        command += ["-drive", f"file={self._folder / 'seed.tar'},if=none,id=seed,format=raw,readonly=on"]
        command += ["-device", "virtio-blk-pci,drive=seed,serial=tidepool-seed"]
        command += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22"]
        command += ["-device", "virtio-net-pci,netdev=net,romfile="]
        command += ["-drive", f"file={FIRMWARE},if=pflash,format=raw,readonly=on"]
        with (
            (self._folder / "qemu.log").open("wb") as log,
            subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            ) as self._process,
        ):
            try:
                yield
            finally:
                self._process.kill()

    def wait(self) -> None:
        until_booted(self._is_up, lambda: cpu_s_of(self._process.pid), self._told)

    def _is_up(self) -> bool:
        assert self._process.poll() is None, self._told()
        # Slurm's daemons come up after sshd does.
        done = self._ssh(
            "systemctl is-active slurmd slurmctld && sinfo --noheader --format=%T | grep -qx idle"
        )
        return done.returncode == 0

    def _told(self) -> str:
        """By QEMU, and by what runs in it: its console is there once QEMU has come so far."""
        logs = (self._folder / name for name in ("qemu.log", "serial.log"))
        return "\n".join(log.read_text(errors="replace")[-2000:] for log in logs if log.exists())

    def run(self, command: str) -> str:
        done = self._ssh(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def _ssh(self, command: str) -> subprocess.CompletedProcess[str]:
        options = {"BatchMode": "yes", "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null"}
        options |= {"LogLevel": "ERROR", "ConnectTimeout": "20", "IdentitiesOnly": "yes"}
        words = [f"-o{key}={value}" for key, value in options.items()]
        return subprocess.run(
            ["ssh", *words, f"-oIdentityFile={self._key}", "-p", str(self._port), "root@127.0.0.1", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
