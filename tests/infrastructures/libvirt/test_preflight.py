"""What a host lacks, told before anything is made: each lack with where it was asked for, and the remedy."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.libvirt.hosts import DEVICES, NODEINFO, capabilities, host
from tests.infrastructures.libvirt.schemas import missing, wrong
from tests.infrastructures.libvirt.specs import TUNED, TWO_HOSTS, spec
from tidepool.infrastructures.libvirt.ask import LibvirtError, ask, read_host, tools_missing
from tidepool.infrastructures.libvirt.preflight import Demand, demanded, demands, lacks, lacks_of_way
from tidepool.infrastructures.libvirt.reading import read_options

FLEET = "fleets[0].infrastructures[0].options"
PLAIN = Demand("fleet", machines=2, cpus=4, memory_mib=4352)


def test_capabilities_are_what_the_schema_says_they_are() -> None:
    if why := missing():
        pytest.skip(why)
    assert wrong(capabilities(), "capability") == ""


def test_a_host_is_read() -> None:
    there = host(pages={0: 5, 1: 7})
    assert there.cpus == frozenset(range(24))
    assert there.memory_mib == 65536
    assert {node: each.pages[2048] for node, each in there.nodes.items()} == {0: 5, 1: 7}
    assert there.machine_types["kvm"] == {"pc", "pc-i440fx-7.2", "q35", "pc-q35-7.1", "pc-q35-7.2"}
    assert there.iommu is True
    assert "0000:af:00.1" in there.devices


@pytest.mark.parametrize("said", ["", "<capabilities/>", "error: failed to connect", "<capabilities>"])
def test_what_is_no_answer_is_no_host(said: str) -> None:
    with pytest.raises(LibvirtError, match="not understood"):
        read_host(said, NODEINFO, DEVICES)


def test_a_host_that_has_all_lacks_nothing() -> None:
    described = spec(TUNED)
    assert lacks(host(), demands(described, read_options(described), "here")) == ()


@pytest.mark.parametrize(
    ("demand", "there", "words"),
    [
        ({}, {"kvm": False}, "fleet.virtualization: the host has no kvm; switch virtualization on"),
        (
            {"machine_type": "pc-q35-9.0"},
            {},
            "fleet.machine_type: the host's QEMU has no pc-q35-9.0; it has pc",
        ),
        ({"cells": {2: (1, 2, 3, 4)}}, {}, "fleet.cells: the host has no NUMA node 2; it has 0, 1"),
        ({"cells": {0: (10, 11, 12, 99)}}, {}, "processors 12,99 are not of NUMA node 0, which has 0-11"),
        ({"emulator_cpus": (0, 24)}, {}, "fleet.emulator_cpus: the host has no processors 24; it has 0-23"),
        ({"cpus": 25}, {}, "a machine has 25 processors, and the host 24"),
        ({"pci": ("0000:5e:00.0",)}, {}, "fleet.pci_devices: the host has no 0000:5e:00.0"),
        ({"pci": ("0000:3b:00.0",)}, {"iommu": "<iommu support='no'/>"}, "the host has no IOMMU"),
        ({"machines": 16}, {}, "69632 MiB of memory together, and the host 65536 MiB: 16 x 4352 (fleet)"),
        (
            {"page_kib": 2048},
            {"pages": {0: 100, 1: 100}},
            "the host has 200 pages of 2048 KiB reserved, and the machines need 4352",
        ),
        ({"page_kib": 1048576, "memory_mib": 4096}, {}, "hugepagesz=1G hugepages=8, and mount them"),
        (
            {"page_kib": 2048, "cells": {0: tuple(range(8))}},
            {"pages": {0: 0, 1: 9000}},
            "its NUMA node 0 has 0 pages of 2048 KiB reserved, and the machines need 4352",
        ),
    ],
)
def test_a_lack_is_told_with_its_remedy(demand: dict[str, Any], there: dict[str, Any], words: str) -> None:
    (found,) = lacks(host(**there), [replace(PLAIN, **demand)])
    assert words in found


def test_all_lacks_are_told_at_once() -> None:
    wanted = replace(PLAIN, cells={7: (1, 2)}, pci=("0000:01:00.0",), page_kib=2048, emulator_cpus=(77,))
    found = lacks(host(kvm=False, iommu="<iommu support='no'/>", pages={}), [wanted])
    assert len(found) == 6


def test_another_architecture_is_all_that_is_told_of_it() -> None:
    (found,) = lacks(host(arch="aarch64"), [PLAIN])
    assert "the host is aarch64, and images are x86_64" in found


@pytest.fixture
def virsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of virsh: it says what lies beside it, and keeps what it was asked."""
    for verb, said in (("capabilities", capabilities()), ("nodeinfo", NODEINFO), ("nodedev-list", DEVICES)):
        (tmp_path / verb).write_text(said)
    program = tmp_path / "virsh"
    program.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\nexec cat {tmp_path}/"$5"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_a_host_is_asked_and_nothing_is_changed_on_it(virsh: Path) -> None:
    assert ask("qemu+ssh://root@alpha/system") == host()
    asked = (virsh / "asked").read_text().splitlines()
    assert all(
        line.startswith("--quiet --connect qemu+ssh://root@alpha/system --readonly ") for line in asked
    )


def test_a_host_that_cannot_be_asked_says_why(virsh: Path) -> None:
    (virsh / "virsh").write_text("#!/bin/sh\necho 'error: failed to connect to the hypervisor' >&2\nexit 1\n")
    with pytest.raises(
        LibvirtError, match="failed to connect to the hypervisor; try it by hand: virsh --connect"
    ):
        ask("qemu:///system")
    (virsh / "virsh").unlink()


def test_without_its_tools_each_is_told_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LibvirtError, match="apt-get install libvirt-clients"):
        ask("qemu:///system")
    assert [told.rpartition(" ")[2] for told in tools_missing({"PATH": str(tmp_path)})] == [
        "libvirt-clients",
        "xsltproc",
        "genisoimage",
    ]


def test_a_machine_that_filters_would_keep_out_is_told_so() -> None:
    described = spec(bridge="br0", hosts=TWO_HOSTS, administrators=["198.51.100.0/28"])
    first, second = (demanded(described, read_options(described), name) for name in TWO_HOSTS)
    assert first.ssh_from == ("10.77.0.0/16", "198.51.100.0/28")
    assert second.ssh_from == (), "it is told once"
    assert demanded(spec(), read_options(spec()), "here").ssh_from == ()
    # This machine comes to itself from 127.0.0.1.
    inside = replace(first, ssh_from=("127.0.0.0/8",))
    outside = replace(first, ssh_from=("127.1.0.0/16",))
    named = replace(first, ssh_from=("127.1.0.0/16", "127.0.0.1/32"))
    assert list(lacks_of_way(inside)) == list(lacks_of_way(named)) == list(lacks_of_way(second)) == []
    (told,) = lacks_of_way(outside)
    assert told.startswith("controller.infrastructure.options.administrators: this machine would come")
    assert told.endswith("write 127.0.0.1/32 there, or a network that it is in")
