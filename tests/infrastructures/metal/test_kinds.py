"""The resources of bare metal as the provider serves them, at the Redfish service of sushy-tools."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.metal_world import MetalWorld, metal_world
from tidepool.cluster.failures import Permanent, Transient
from tidepool.images.iso import SEED, SEED_BYTES
from tidepool.infrastructures.metal import kinds
from tidepool.infrastructures.metal.kinds import MetalBootKind, MetalMachineKind, MetalSiteKind
from tidepool.infrastructures.metal.media import Kept
from tidepool.infrastructures.metal.resources import MetalBootModel, MetalMachineModel, MetalSiteModel
from tidepool.resources.kind import Home, Refusal, Task, Unfinished

pytestmark = [
    pytest.mark.runs("metal", versions.installed("sushy"), f"Redfish of {versions.installed('sushy-tools')}")
]


CONTENT = '#cloud-config\n{"bootcmd": [], "write_files": [], "runcmd": []}'


def a_task(seconds: float = 30) -> Task:
    say: Any = lambda _: None  # noqa: E731
    return Task("urn", seconds, time.monotonic() + seconds, say, say, say)


@dataclass
class Stack:
    world: MetalWorld
    home: Home
    image: Path

    @property
    def machines(self) -> MetalMachineKind:
        return MetalMachineKind(self.home, sleep=lambda _: None)

    def site(self, **more: Any) -> MetalSiteModel:
        hosts = self.world.infrastructure.hosts.entries
        # BMCs of tests fetch what they boot from themselves.
        service = f"{self.world.bmcs.url}/images"
        return MetalSiteModel(stack="one", hosts=hosts, boot_service=service, prefix=16, **more)

    def machine(self, **more: Any) -> MetalMachineModel:
        told = {"cpus": 1, "memory_mib": 64, "image": str(self.image), **more}
        return MetalMachineModel(
            stack="one", site="one", machine="cpu-1", address="10.77.10.1", boot="cpu", **told
        )


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    image = tmp_path / "image.iso"
    image.write_bytes(b"\0" * SEED_BYTES)
    monkeypatch.setattr(kinds, "seed_at", lambda path: 0 if path == image else pytest.fail(SEED))
    with metal_world() as world:
        made = Stack(world, Home(tmp_path / "data", tmp_path), image)
        MetalSiteKind(made.home).create(made.site(gateway="10.77.0.1"), a_task())
        boot = MetalBootModel(stack="one", boot="cpu", content=CONTENT)
        MetalBootKind(made.home).create(boot, a_task())
        yield made


def test_a_machine_is_made_seen_when_it_is_off_and_gone_when_it_goes(stack: Stack) -> None:
    wanted = stack.machine()
    made = stack.machines.create(wanted, a_task())
    assert stack.machines.create(wanted, a_task()) == made
    host = made.id.partition("/")[0]
    medium = Kept(stack.home.data, "one").read(host)
    assert medium is not None
    assert (medium.node, medium.address, medium.gateway) == ("cpu-1", "10.77.10.1/16", "10.77.0.1")
    assert stack.machines.look(made.id, wanted) == {}
    stack.world.bmcs.change(host, power_state="Off")
    assert stack.machines.look(made.id, wanted) == {"state": "off"}
    stack.machines.update(made.id, wanted, wanted, a_task())
    assert stack.machines.look(made.id, wanted) == {}
    stack.world.bmcs.down.add(host)
    assert stack.machines.look(made.id, wanted) == {}
    stack.world.bmcs.down.clear()
    for _ in range(2):
        stack.machines.delete(made.id, wanted, a_task())
        assert stack.machines.look(made.id, wanted) is None
    assert Kept(stack.home.data, "one").read(host) is None


def test_a_machine_that_was_begun_is_pulumis_and_gone_on_with(stack: Stack) -> None:
    stack.world.bmcs.lose = 1
    with pytest.raises(Unfinished, match="goes on from here") as raised:
        stack.machines.create(stack.machine(), a_task())
    assert stack.machines.create(stack.machine(), a_task()).id == raised.value.id


def test_what_is_not_on_this_machine_is_told_with_what_writes_it(stack: Stack) -> None:
    with pytest.raises(Transient, match="the boot other is not there"):
        stack.machines.create(MetalMachineModel(**vars(stack.machine()) | {"boot": "other"}), a_task())
    MetalSiteKind(stack.home).delete("one", stack.site(), a_task())
    with pytest.raises(Refusal, match="up --refresh"):
        stack.machines.create(stack.machine(), a_task())


def test_a_boot_that_has_no_room_in_the_iso_switches_no_host_on(stack: Stack) -> None:
    large = CONTENT.replace('"runcmd": []', f'"runcmd": ["{"x" * SEED_BYTES}"]')
    MetalBootKind(stack.home).create(MetalBootModel(stack="one", boot="cpu", content=large), a_task())
    with pytest.raises(Permanent, match="there is room for 4194304"):
        stack.machines.create(stack.machine(), a_task())
    assert set(stack.world.bmcs.tags.values()) == {""}


def test_files_of_a_stack_are_written_anew_where_somebody_changed_them(stack: Stack) -> None:
    sites, boots = MetalSiteKind(stack.home), MetalBootKind(stack.home)
    site = stack.site(gateway="10.77.0.1")
    boot = MetalBootModel(stack="one", boot="cpu", content=CONTENT)
    assert (sites.look("one", site), boots.look("cpu", boot)) == ({}, {})
    Kept(stack.home.data, "one").write_site("{}")
    Kept(stack.home.data, "one").remove_boot("cpu")
    assert (sites.look("one", site), boots.look("cpu", boot)) == ({"state": "another"}, {"state": "another"})
