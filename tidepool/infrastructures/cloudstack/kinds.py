"""Kinds of resources of CloudStack that machines are made of, and the machines: the provider's side of `resources`."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.cloudstack.api import Api, NotThere, Wait
from tidepool.infrastructures.cloudstack.kind import CloudStackKind
from tidepool.infrastructures.cloudstack.machine import Order, delete, find, group_of, take, there
from tidepool.infrastructures.cloudstack.resources import (
    CloudStackAffinityGroup,
    CloudStackAffinityGroupModel,
    CloudStackMachine,
    CloudStackMachineModel,
    CloudStackServiceOffering,
    CloudStackServiceOfferingModel,
    CloudStackTemplate,
    CloudStackTemplateModel,
    CloudStackUserData,
    CloudStackUserDataModel,
)
from tidepool.infrastructures.cloudstack.service_offering import Shape, fitting
from tidepool.infrastructures.cloudstack.volume import attach, holder
from tidepool.resources.kind import AS_KNOWN, Made, Refusal, Task, Unfinished
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

#: Of words of a template's status: it will never be ready.
_FAILED: Final = re.compile(
    r"fail|error|mismatch|does not match|invalid|not found|refused|unable", re.IGNORECASE
)


class CloudStackTemplateKind(CloudStackKind[CloudStackTemplateModel]):
    """A template, which CloudStack fetches by itself, and checks."""

    resource = CloudStackTemplate
    timeout_s = 1800.0

    def create(self, wanted: CloudStackTemplateModel, task: Task) -> Made:
        api = self.api(wanted)
        zone = str(api.zone(wanted.zone)["id"])
        id = self._found(api, wanted)
        if not wanted.url:
            if not id:
                raise NotThere(f"there is no template {wanted.name} that these keys may use")
            return Made(id)
        id = id or self._registered(api, wanted, zone)
        wait = self.waiting(task)
        while not (said := self._status(api, id, zone)).get("isready"):
            status = str(said.get("status") or "being fetched")
            if _FAILED.search(status):
                self._remove(api, id, wait)
                raise Permanent(
                    f"CloudStack does not take {wanted.url} for {wanted.name}: {status}; put {Path(wanted.path).name or wanted.path} "
                    "there as it is on this machine, and see that its secondary storage reaches the URL"
                )
            if not wait(f"{wanted.name}: {status}"):
                raise Unfinished(
                    id,
                    f"{wanted.name} is not ready ({status}); the next `tidepool up` goes on",
                    cause="transient",
                )
        return Made(id)

    def look(self, id: str, state: CloudStackTemplateModel) -> Mapping[str, Plain] | None:
        api = self.api(state)
        return AS_KNOWN if self._status(api, id, "", _filter(state)) else None

    def delete(self, id: str, state: CloudStackTemplateModel, task: Task) -> None:
        if state.url:
            self._remove(self.api(state), id, self.waiting(task))

    def _found(self, api: Api, wanted: CloudStackTemplateModel) -> str:
        found = api.own("listTemplates", templatefilter=_filter(wanted), name=wanted.name)
        return next((str(each["id"]) for each in found if each["name"] == wanted.name), "")

    def _registered(self, api: Api, wanted: CloudStackTemplateModel, zone: str) -> str:
        types = api.listed("listOsTypes", description=wanted.os_type)
        os_type = next((each["id"] for each in types if each.get("description") == wanted.os_type), None)
        if os_type is None:
            raise NotThere(
                f"CloudStack knows no OS type {wanted.os_type}: write one of its own in os_type of the site's options"
            )
        said = api.call(
            "registerTemplate",
            **api.owner,
            name=wanted.name,
            displaytext=f"{wanted.name}, of Tidepool",
            url=wanted.url,
            checksum=f"{{SHA-256}}{_digest(Path(wanted.path))}",
            format="QCOW2",
            hypervisor=wanted.hypervisor,
            ostypeid=os_type,
            zoneid=zone,
            requireshvm=True,
            ispublic=False,
            passwordenabled=False,
        )
        return str(said["template"][0]["id"])

    def _status(self, api: Api, id: str, zone: str, of: str = "self") -> Mapping[str, Any]:
        try:
            found = api.own("listTemplates", templatefilter=of, id=id, zoneid=zone)
        except NotThere:
            return {}
        return found[0] if found else {}

    def _remove(self, api: Api, id: str, wait: Wait) -> None:
        try:
            api.do("deleteTemplate", wait, id=id)
        except NotThere:
            return


def _filter(wanted: CloudStackTemplateModel) -> str:
    """Return the name that CloudStack has for templates of one's own, or for all that one may use."""
    return "self" if wanted.url else "executable"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class CloudStackServiceOfferingKind(CloudStackKind[CloudStackServiceOfferingModel]):
    """A service offering that is there and fits; or one of the stack's own, where the keys may make it."""

    resource = CloudStackServiceOffering

    def create(self, wanted: CloudStackServiceOfferingModel, task: Task) -> Made:
        api = self.api(wanted)
        name = _own_offering(wanted) if wanted.make else wanted.name
        shape = Shape(wanted.cpus, wanted.memory_mib, wanted.details, name, tuple(wanted.host_tags))
        found = fitting(api.listed("listServiceOfferings"), shape)
        if found is not None:
            return Made(str(found["id"]))
        if not wanted.make:
            raise NotThere(
                f"no service offering fits {wanted.cpus} processors and {wanted.memory_mib} MiB: name one, have one made by "
                "an administrator, or write make_offerings: true where the keys are an administrator's"
            )
        made = api.call(
            "createServiceOffering",
            name=name,
            displaytext=f"{wanted.cpus} processors and {wanted.memory_mib} MiB, of Tidepool",
            cpunumber=wanted.cpus,
            cpuspeed=wanted.cpu_mhz,
            memory=wanted.memory_mib,
            hosttags=",".join(wanted.host_tags),
            serviceofferingdetails=[{"key": key, "value": value} for key, value in wanted.details.items()],
        )
        return Made(str(made["serviceoffering"]["id"]))

    def look(self, id: str, state: CloudStackServiceOfferingModel) -> Mapping[str, Plain] | None:
        try:
            return AS_KNOWN if self.api(state).listed("listServiceOfferings", id=id) else None
        except NotThere:
            return None

    def delete(self, id: str, state: CloudStackServiceOfferingModel, task: Task) -> None:
        if not state.make:
            return
        try:
            self.api(state).call("deleteServiceOffering", id=id)
        except NotThere:
            return


