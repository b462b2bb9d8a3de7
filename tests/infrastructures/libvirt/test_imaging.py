"""A machine that is made anew from another image, on a host in memory: its contract, and what such hosts refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infrastructures.libvirt.fake import FakeHost, FakeHosts
from tests.infrastructures.libvirt.imaging import IMAGES, POOL, an_imaging, keeps_the_contract
from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.cluster.spec_checks import IMAGING
from tidepool.conversion.machine import RoleProgram
from tidepool.conversion.ports import ConversionError, Refused
from tidepool.infrastructures.libvirt.imaging import DiskImaging
from tidepool.infrastructures.registry import BUILT_IN, descriptor, imaging_of

URI = "qemu+ssh://root@alpha/system"


@pytest.fixture
def host() -> FakeHost:
    it = FakeHost()
    it.pools[POOL] = {*IMAGES.values(), "cpu-1.qcow2"}
    it.backing[POOL, "cpu-1.qcow2"] = IMAGES["slurm"]
    it.say(("define", "/dev/stdin"), "<domain><name>dev-cpu-1</name><memory>64</memory></domain>")
    it.say(("start", "dev-cpu-1"), "")
    return it


@pytest.fixture
def imaging(host: FakeHost) -> DiskImaging:
    return an_imaging(URI, FakeHosts(alpha=host))


def test_it_keeps_the_contract(imaging: DiskImaging) -> None:
    keeps_the_contract(imaging)


def test_a_disk_of_an_image_that_is_no_roles_any_more_is_of_none(
    host: FakeHost, imaging: DiskImaging
) -> None:
    host.backing[POOL, "cpu-1.qcow2"] = "older.qcow2"
    assert imaging.imaged() == set()


def test_an_answer_that_is_lost_is_asked_for_again(host: FakeHost, imaging: DiskImaging) -> None:
    for verb in ("destroy", "start"):
        host.loses.add(verb)
        with pytest.raises(Transient):
            imaging.image("kubernetes")
        imaging.image("kubernetes")
        assert imaging.imaged() == {"kubernetes"}
        assert host.running


@pytest.mark.parametrize(
    ("breaks", "kind"),
    [
        (lambda host: setattr(host, "room", 0), InsufficientCapacity),
        (lambda host: host.refuses.add("dev-cpu-1"), Permanent),
        (lambda host: setattr(host, "down", True), Transient),
    ],
    ids=["full", "denied", "down"],
)
def test_what_it_cannot_do_is_told_with_its_kind(
    host: FakeHost, imaging: DiskImaging, breaks: object, kind: type[InfrastructureError]
) -> None:
    assert callable(breaks)
    breaks(host)
    with pytest.raises(kind):
        imaging.image("kubernetes")
    program = RoleProgram(None, "cpu-1", lambda _: (), imaging=imaging)  # type: ignore[arg-type]
    with pytest.raises(ConversionError, match=r"^cpu-1: ") as raised:
        program.image("kubernetes")
    # What will not be is given up at once.
    assert isinstance(raised.value, Refused) == (kind is Permanent)


def test_those_that_can_are_the_ones_that_a_spec_may_name() -> None:
    # That of Ironic boots hosts that are off, from the image that they had.
    assert {name for name in BUILT_IN if descriptor(name).imaging} == {*IMAGING, "ironic"}
    with pytest.raises(Permanent, match="does not make machines anew"):
        imaging_of({"kind": "local"}, Path("/data"))
