"""Volumes of a department: data that are made and attached, and the root disks of its VMs."""

from __future__ import annotations

from typing import Any

from tests.infrastructures.cloudstack.state import CloudError, Item, State, new_id

GIB = 1024**3


class Volumes(State):
    """Its commands. A VM that is destroyed leaves its data."""

    def listDiskOfferings(self, **_: Any) -> Item:
        return {"diskoffering": self.disk_offerings}

    def listCapacity(self, type: int, **_: Any) -> Item:
        assert type == 3, "primary storage, as what is allocated"
        used = sum(each["size"] for each in self._all_volumes())
        zone = {"zoneid": self.zone["id"], "zonename": self.zone["name"], "type": 3}
        return {"capacity": [{**zone, "capacitytotal": self.storage_gib * GIB, "capacityused": used}]}

    def createVolume(self, name: str, zoneid: str, diskofferingid: str, **given: Any) -> Item:
        offering = self._there(
            "diskofferingid", {each["id"]: each for each in self.disk_offerings}, diskofferingid
        )
        if offering["iscustomized"] == ("size" not in given):
            raise CloudError(431, "This disk offering requires a custom size specified")
        size: int = given["size"] if "size" in given else offering["disksize"]
        self._limit("volume", 1)
        self._limit("primary_storage", size)
        made: Item = {
            "id": new_id(),
            "name": name,
            "type": "DATADISK",
            "state": "Allocated",
            "size": size * GIB,
            "zoneid": zoneid,
            "diskofferingid": diskofferingid,
        }
        self.volumes[made["id"]] = made
        return self._job("createVolume", lambda: {"volume": made}, made["id"])

    def listVolumes(self, id: str = "", name: str = "", type: str = "", **_: Any) -> Item:
        return {
            "volume": [
                each
                for each in self._all_volumes()
                if id in ("", each["id"]) and name in ("", each["name"]) and type in ("", each["type"])
            ]
        }

    def attachVolume(self, id: str, virtualmachineid: str, **_: Any) -> Item:
        volume, vm = (
            self._there("id", self.volumes, id),
            self._there("virtualmachineid", self.vms, virtualmachineid),
        )
        if volume.get("virtualmachineid"):
            raise CloudError(431, "Please specify a volume that is not attached to any VM.")
        if vm["state"] not in ("Running", "Stopped"):
            raise CloudError(431, "Please specify a VM that is either running or stopped.")

        def attach() -> Item:
            volume.update(virtualmachineid=virtualmachineid, deviceid=1, state="Ready")
            return {"volume": volume}

        return self._job("attachVolume", attach, id)

    def resizeVolume(self, id: str, size: int, **_: Any) -> Item:
        volume = self._there("id", self.volumes, id)
        offering = next(each for each in self.disk_offerings if each["id"] == volume["diskofferingid"])
        if not offering["iscustomized"]:
            raise CloudError(
                431,
                "To change a volume's size without providing a new disk offering, its current disk offering must be customizable",
            )
        self._limit("primary_storage", size - volume["size"] // GIB)

        def resize() -> Item:
            volume["size"] = size * GIB
            return {"volume": volume}

        return self._job("resizeVolume", resize, id)
