"""What a department finds in a CloudStack, and what it registers there: offerings, templates, user data, affinity."""

from __future__ import annotations

from typing import Any

from tests.infrastructures.cloudstack.state import CloudError, Item, State, new_id


class Catalogue(State):
    """Its commands."""

    # What the department finds there

    def listCapabilities(self) -> Item:
        return {"capability": self.capabilities}

    def listZones(self, **_: Any) -> Item:
        return {"zone": [self.zone]}

    def listProjects(self, **_: Any) -> Item:
        return {"project": [{**each, **self._available()} for each in self.projects]}

    def listAccounts(self, **_: Any) -> Item:
        return {"account": [{"id": "a", "name": "physics", **self._available()}]}

    def listDomains(self, **_: Any) -> Item:
        return {"domain": self.domains}

    def listOsTypes(self, **_: Any) -> Item:
        return {"ostype": self.os_types}

    def listNetworkOfferings(self, **_: Any) -> Item:
        return {"networkoffering": self.network_offerings}

    def listVPCs(self, **_: Any) -> Item:
        return {"vpc": self.vpcs}

    def listHosts(self, **_: Any) -> Item:
        return {
            "host": [
                {
                    "id": host.name,
                    "name": host.name,
                    "type": "Routing",
                    "state": "Up",
                    "resourcestate": "Enabled",
                    "arch": host.arch,
                    "cpunumber": host.cpus,
                    "memorytotal": host.memory_mib * 1024**2,
                    "memoryallocatedbytes": self._taken(host)[1] * 1024**2,
                    "cpuallocatedvalue": self._taken(host)[0] * 2000,
                    "cpuspeed": 2000,
                }
                for host in self.hosts
            ]
        }

    # Offerings, templates, user data, affinity

    def listServiceOfferings(self, id: str = "", **_: Any) -> Item:
        return {"serviceoffering": [each for each in self.service_offerings if id in ("", each["id"])]}

    def createServiceOffering(self, name: str, cpunumber: int, memory: int, **more: Any) -> Item:
        details = {each["key"]: each["value"] for each in more.get("serviceofferingdetails", ())}
        if {"pciDevice", "vgpuType"} & {*details}:
            raise CloudError(431, "Please specify the pciDevice and vgpuType correctly.")
        made = {**self._offering(name, cpunumber, memory), "serviceofferingdetails": details}
        made["hosttags"] = more.get("hosttags")
        self.service_offerings.append(made)
        return {"serviceoffering": made}

    def deleteServiceOffering(self, id: str) -> Item:
        self._there("id", {each["id"]: each for each in self.service_offerings}, id)
        self.service_offerings = [each for each in self.service_offerings if each["id"] != id]
        return {"success": "true"}

    def registerTemplate(self, name: str, url: str, checksum: str = "", **given: Any) -> Item:
        if url not in self.images:
            raise CloudError(431, f"URL is not reachable: {url}")
        well = checksum in ("", f"{{SHA-256}}{self.images[url]}")
        made = {
            "id": new_id(),
            "name": name,
            "url": url,
            "checksum": checksum,
            "arch": given.get("arch", "x86_64"),
            "hypervisor": given["hypervisor"],
            "zoneid": given.get("zoneid"),
            "isready": well,
            "status": "Download Complete"
            if well
            else f"Failed post download script: checksum {checksum} does not match",
            "tags": [],
        }
        self.templates[made["id"]] = made
        return {"template": [made]}

    def listTemplates(self, templatefilter: str, id: str = "", name: str = "", **_: Any) -> Item:
        return {
            "template": [
                each
                for each in self.templates.values()
                if id in ("", each["id"]) and name in ("", each["name"])
            ]
        }

    def deleteTemplate(self, id: str, **_: Any) -> Item:
        self._there("id", self.templates, id)
        return self._done("deleteTemplate", lambda: self.templates.pop(id, None))

    def registerUserData(self, name: str, userdata: str, **_: Any) -> Item:
        if len(userdata) > 32768:
            raise CloudError(431, "User data is too long, the length is limited to 32768 bytes")
        if any(each["name"] == name for each in self.user_data.values()):
            raise CloudError(531, f"A userdata with name '{name}' already exists.")
        made = {"id": new_id(), "name": name, "userdata": userdata}
        self.user_data[made["id"]] = made
        return {"userdata": made}

    def listUserData(self, id: str = "", **_: Any) -> Item:
        return {"userdata": [each for each in self.user_data.values() if id in ("", each["id"])]}

    def deleteUserData(self, id: str, **_: Any) -> Item:
        self._there("id", self.user_data, id)
        if any(vm.get("userdataid") == id for vm in self.vms.values()):
            raise CloudError(530, f"Userdata {id} cannot be removed as it is being used by some VMs")
        del self.user_data[id]
        return {"success": True}

    def createAffinityGroup(self, name: str, type: str, **_: Any) -> Item:
        if any(each["name"] == name for each in self.affinity.values()):
            raise CloudError(
                431, f"Unable to create affinity group, a group with name {name} already exists."
            )
        made = {"id": new_id(), "name": name, "type": type}
        self.affinity[made["id"]] = made
        return self._job("createAffinityGroup", lambda: {"affinitygroup": made}, made["id"])

    def listAffinityGroups(self, id: str = "", name: str = "", **_: Any) -> Item:
        return {
            "affinitygroup": [
                each
                for each in self.affinity.values()
                if id in ("", each["id"]) and name in ("", each["name"])
            ]
        }

    def deleteAffinityGroup(self, id: str, **_: Any) -> Item:
        self._there("id", self.affinity, id)
        return self._done("deleteAffinityGroup", lambda: self.affinity.pop(id, None))