def _own_offering(wanted: CloudStackServiceOfferingModel) -> str:
    said = "".join(f"{key}={value};" for key, value in sorted(wanted.details.items()))
    said += "".join(f"{tag};" for tag in wanted.host_tags)
    besides = f"-{hashlib.sha256(said.encode()).hexdigest()[:8]}" if said else ""
    return f"{group_of(wanted.stack)}-{wanted.cpus}x{wanted.memory_mib}{besides}"


class CloudStackAffinityGroupKind(CloudStackKind[CloudStackAffinityGroupModel]):
    """An affinity group, by its name."""

    resource = CloudStackAffinityGroup

    def create(self, wanted: CloudStackAffinityGroupModel, task: Task) -> Made:
        api = self.api(wanted)
        found = [each for each in api.own("listAffinityGroups") if each["name"] == wanted.name]
        if found:
            return Made(str(found[0]["id"]))
        made = api.do(
            "createAffinityGroup", self.waiting(task), **api.owner, name=wanted.name, type=wanted.type
        )
        return Made(str(made["affinitygroup"]["id"]))

    def look(self, id: str, state: CloudStackAffinityGroupModel) -> Mapping[str, Plain] | None:
        found = [each for each in self.api(state).own("listAffinityGroups") if each["id"] == id]
        return AS_KNOWN if found else None

    def delete(self, id: str, state: CloudStackAffinityGroupModel, task: Task) -> None:
        try:
            self.api(state).do("deleteAffinityGroup", self.waiting(task), id=id)
        except NotThere:
            return


