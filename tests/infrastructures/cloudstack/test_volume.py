"""The volume of a file server, by the provider's kinds over the stand-in: made once, kept, and given to whichever VM the server is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import served
from tests.infrastructures.cloudstack.test_kinds import Stack
from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.cloudstack.kinds import CloudStackMachineKind
from tidepool.infrastructures.cloudstack.volume import CloudStackVolumeKind
from tidepool.resources.kind import AS_KNOWN

pytestmark = [
    pytest.mark.runs("cloudstack", versions.installed("cs"), "a stand-in of the tests' for CloudStack")
]

VOLUME: dict[str, Any] = {
    "zone": "zone-1",
    "name": "tidepool-dev-store",
    "sizeGib": 200,
    "offering": "Custom",
}
SERVER: dict[str, Any] = {"machine": "nfs", "address": "10.77.0.5"}


@pytest.fixture
def stack() -> Iterator[Stack]:
    cloud = Cloud()
    with served(cloud) as endpoint:
        yield Stack(cloud, endpoint)


def test_a_volume_is_made_once_and_kept(stack: Stack) -> None:
    id = stack.make(CloudStackVolumeKind, **VOLUME)
    assert stack.make(CloudStackVolumeKind, **VOLUME) == id
    assert stack.look(CloudStackVolumeKind, id, **VOLUME) == AS_KNOWN
    stack.delete(CloudStackVolumeKind, id, **VOLUME)
    assert stack.make(CloudStackVolumeKind, **VOLUME) == id, "the next stack of that name finds it"
    (volume,) = stack.cloud.volumes.values()
    assert volume["size"] == 200 * 1024**3
    del stack.cloud.volumes[id]
    assert stack.look(CloudStackVolumeKind, id, **VOLUME) is None


def test_one_whose_answer_is_lost_is_found(stack: Stack) -> None:
    stack.cloud.lose = 1
    with pytest.raises(Transient):
        stack.make(CloudStackVolumeKind, **VOLUME)
    assert stack.make(CloudStackVolumeKind, **VOLUME) == next(iter(stack.cloud.volumes))


def test_a_volume_grows_and_never_shrinks(stack: Stack) -> None:
    id = stack.make(CloudStackVolumeKind, **VOLUME)
    stack.make(CloudStackVolumeKind, **{**VOLUME, "sizeGib": 300})
    assert stack.cloud.volumes[id]["size"] == 300 * 1024**3
    stack.make(CloudStackVolumeKind, **VOLUME)
    assert stack.cloud.volumes[id]["size"] == 300 * 1024**3
    fixed = {**VOLUME, "name": "other", "sizeGib": 5, "offering": "Small"}
    stack.make(CloudStackVolumeKind, **fixed)
    with pytest.raises(
        Permanent, match=r"the volume other has 5 GiB, and does not become 6: .*; write the size that it has"
    ):
        stack.make(CloudStackVolumeKind, **{**fixed, "sizeGib": 6})


def test_the_server_has_its_volume_and_the_next_one_too(stack: Stack) -> None:
    """A VM that is destroyed leaves it, and the one in its place is given it."""
    volume = stack.make(CloudStackVolumeKind, **VOLUME)
    parts = stack.machine(**SERVER, volume=volume)
    first = stack.make(CloudStackMachineKind, **parts)
    assert stack.cloud.volumes[volume]["virtualmachineid"] == first
    assert stack.make(CloudStackMachineKind, **parts) == first
    assert stack.cloud.requests.count("attachVolume") == 1
    stack.delete(CloudStackMachineKind, first, **parts)
    assert "virtualmachineid" not in stack.cloud.volumes[volume]
    second = stack.make(CloudStackMachineKind, **parts)
    assert second != first
    assert stack.cloud.volumes[volume]["virtualmachineid"] == second


def test_a_volume_that_somebody_took_away_is_seen_and_given_back(stack: Stack) -> None:
    volume = stack.make(CloudStackVolumeKind, **VOLUME)
    parts = stack.machine(**SERVER, volume=volume)
    id = stack.make(CloudStackMachineKind, **parts)
    assert stack.look(CloudStackMachineKind, id, **parts) == AS_KNOWN
    del stack.cloud.volumes[volume]["virtualmachineid"]
    assert stack.look(CloudStackMachineKind, id, **parts) == {"state": "without its volume"}
    stack.update(CloudStackMachineKind, id, **parts)
    assert stack.look(CloudStackMachineKind, id, **parts) == AS_KNOWN


def test_a_volume_that_another_vm_has_is_not_taken_from_it(stack: Stack) -> None:
    volume = stack.make(CloudStackVolumeKind, **VOLUME)
    stack.cloud.volumes[volume]["virtualmachineid"] = "another"
    with pytest.raises(Permanent, match=rf"attached to the VM another: .* cs detachVolume id={volume}"):
        stack.make(CloudStackMachineKind, **stack.machine(**SERVER, volume=volume))
    assert stack.cloud.volumes[volume]["virtualmachineid"] == "another"


def test_an_attachment_whose_answer_is_lost_is_found(stack: Stack) -> None:
    volume = stack.make(CloudStackVolumeKind, **VOLUME)
    parts = stack.machine(**SERVER, volume=volume)
    id = stack.make(CloudStackMachineKind, **stack.machine(**SERVER))
    stack.cloud.lose = 1
    stack.update(CloudStackMachineKind, id, **parts)
    assert stack.cloud.volumes[volume]["virtualmachineid"] == id
    assert stack.cloud.requests.count("attachVolume") == 1
