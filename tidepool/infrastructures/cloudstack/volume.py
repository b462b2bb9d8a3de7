"""Volumes of data: made once, attached to the machine that has them, and never taken away here.

A VM that is destroyed leaves its data volumes; who has one attached is known by the volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.cloudstack.api import Api, NotThere, Wait
from tidepool.infrastructures.cloudstack.kind import CloudStackKind
from tidepool.infrastructures.cloudstack.resources import CloudStackVolume, CloudStackVolumeModel
from tidepool.resources.kind import AS_KNOWN, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

_GIB: Final = 1024**3
_GONE: Final = ("Destroy", "Destroying", "Destroyed", "Expunging", "Expunged")


class CloudStackVolumeKind(CloudStackKind[CloudStackVolumeModel]):
    """A volume of data, by its name: one that is there is taken as it is, and grows where it is smaller."""

    resource = CloudStackVolume
    timeout_s = 300.0

    def mistakes(self, wanted: CloudStackVolumeModel) -> Iterable[Mistake]:
        yield from super().mistakes(wanted)
        if not wanted.offering:
            yield Mistake("offering", "the name of a disk offering is wanted")

    def create(self, wanted: CloudStackVolumeModel, task: Task) -> Made:
        api, wait = self.api(wanted), self.waiting(task)
        found = [each for each in _volumes(api, name=wanted.name) if each["name"] == wanted.name]
        if found:
            self._grown(api, found[0], wanted, wait)
            return Made(str(found[0]["id"]))
        offering = disk_offering(api.listed("listDiskOfferings"), wanted.offering)
        if offering is None:
            raise NotThere(f"there is no disk offering {wanted.offering} that these keys may use")
        made = api.do(
            "createVolume",
            wait,
            **api.owner,
            name=wanted.name,
            zoneid=api.zone(wanted.zone)["id"],
            diskofferingid=offering["id"],
            size=wanted.size_gib if offering.get("iscustomized") else None,
        )
        return Made(str(made["volume"]["id"]))

    def look(self, id: str, state: CloudStackVolumeModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if _volumes(self.api(state), id=id) else None

    def delete(self, id: str, state: CloudStackVolumeModel, task: Task) -> None:
        """Leave it: what people have is on it, and the next `up` finds it by its name."""

    def _grown(self, api: Api, volume: Mapping[str, Any], wanted: CloudStackVolumeModel, wait: Wait) -> None:
        there = int(volume.get("size") or 0) // _GIB
        if there < wanted.size_gib:
            try:
                api.do("resizeVolume", wait, id=volume["id"], size=wanted.size_gib)
            except Permanent as error:
                raise Permanent(
                    f"the volume {wanted.name} has {there} GiB, and does not become {wanted.size_gib}: {error}; write the "
                    "size that it has, or have its disk offering changed"
                ) from error


def disk_offering(listed: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the disk offering of that name that may be used."""
    return next(
        (each for each in listed if each.get("name") == name and each.get("state", "Active") == "Active"),
        None,
    )


def _volumes(api: Api, **by: str) -> list[dict[str, Any]]:
    try:
        listed = api.own("listVolumes", type="DATADISK", **by)
    except NotThere:
        return []
    return [each for each in listed if each.get("state") not in _GONE]


def holder(api: Api, volume: str) -> str:
    """Return the id of the VM that has a volume attached; empty where none has.

    Raises:
        Transient: the volume is not there; the next `up` makes it.
    """
    found = _volumes(api, id=volume)
    if not found:
        raise Transient(
            f"the volume {volume} is not there; `tidepool up --refresh` makes another, which is empty"
        )
    return str(found[0].get("virtualmachineid") or "")


def attach(api: Api, volume: str, vm: str, wait: Wait) -> None:
    """Attach a volume to a VM that runs. One that has it already is no error.

    Raises:
        Permanent: another VM has it.
    """
    has = holder(api, volume)
    if has == vm:
        return
    if has:
        raise Permanent(
            f"the volume {volume} is attached to the VM {has}: nobody can have it besides; see what that is, and "
            f"detach it there: cs detachVolume id={volume}"
        )
    api.do("attachVolume", wait, id=volume, virtualmachineid=vm)


def serial_of(volume: str) -> str:
    """Return the serial number by which a machine on KVM knows a volume: the first 20 digits of its id."""
    return volume.replace("-", "")[:20]
