"""The repository's program on libvirt, previewed by the embedded engine: what is missing is told before anything is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.components.by_engine import ByEngine
from tests.infrastructures.libvirt.hosts import DEVICES, NODEINFO, capabilities
from tests.infrastructures.libvirt.specs import mapping

pytest.importorskip("pulumi_libvirt", reason="pulumi-libvirt is not installed: scripts/setup installs it")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with a virsh that says what lies beside it, and with what the plugin would call."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for verb, said in (("capabilities", capabilities()), ("nodeinfo", NODEINFO), ("nodedev-list", DEVICES)):
        (folder / verb).write_text(said)
    programs = {"virsh": f'exec cat {folder}/"$5"', "xsltproc": "exit 1", "mkisofs": "exit 1"}
    # What images are written with: this test is not about it.
    programs |= dict.fromkeys(
        ("sfdisk", "mformat", "mmd", "mcopy", "qemu-img", "debugfs", "dumpe2fs"), "exit 1"
    )
    for name, does in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def preview(folder: Path, described: dict[str, Any]) -> str:
    """What a preview says, which must fail; nothing was made."""
    described = {key: value for key, value in described.items() if key != "name"}
    cluster = ByEngine.make(folder, folder / "store", "virtual", **described)
    cluster.write_spec()
    cluster.engine("stack init")
    with pytest.raises(AssertionError) as raised:
        cluster.engine("preview")
    assert not (cluster.data / "virtual").exists()
    return str(raised.value)


def test_a_host_that_lacks_what_is_asked_for_fails_the_preview_with_all_of_it(
    tmp_path: Path, tools: Path
) -> None:
    offering = {"pci_devices": ["0000:99:00.0"], "emulator_cpus": "40"}
    described = mapping(offering) | {"image": "debian-12-cloud"}
    described["fleets"][0]["max_nodes"] = 1
    said = preview(tmp_path, described)
    assert "fleets[0].infrastructures[0].options.pci_devices: the host has no 0000:99:00.0" in said
    assert "fleets[0].infrastructures[0].options.emulator_cpus: the host has no processors 40" in said
    assert "Traceback" not in said


def test_a_core_that_does_not_exist_and_pages_that_nobody_reserved_fail_the_preview_together(
    tmp_path: Path, tools: Path
) -> None:
    (tools / "capabilities").write_text(capabilities(pages={0: 16, 1: 0}))
    offering = {"cells": [{"node": 0, "cpus": "8-11"}], "hugepages": "2MiB"}
    described = mapping(offering) | {"image": "debian-12-cloud"}
    second = {**described["fleets"][0], "name": "gpu", "subnet": "10.77.11.0/24"}
    second["infrastructures"] = [{"name": "libvirt", "options": {"cells": [{"node": 1, "cpus": "20-23,99"}]}}]
    second["shape"] = {**second["shape"], "cpus": 5, "threads_per_core": 1}
    described["fleets"].append(second)
    described["fleets"][0]["max_nodes"] = second["max_nodes"] = 1
    said = preview(tmp_path, described)
    assert (
        "fleets[1].infrastructures[0].options.cells: processors 99 are not of NUMA node 1, which has 12-23"
        in said
    )
    assert "has 16 pages of 2048 KiB reserved, and the machines need" in said
    assert "boot it with hugepagesz=2M hugepages=" in said
    assert "Traceback" not in said


def test_a_host_of_another_architecture_than_images_fails_the_preview(tmp_path: Path, tools: Path) -> None:
    (tools / "capabilities").write_text(capabilities(arch="aarch64"))
    said = preview(tmp_path, mapping() | {"image": "debian-12-cloud"})
    assert "the host is aarch64, and images are x86_64" in said
    assert "Traceback" not in said


def test_a_plugin_that_is_not_installed_is_told_with_what_installs_it(tmp_path: Path, tools: Path) -> None:
    said = preview(tmp_path, mapping() | {"image": "debian-12-cloud"})
    assert "pulumi plugin install resource libvirt 0.5.4" in said
    assert "Traceback" not in said
