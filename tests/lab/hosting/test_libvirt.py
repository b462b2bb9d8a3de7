"""VMs as a laboratory has them by way of their host: which processors, images and processes are theirs, and what is refused."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.whole.pools import POOL, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.hosting.libvirt import LibvirtHosting, hosting_of
from tidepool.lab.hosting.local import LocalHosting

HERE = "qemu:///system"
CELLS = [{"node": 0, "cpus": "2-5"}]
DOMAIN = """\
<domain>
  <cputune><vcpupin vcpu="0" cpuset="2"/><vcpupin vcpu="1" cpuset="3"/><emulatorpin cpuset="0"/></cputune>
  <devices>
    <disk device="disk">
      <source pool="tidepool-lab" volume="shared-1.qcow2"/>
      <backingStore type="file"><source file="/pool/debian-12-vm-0123456789abcdef.qcow2"/></backingStore>
    </disk>
  </devices>
</domain>
"""


@dataclass
class Domains:
    """A `virsh` that knows the domain of each machine, and keeps what it was told."""

    told: list[tuple[str, ...]] = field(default_factory=list)
    refuses: str = ""

    def __call__(self, uri: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        assert uri == HERE
        self.told.append(words)
        output = DOMAIN if words[0] == "dumpxml" else ""
        return subprocess.CompletedProcess([*words], int(bool(self.refuses)), output, self.refuses)


def cluster(offering: dict[str, Any], **place: Any) -> ClusterSpec:
    """One of this machine, whose pool is libvirt's."""
    told = spec(2)
    told["pools"][0]["infrastructure"] = {"name": "libvirt", "options": offering}
    volumes = {"home": "10.78.255.254:/home"}
    return ClusterSpec.model_validate(
        {
            "name": "lab",
            "network": "10.78.0.0/16",
            "partitions": [{"name": "main"}],
            **told,
            "infrastructures": {"libvirt": {"volumes": volumes, "bridge": "switch", **place}},
        }
    )


def hosting(tmp_path: Path, offering: dict[str, Any] | None = None, **place: Any) -> LibvirtHosting:
    read = cluster(offering or {}, **place)
    return hosting_of(read, read.pools[0], LocalHosting(tmp_path, "lab"))


def test_vms_that_are_not_pinned_are_said_to_be_unbound(tmp_path: Path) -> None:
    assert "write `cells`" in hosting(tmp_path).unbound
    assert "`pinning: none`" in hosting(tmp_path).unbound
    assert hosting(tmp_path, {"cells": CELLS}).unbound == ""


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ({"alpha": "qemu+ssh://root@alpha/system"}, r"on qemu\+ssh://root@alpha/system"),
        ({"here": HERE, "other": "qemu:///session"}, "of several libvirts"),
    ],
)
def test_vms_of_other_hosts_or_of_several_are_refused(
    tmp_path: Path, hosts: dict[str, str], said: str
) -> None:
    with pytest.raises(LabError, match=f"pool {POOL} has VMs {said}.*a laboratory measures on this host"):
        hosting(tmp_path, hosts=hosts)


def test_a_domain_tells_its_processors_and_its_image(tmp_path: Path) -> None:
    its = replace(hosting(tmp_path, {"cells": CELLS}), virsh=Domains())
    assert its.bind("shared-1") == (2, 3)
    assert its.images() == {"shared-1": "0123456789abcdef", "shared-2": "0123456789abcdef"}


def test_a_vm_dies_and_starts_by_its_domain(tmp_path: Path) -> None:
    domains = Domains()
    its = replace(hosting(tmp_path), virsh=domains)
    its.kill("shared-2")
    assert domains.told == [("destroy", "lab-shared-2")]
    with pytest.raises(SchedulerFailed, match="no such domain"):
        replace(its, virsh=Domains(refuses="no such domain")).kill("shared-2")


def test_the_time_of_its_emulators_only_grows(tmp_path: Path) -> None:
    def process(pid: int, guest: str, ticks: int) -> None:
        folder = tmp_path / str(pid)
        folder.mkdir(exist_ok=True)
        words = ["/usr/bin/qemu-system-x86_64", "-name", f"guest={guest},debug-threads=on", "-S"]
        (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in words))
        fields = ["S"] + ["0"] * 10 + [str(ticks), "0"] + ["0"] * 6 + ["77", "0", "0"]
        (folder / "stat").write_text(f"{pid} (qemu) {' '.join(fields)}\n")

    its = replace(hosting(tmp_path), proc=tmp_path)
    process(10, "lab-shared-1", 100)
    process(11, "lab-shared-2", 200)
    process(12, "other-shared-1", 10_000)
    before = its.cpu_s()
    assert before == pytest.approx(3.0)
    assert its.processes() == {10, 11}
    (tmp_path / "11" / "cmdline").unlink()
    process(10, "lab-shared-1", 150)
    assert its.cpu_s() == pytest.approx(before + 0.5)
