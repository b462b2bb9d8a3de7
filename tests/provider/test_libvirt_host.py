"""A host of libvirt is asked in each check, and all that it lacks is told: before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.libvirt.hosts import DEVICES, NODEINFO, capabilities
from tests.provider.calls import Preflights, plainly
from tidepool.resources.values import UNKNOWN

DEMAND: dict[str, Any] = {
    "path": "fleets[0].infrastructures[0].options",
    "machines": 2,
    "cpus": 4,
    "memoryMib": 4352,
    "virtualization": "kvm",
    "machineType": "q35",
    "cells": {"0": [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]},
    "emulatorCpus": [0.0, 1.0],
    "pageKib": 2048,
    "pci": ["0000:3b:00.0"],
}
INPUTS: dict[str, Any] = {"uri": "qemu:///system", "demands": [DEMAND]}


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Preflights:
    """The kind, where a virsh says what lies beside it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for verb, said in (("capabilities", capabilities()), ("nodeinfo", NODEINFO), ("nodedev-list", DEVICES)):
        (tools / verb).write_text(said)
    stand_in(tools, "virsh", f'#!/bin/sh\nexec cat {tools}/"$5"\n')
    for tool in ("xsltproc", "mkisofs"):
        stand_in(tools, tool, "#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return Preflights(tmp_path, "libvirt")


def test_a_host_that_has_all_passes_the_check(hosts: Preflights) -> None:
    inputs = hosts.calls.checked(hosts.inputs(INPUTS))
    assert plainly(inputs) == hosts.inputs(INPUTS)
    assert hosts.calls.create(inputs).resource_id == "libvirt/options"


def test_a_host_that_lacks_something_fails_the_check(hosts: Preflights) -> None:
    failures = hosts.failures({**INPUTS, "demands": [{**DEMAND, "pci": ["0000:99:00.0"]}]})
    assert failures == {
        "path": "fleets[0].infrastructures[0].options.pci_devices: the host has no 0000:99:00.0; "
        "`lspci -D` there lists what it has"
    }


def test_a_host_that_does_not_answer_fails_the_check(hosts: Preflights, tmp_path: Path) -> None:
    stand_in(tmp_path / "tools", "virsh", "#!/bin/sh\necho 'error: no route to host' >&2\nexit 1\n")
    assert "no route to host" in hosts.failures(INPUTS)["path"]


def test_without_its_tools_a_check_says_what_installs_them(
    hosts: Preflights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert "apt-get install" in hosts.failures(INPUTS)["path"]


def test_other_demands_are_an_update(hosts: Preflights) -> None:
    for other in ({**INPUTS, "demands": []}, {**INPUTS, "uri": "qemu:///session"}):
        difference = hosts.calls.diff(hosts.inputs(INPUTS), hosts.inputs(other))
        assert (difference.changes, difference.replaces) == (True, [])


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"machines": 0}, "demands[0].machines", "at least 1"),
        ({"emulatorCpus": "3-1"}, "demands[0].emulatorCpus", "a list of whole numbers is wanted"),
        ({"threads": 2}, "demands[0].threads", "there is no such input"),
    ],
)
def test_what_is_no_demand_is_refused(
    hosts: Preflights, change: dict[str, Any], key: str, words: str
) -> None:
    assert words in hosts.failures({**INPUTS, "demands": [{**DEMAND, **change}]})[key]


def test_a_host_that_is_not_known_yet_is_not_asked(hosts: Preflights) -> None:
    assert hosts.failures({**INPUTS, "uri": UNKNOWN}) == {}
