"""The resources of Ironic as the provider serves them; what reaches Ironic reaches a real one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.ironic.server import Server
from tests.infrastructures.ironic_world import ironic_world
from tidepool.cluster.failures import Permanent, Transient
from tidepool.images.iso import SEED, SEED_BYTES
from tidepool.infrastructures.boot_media import kinds
from tidepool.infrastructures.boot_media.kinds import MetalBootKind
from tidepool.infrastructures.boot_media.media import Kept
from tidepool.infrastructures.boot_media.resources import MetalBootModel
from tidepool.infrastructures.ironic.api import IronicLocation
from tidepool.infrastructures.ironic.kinds import IronicMachineKind
from tidepool.infrastructures.ironic.resources import IronicMachineModel, Network
from tidepool.resources.kind import Home, Refusal, Task, Unfinished

CONTENT = '#cloud-config\n{"bootcmd": [], "write_files": [], "runcmd": []}'


def a_task(seconds: float = 240) -> Task:
    say: Any = lambda _: None  # noqa: E731
    return Task("urn", seconds, time.monotonic() + seconds, say, say, say)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "data", tmp_path)
    MetalBootKind(made).create(MetalBootModel(stack="one", boot="cpu", content=CONTENT), a_task())
    return made


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "image.iso"
    made.write_bytes(b"\0" * SEED_BYTES)
    monkeypatch.setattr(kinds, "seed_at", lambda path: 0 if path == made else pytest.fail(SEED))
    return made


def a_machine(image: Path, **more: Any) -> IronicMachineModel:
    told = {
        "ironic": IronicLocation("site", "/nowhere/clouds.yaml"),
        "boot_service": "http://10.9.0.5:8081",
        "network": Network(16, gateway="10.77.0.1"),
        "boot": "cpu",
        "cpus": 1,
        "memory_mib": 64,
        "image": str(image),
        **more,
    }
    return IronicMachineModel(stack="one", machine="cpu-1", address="10.77.10.1", **told)


def test_what_is_not_on_this_machine_is_told_before_ironic_is_asked(
    home: Home, image: Path, tmp_path: Path
) -> None:
    machines = IronicMachineKind(home, sleep=lambda _: None)
    with pytest.raises(Transient, match="the boot other is not there"):
        machines.create(a_machine(image, boot="other"), a_task())
    large = CONTENT.replace('"runcmd": []', f'"runcmd": ["{"x" * SEED_BYTES}"]')
    MetalBootKind(home).create(MetalBootModel(stack="one", boot="large", content=large), a_task())
    with pytest.raises(Permanent, match="there is room for 4194304"):
        machines.create(a_machine(image, boot="large"), a_task())
    with pytest.raises(Permanent, match=r"/nowhere/clouds.yaml, cannot be read"):
        machines.create(a_machine(image), a_task())


def test_an_image_without_a_kernel_is_nothing_to_boot_from(home: Home, tmp_path: Path) -> None:
    plain = tmp_path / "plain.iso"
    plain.write_bytes(b"\0" * 2**20)
    with pytest.raises(Refusal, match="is nothing to boot from"):
        IronicMachineKind(home).create(a_machine(plain), a_task())


def test_a_boot_is_written_anew_where_somebody_changed_it(home: Home) -> None:
    boots, boot = MetalBootKind(home), MetalBootModel(stack="one", boot="cpu", content=CONTENT)
    assert boots.look("cpu", boot) == {}
    Kept(home.data, "one").write_boot("cpu", "another")
    assert boots.look("cpu", boot) == {"state": "another"}
    boots.delete("cpu", boot, a_task())
    assert Kept(home.data, "one").read_boot("cpu") is None


@pytest.fixture
def enrolled(ironic_server: Server) -> Iterator[Any]:
    with ironic_world(ironic_server) as world:
        yield world


@pytest.mark.slow
@pytest.mark.runs(
    "ironic",
    versions.installed("openstacksdk"),
    versions.installed("ironic"),
    f"Redfish of {versions.installed('sushy-tools')}",
)
def test_a_machine_is_begun_gone_on_with_seen_when_it_is_off_and_gone_when_it_goes(
    home: Home, image: Path, enrolled: Any
) -> None:
    """Its claim's answer is lost; it is off; it is deleted twice."""
    api = enrolled.infrastructure.hosts.ironic
    machines = IronicMachineKind(home, open=lambda _: api, sleep=lambda _: time.sleep(0.2))
    wanted = a_machine(image, boot_service=f"{enrolled.bmcs.url}/images")
    enrolled.faults.lose = 1
    with pytest.raises(Unfinished, match="goes on from here") as raised:
        machines.create(wanted, a_task())
    made = machines.create(wanted, a_task())
    assert made.id == raised.value.id
    kept = Kept(home.data, "one")
    medium = kept.read(made.id)
    assert medium is not None
    assert (medium.node, medium.address, medium.gateway) == ("cpu-1", "10.77.10.1/16", "10.77.0.1")
    assert medium.mac == enrolled.bmcs.entry("alpha").mac
    assert machines.look(made.id, wanted) == {}
    enrolled.server.power("alpha", "power off")
    assert machines.look(made.id, wanted) == {"state": "off"}
    machines.update(made.id, wanted, wanted, a_task())
    assert machines.look(made.id, wanted) == {}
    for _ in range(2):
        machines.delete(made.id, wanted, a_task())
        assert machines.look(made.id, wanted) is None
    assert kept.read(made.id) is None
