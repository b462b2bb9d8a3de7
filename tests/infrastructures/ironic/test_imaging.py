"""Nodes of Ironic that are booted while they are machines, by a real Ironic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.boot_media.imaging import imaged, images
from tests.infrastructures.ironic.server import LONG_S, Server
from tests.infrastructures.ironic.test_kinds import a_machine, a_task, enrolled, home  # noqa: F401 - fixtures
from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.boot_media.imaging import MediumImaging
from tidepool.infrastructures.ironic.imaging import InstancePower
from tidepool.infrastructures.ironic.kinds import IronicMachineKind
from tidepool.infrastructures.registry import imaging_of
from tidepool.resources.kind import Home

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "ironic",
        versions.installed("openstacksdk"),
        versions.installed("ironic"),
        f"Redfish of {versions.installed('sushy-tools')}",
    ),
]


@pytest.fixture
def imaging(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: Home,  # noqa: F811
    enrolled: Any,  # noqa: F811
    ironic_server: Server,
) -> Iterator[MediumImaging]:
    """Of `cpu-1`, on the host `alpha`, which answers while it is on."""
    isos = dict.fromkeys(images(tmp_path, monkeypatch), str(tmp_path / "slurm.iso"))
    api = enrolled.infrastructure.hosts.ironic
    machines = IronicMachineKind(home, open=lambda _: api, sleep=lambda _: time.sleep(0.2))
    wanted = a_machine(Path(isos["slurm"]), boot_service=f"{enrolled.bmcs.url}/images")
    made = machines.create(wanted, a_task()).id
    said = {
        "kind": "ironic",
        "ironic": {"cloud": "site", "cloudsFile": str(ironic_server.clouds_file)},
        "stack": "one",
        "machine": "cpu-1",
        "id": made,
        "address": "10.77.10.1",
        "images": isos,
    }
    found = imaging_of(said, home.data)
    assert isinstance(found, MediumImaging)
    assert isinstance(found.power, InstancePower)
    power = replace(found.power, open=lambda: api, sleep=lambda _: time.sleep(0.2))
    yield replace(found, power=power, silence=lambda _: "" if is_on(enrolled) else "no route to host")
    machines.delete(made, wanted, a_task())


def is_on(world: Any) -> bool:
    """Tell if it is, once Ironic has come to the end of what it does with it."""
    ends = time.monotonic() + LONG_S
    while (host := world.infrastructure.hosts.ironic.host("alpha")).state not in ("active", "deploy failed"):
        assert time.monotonic() < ends, host
        time.sleep(0.2)
    return bool(world.bmcs.system("alpha")["power_state"] == "On")


def test_a_host_that_is_off_is_blank_and_is_booted_again(imaging: MediumImaging, enrolled: Any) -> None:  # noqa: F811
    def boots() -> int:
        return int(enrolled.bmcs.system("alpha")["resets"].count("On"))

    def listed() -> tuple[str, bool]:
        (found,) = enrolled.infrastructure.list("one")
        return found.state, found.is_volatile

    both, before = {"slurm", "kubernetes"}, boots()
    assert (imaged(imaging), imaging.is_blank(), listed()) == (both, False, ("running", True))
    enrolled.server.power("alpha", "power off")
    assert (imaged(imaging), imaging.is_blank(), listed()) == (set[str](), True, ("stopped", True))
    imaging.image("kubernetes")
    assert (imaged(imaging), is_on(enrolled), listed(), boots()) == (
        both,
        True,
        ("running", True),
        before + 1,
    )
    # Done again, after one that was cut off.
    imaging.image("kubernetes")
    assert (imaged(imaging), is_on(enrolled), boots()) == (both, True, before + 2)
    # Ironic is asked only of a machine that does not answer.
    enrolled.faults.down = True
    assert replace(imaging, silence=lambda _: "").imaged() == both
    silent = replace(imaging, silence=lambda _: "no route to host")
    for ask in (silent.imaged, silent.is_blank):
        with pytest.raises(Transient, match="nothing answers"):
            ask()
    enrolled.faults.down = False
    # An instance that somebody has undeployed is nobody's to boot.
    with pytest.raises(Permanent, match="`tidepool up --refresh` claims another"):
        replace(imaging, power=replace(imaging.power, instance="0" * 36)).image("slurm")  # type: ignore[type-var]
