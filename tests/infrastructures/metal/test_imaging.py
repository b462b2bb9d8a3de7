"""Hosts of bare metal that are made anew from the image of a role, at the Redfish service of sushy-tools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.boot_media.imaging import imaged, images, keeps_the_contract
from tests.infrastructures.metal.test_kinds import CONTENT, Stack, a_task
from tests.infrastructures.metal_world import MetalWorld, metal_world
from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.boot_media.imaging import MediumImaging
from tidepool.infrastructures.boot_media.kinds import MetalBootKind
from tidepool.infrastructures.boot_media.resources import MetalBootModel
from tidepool.infrastructures.metal.imaging import BmcPower
from tidepool.infrastructures.metal.kinds import MetalSiteKind
from tidepool.infrastructures.registry import imaging_of
from tidepool.resources.kind import Home

pytestmark = [
    pytest.mark.runs("metal", versions.installed("sushy"), f"Redfish of {versions.installed('sushy-tools')}")
]


@dataclass
class Machine:
    """A host that is `cpu-1`, and how it is made anew."""

    world: MetalWorld
    stack: Stack
    id: str
    it: MediumImaging

    @property
    def host(self) -> str:
        return self.it.host

    def is_on(self) -> bool:
        return bool(self.world.bmcs.system(self.host)["power_state"] == "On")

    def boots(self) -> int:
        return int(self.world.bmcs.system(self.host)["resets"].count("On"))

    def cut(self) -> None:
        self.world.bmcs.change(self.host, power_state="Off")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    isos = images(tmp_path, monkeypatch)
    with metal_world() as world:
        stack = Stack(world, Home(tmp_path / "data", tmp_path), Path(isos["slurm"]))
        MetalSiteKind(stack.home).create(stack.site(), a_task())
        MetalBootKind(stack.home).create(MetalBootModel(stack="one", boot="cpu", content=CONTENT), a_task())
        made = stack.machines.create(stack.machine(), a_task()).id
        said = {
            "kind": "metal",
            "stack": "one",
            "machine": "cpu-1",
            "id": made,
            "address": "10.77.10.1",
            "images": isos,
        }
        found = imaging_of(said, stack.home.data)
        assert isinstance(found, MediumImaging)
        assert isinstance(found.power, BmcPower)
        power = replace(found.power, sleep=lambda _: None)
        it = Machine(world, stack, made, found)
        it.it = replace(found, power=power, silence=lambda _: "" if it.is_on() else "no route to host")
        yield it


def test_it_keeps_the_contract(machine: Machine) -> None:
    fetched = lambda: machine.world.bmcs.medium(machine.host)  # noqa: E731
    keeps_the_contract(machine.it, machine.boots, machine.is_on, machine.cut, fetched)
    # To the stack's state it is the machine that it was.
    assert machine.stack.machines.look(machine.id, machine.stack.machine()) == {}


def test_it_is_listed_as_one_that_keeps_nothing_unless_its_root_is_on_a_disk(machine: Machine) -> None:
    def listed() -> tuple[str, bool]:
        (found,) = machine.world.infrastructure.list("one")
        return found.state, found.is_volatile

    assert listed() == ("running", True)
    machine.cut()
    assert listed() == ("stopped", True)
    machine.world.bmcs.tags[machine.host] += "/disk"
    assert listed() == ("stopped", False)


def test_a_bmc_is_asked_only_of_a_machine_that_does_not_answer(machine: Machine) -> None:
    machine.world.bmcs.down.add(machine.host)
    assert (imaged(machine.it), machine.it.is_blank()) == ({"slurm"}, False)
    machine.cut()
    for ask in (machine.it.imaged, machine.it.is_blank):
        with pytest.raises(Transient, match="nothing answers"):
            ask()


def test_a_host_whose_power_lies_is_not_booted_and_done_again_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidepool.infrastructures.metal.imaging._SWITCH_S", 0.0)
    machine.world.bmcs.change(machine.host, stuck=True)
    with pytest.raises(Transient, match="its BMC says On still"):
        machine.it.image("kubernetes")
    machine.world.bmcs.change(machine.host, stuck=False)
    assert machine.it.imaged() == {"slurm"}
    machine.it.image("kubernetes")
    assert machine.it.imaged() == {"kubernetes"}


def test_a_host_that_is_another_machine_by_now_is_left_alone(machine: Machine) -> None:
    boots = machine.boots()
    for tag in ("", "tidepool:two/cpu-1/00000000", "45Z-2381"):
        machine.world.bmcs.tags[machine.host] = tag
        with pytest.raises(Permanent, match="not cpu-1 any more: `tidepool up --refresh` claims another"):
            machine.it.image("kubernetes")
    assert machine.boots() == boots


@pytest.mark.parametrize(
    ("breaks", "kind", "said"),
    [
        (lambda it: it.kept.remove(it.host), Transient, "is not known on this machine"),
        (lambda it: it.kept.remove_site(), Permanent, "`tidepool up --refresh` writes down"),
        (lambda it: Path(it.images["kubernetes"]).unlink(), Permanent, "is nothing to boot from"),
    ],
    ids=["another machine's", "no site", "no image"],
)
def test_what_is_not_here_is_told_with_its_kind(
    machine: Machine, breaks: Any, kind: type[Exception], said: str
) -> None:
    breaks(machine.it)
    with pytest.raises(kind, match=said):
        machine.it.image("kubernetes")
    assert machine.is_on()


def test_of_one_that_was_booted_elsewhere_it_is_known_that_it_has_the_only_image(machine: Machine) -> None:
    machine.it.kept.remove(machine.host)
    assert machine.it.imaged() == set()
    one = dict.fromkeys(machine.it.images, machine.it.images["slurm"])
    assert replace(machine.it, images=one).imaged() == {"slurm", "kubernetes"}