class CloudStackUserDataKind(CloudStackKind[CloudStackUserDataModel]):
    """User data of a boot. What is registered cannot be changed: another content is another one, which machines are moved to."""

    resource = CloudStackUserData

    def create(self, wanted: CloudStackUserDataModel, task: Task) -> Made:
        api = self.api(wanted)
        prefix = user_data_prefix(wanted.stack, wanted.boot)
        told = base64.b64encode(gzip.compress(wanted.content.encode(), mtime=0)).decode()
        name = f"{prefix}{hashlib.sha256(told.encode()).hexdigest()[:16]}"
        known = registered(api, prefix)
        id = known.get(name) or self._registered(api, name, told)
        old = {other for other_name, other in known.items() if other_name != name}
        for vm in find(api, wanted.stack):
            # One that is in use stays.
            if vm.user_data in old and not vm.is_gone:
                api.call("updateVirtualMachine", id=vm.id, userdataid=id)
        for other in old:
            self._remove(api, other)
        return Made(prefix)

    def look(self, id: str, state: CloudStackUserDataModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if registered(self.api(state), id) else None

    def delete(self, id: str, state: CloudStackUserDataModel, task: Task) -> None:
        api = self.api(state)
        for other in registered(api, id).values():
            self._remove(api, other)

    def _registered(self, api: Api, name: str, told: str) -> str:
        try:
            said = api.call("registerUserData", **api.owner, name=name, userdata=told)
        except Permanent as error:
            if "too long" not in str(error):
                raise
            raise Permanent(
                f"{error}: it has {len(told)} bytes; raise CloudStack's setting vm.userdata.max.length, or name fewer fleets "
                "and partitions"
            ) from error
        return str(said["userdata"]["id"])

    def _remove(self, api: Api, id: str) -> None:
        try:
            api.call("deleteUserData", **api.owner, id=id)
        except NotThere:
            return


def user_data_prefix(stack: str, boot: str) -> str:
    """Return what the names of a boot's user data begin with; a digest follows."""
    return f"{group_of(stack)}-{boot}@"


def registered(api: Api, prefix: str) -> Mapping[str, str]:
    """Return the ids of user data whose names begin so, by their names."""
    found = api.own("listUserData")
    return {str(each["name"]): str(each["id"]) for each in found if str(each["name"]).startswith(prefix)}


class CloudStackMachineKind(CloudStackKind[CloudStackMachineModel]):
    """A VM that is a machine."""

    resource = CloudStackMachine
    timeout_s = 600.0

    def mistakes(self, wanted: CloudStackMachineModel) -> Iterable[Mistake]:
        yield from super().mistakes(wanted)
        try:
            IPv4Address(wanted.address)
        except ValueError:
            yield Mistake("address", f"it is {wanted.address!r}; an IPv4 address is wanted")

    def create(self, wanted: CloudStackMachineModel, task: Task) -> Made:
        api = self.api(wanted)
        key = MachineKey(wanted.stack, wanted.machine)
        told = registered(api, wanted.boot)
        if not told:
            raise Transient(f"{key}: the user data {wanted.boot} is not there; `tidepool up` makes it again")
        order = Order(
            key,
            wanted.address,
            str(api.zone(wanted.zone)["id"]),
            wanted.network,
            wanted.template,
            wanted.offering,
            wanted.cpus,
            wanted.memory_mib,
            wanted.disk_gib,
            next(iter(told.values())),
            tuple(wanted.affinity_groups),
            extra_config=wanted.extra_config,
        )
        wait = self.waiting(task)
        try:
            return Made(self._taken(api, order, wanted, wait))
        except Transient as error:
            begun = [vm for vm in find(api, wanted.stack, wanted.machine) if not vm.is_gone]
            if not begun:
                raise
            try:
                # Its answer was lost, and it is there.
                return Made(self._taken(api, order, wanted, wait))
            except Transient:
                # What was begun is Pulumi's, so that a `destroy` takes it away as well.
                reason = f"{error}; the next `tidepool up` goes on from here"
                raise Unfinished(begun[0].id, reason, cause="transient") from error

    def _taken(self, api: Api, order: Order, wanted: CloudStackMachineModel, wait: Wait) -> str:
        vm = take(api, order, wait)
        if wanted.volume:
            attach(api, wanted.volume, vm.id, wait)
        return vm.id

    def update(
        self, id: str, old: CloudStackMachineModel, wanted: CloudStackMachineModel, task: Task
    ) -> Mapping[str, Plain]:
        vm = there(self.api(wanted), id)
        if vm is None or vm.state == "Error":
            raise Refusal(
                f"{MachineKey(wanted.stack, wanted.machine, id)} is gone; `tidepool up --refresh` makes another one",
                "transient",
            )
        return super().update(id, old, wanted, task)

    def look(self, id: str, state: CloudStackMachineModel) -> Mapping[str, Plain] | None:
        vm = there(self.api(state), id)
        # One in error never ran and never will: the next one takes it away.
        if vm is None or vm.state == "Error":
            return None
        if vm.state not in ("Running", "Starting", "Migrating"):
            return {"state": "stopped"}
        if state.volume and holder(self.api(state), state.volume) != id:
            return {"state": "without its volume"}
        if not vm.is_tagged:
            return {"state": "without its tags"}
        # One that was made by an earlier release; or somebody took it off, and did not destroy it.
        return {"state": "unprotected"} if vm.is_protected is False else AS_KNOWN

    def delete(self, id: str, state: CloudStackMachineModel, task: Task) -> None:
        delete(self.api(state), MachineKey(state.stack, state.machine, id), self.waiting(task))
