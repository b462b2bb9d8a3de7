"""A CloudStack in memory, and its VMs."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import Any
from urllib.parse import unquote

from tests.infrastructures.cloudstack.catalogue import Catalogue
from tests.infrastructures.cloudstack.networks import Networks
from tests.infrastructures.cloudstack.state import CloudError, Host, Item, new_id
from tests.infrastructures.cloudstack.volumes import Volumes


class Cloud(Networks, Volumes, Catalogue):
    """All of its commands."""

    def deployVirtualMachine(
        self, serviceofferingid: str, templateid: str, zoneid: str, **given: Any
    ) -> Item:
        offering = self._there(
            "serviceofferingid", {each["id"]: each for each in self.service_offerings}, serviceofferingid
        )
        template = self._there("templateid", self.templates, templateid)
        (network_id,) = given["networkids"]
        network = self._there("networkid", self.networks, network_id)
        if not template["isready"]:
            raise CloudError(530, f"Template {templateid} is not in ready state")
        name, address = given["name"], given["ipaddress"]
        others = [
            vm["nic"][0] | {"name": vm["name"]}
            for vm in self.vms.values()
            if vm["nic"][0]["networkid"] == network_id
        ]
        if any(each["name"] == name for each in others):
            raise CloudError(
                431,
                f"The vm with hostName {name} already exists in the network domain: cs.internal; network={network['name']}",
            )
        if any(each["ipaddress"] == address for each in others) or IPv4Address(address) not in IPv4Network(
            network["cidr"]
        ):
            raise CloudError(
                533, f"Unable to acquire Guest IP address for network {network['name']}: {address}"
            )
        sizes = {key.lower(): int(value) for each in given.get("details", ()) for key, value in each.items()}
        cpus = sizes.get("cpunumber") or int(offering["cpunumber"])
        memory = sizes.get("memory") or int(offering["memory"])
        root = int(offering.get("rootdisksize") or given.get("rootdisksize") or 4)
        for kind, more in (
            ("user_vm", 1),
            ("cpu", cpus),
            ("memory", memory),
            ("volume", 1),
            ("primary_storage", root),
        ):
            self._limit(kind, more)
        if extra := given.get("extraconfig"):
            self._check_extra(unquote(extra))
        user_data = given.get("userdataid")
        if user_data:
            self._there("userdataid", self.user_data, user_data)
        vm = {
            "id": new_id(),
            "name": name,
            "displayname": given.get("displayname", name),
            "group": given.get("group"),
            "state": "Starting",
            "created": "2026-11-26T17:00:00+0000",
            "cpunumber": cpus,
            "memory": memory,
            "rootdisksize": root,
            "templateid": templateid,
            "serviceofferingid": serviceofferingid,
            "userdataid": user_data,
            "extraconfig": unquote(given.get("extraconfig", "")),
            "affinitygroup": [self.affinity[each] for each in given.get("affinitygroupids", ())],
            "nic": [{"networkid": network_id, "ipaddress": address, "isdefault": True}],
            "tags": [],
            "deleteprotection": False,
        }
        if self.is_older:
            # Of before 4.20, which has no such protection.
            del vm["deleteprotection"]
        self.vms[vm["id"]] = vm
        return self._job("deployVirtualMachine", lambda: self._start(vm), vm["id"])

    def _check_extra(self, xml: str) -> None:
        if self.extra_allowed is None:
            raise CloudError(
                431, "attempted setting extraconfig but enable.additional.vm.configuration is disabled"
            )
        for element in re.findall(r"<(\w+)", xml):
            if element not in self.extra_allowed:
                raise CloudError(
                    530,
                    f"Extra config '{element}' is not on the list of allowed keys for KVM hypervisor hosts",
                )

    def _place(self, vm: Item) -> Host | None:
        apart = {group["id"] for group in vm["affinitygroup"] if group["type"] == "host anti-affinity"}
        for host in self.hosts:
            cpus, memory = self._taken(host)
            here = [
                each
                for each in self.vms.values()
                if each.get("hostid") == host.name and each["state"] == "Running"
            ]
            beside = any(apart & {group["id"] for group in each["affinitygroup"]} for each in here)
            if (
                not beside
                and cpus + vm["cpunumber"] <= host.cpus
                and memory + vm["memory"] <= host.memory_mib
            ):
                return host
        return None

    def _start(self, vm: Item) -> Item:
        host = self._place(vm) if self.stock is None or self.stock > 0 else None
        if host is None:
            vm["state"] = "Error" if "hostid" not in vm else "Stopped"
            raise CloudError(
                533,
                f'Unable to create a deployment for VM instance {{"id":1,"instanceName":"{vm["name"]}","uuid":"{vm["id"]}"}}',
            )
        if self.stock is not None:
            self.stock -= 1
        vm |= {"state": "Running", "hostid": host.name}
        self.started(vm)
        return {"virtualmachine": vm}

    def listVirtualMachines(self, id: str = "", **_: Any) -> Item:
        return {
            "virtualmachine": [
                vm for vm in self.vms.values() if id in ("", vm["id"]) and vm["name"] not in self.unseen
            ]
        }

    def stopVirtualMachine(self, id: str, **_: Any) -> Item:
        vm = self._there("id", self.vms, id)

        def stop() -> None:
            vm["state"] = "Stopped"
            self.stopped(vm)

        return self._done("stopVirtualMachine", stop, id)

    def startVirtualMachine(self, id: str, **_: Any) -> Item:
        vm = self._there("id", self.vms, id)
        vm["state"] = "Starting"
        return self._job("startVirtualMachine", lambda: self._start(vm), id)

    def destroyVirtualMachine(self, id: str, expunge: bool = False, **_: Any) -> Item:
        vm = self._there("id", self.vms, id)
        if vm.get("deleteprotection"):
            raise CloudError(
                431,
                f"Instance [id = {id}, name = {vm['name']}] has delete protection enabled. Cannot be deleted.",
            )
        if expunge and not self.capabilities["allowuserexpungerecovervm"]:
            raise CloudError(
                531,
                "Parameter expunge can be passed by Admin only or when the allow.user.expunge.recover.vm key is set.",
            )

        def gone() -> None:
            for volume in self.volumes.values():
                if volume.get("virtualmachineid") == id:
                    del volume["virtualmachineid"], volume["deviceid"]
            if expunge:
                self.vms.pop(id, None)
            else:
                vm["state"] = "Destroyed"
            self.stopped(vm)

        return self._done("destroyVirtualMachine", gone, id)

    def expungeVirtualMachine(self, id: str) -> Item:
        self._there("id", self.vms, id)
        return self._done("expungeVirtualMachine", lambda: self.vms.pop(id, None), id)

    def updateVirtualMachine(self, id: str, **given: Any) -> Item:
        vm = self._there("id", self.vms, id)
        if self.is_older:
            given.pop("deleteprotection", None)
        vm |= given
        return {"virtualmachine": vm}

    def createTags(self, resourceids: list[str], resourcetype: str, tags: list[Item]) -> Item:
        kept = {"UserVm": self.vms, "Network": self.networks, "Template": self.templates}[resourcetype]

        def tag() -> None:
            for id in resourceids:
                there = self._there("resourceids", kept, id)
                there["tags"] = [
                    each for each in there["tags"] if each["key"] not in {tag["key"] for tag in tags}
                ] + tags

        return self._done("createTags", tag)
