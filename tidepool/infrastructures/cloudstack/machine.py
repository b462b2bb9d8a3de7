"""VMs that are machines: found by what their deploy call gave them, made, and taken away with their disks.

The call has no tags. What it has is the name, which is the node's, and the group, which is the stack's: by these one whose answer
was lost is found. Tags follow, for people and their bills.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.cloudstack.api import Api, NotThere, Wait

STACK: Final = "tidepool:stack"
NODE: Final = "tidepool:node"
#: It has a name and an address still, and comes back only by hand.
_GONE: Final = ("Destroyed", "Expunging")
_MOVES: Final = ("Starting", "Stopping", "Migrating")


@dataclass(frozen=True, slots=True)
class Vm:
    """A VM as CloudStack lists it."""

    id: str
    name: str
    stack: str
    state: str
    address: str = ""
    created: str = ""
    user_data: str = ""
    is_tagged: bool = False
    #: Whether CloudStack refuses to destroy it. None where it does not say: releases before 4.20 have no such protection.
    is_protected: bool | None = None

    @property
    def key(self) -> MachineKey:
        return MachineKey(self.stack, self.name, self.id)

    @property
    def is_gone(self) -> bool:
        return self.state in _GONE


@dataclass(frozen=True, slots=True)
class Order:
    """A machine that is to be: ids of what it is made of. ``cpus`` and ``memory_mib`` are for offerings that leave them open."""

    key: MachineKey
    address: str
    zone: str
    network: str
    template: str
    offering: str
    cpus: int
    memory_mib: int
    disk_gib: int = 0
    user_data: str = ""
    affinity_groups: tuple[str, ...] = ()
    extra_config: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


def group_of(stack: str) -> str:
    """Return the name of the instance group, network and so on of a stack."""
    return f"tidepool-{stack}"


def tags(pairs: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as CloudStack takes them."""
    return [{"key": key, "value": value} for key, value in pairs.items()]


def tag(api: Api, what: str, id: str, pairs: Mapping[str, str], wait: Wait) -> None:
    """Give a resource its tags."""
    api.do("createTags", wait, resourceids=id, resourcetype=what, tags=tags(pairs))


def read(said: Mapping[str, Any]) -> Vm | None:
    """Return the VM of what a list says; None where it is no machine of Tidepool's."""
    told = {each["key"]: each["value"] for each in said.get("tags", ())}
    group = str(said.get("group") or "")
    stack = told.get(STACK) or (group.removeprefix("tidepool-") if group.startswith("tidepool-") else "")
    if not stack:
        return None
    nics = said.get("nic", ())
    first = next((nic for nic in nics if nic.get("isdefault")), nics[0] if nics else {})
    return Vm(
        str(said["id"]),
        str(told.get(NODE) or said["name"]),
        stack,
        str(said["state"]),
        str(first.get("ipaddress") or ""),
        str(said.get("created") or ""),
        str(said.get("userdataid") or ""),
        STACK in told,
        said.get("deleteprotection"),
    )


def find(api: Api, stack: str, node: str = "") -> list[Vm]:
    """Find the VMs of that stack, or of that node; those too that are gone, where CloudStack shows them.

    All that the owner has are asked for: of one name there may be another stack's, and a filter by tags would leave out one that
    has none yet.
    """
    listed = (read(said) for said in api.own("listVirtualMachines", details="group,nics"))
    return [vm for vm in listed if vm is not None and vm.stack == stack and node in ("", vm.name)]


def there(api: Api, id: str) -> Vm | None:
    """Return the VM of that id; None where it is gone."""
    try:
        found = [read(said) for said in api.own("listVirtualMachines", id=id, details="group,nics")]
    except NotThere:
        return None
    return next((vm for vm in found if vm is not None and not vm.is_gone), None)


def take(api: Api, order: Order, wait: Wait) -> Vm:
    """Return the machine of ``order``, running: the one that is there, started where it was stopped, else a new one.

    Raises:
        InsufficientCapacity: there is no room, or a quota is reached; nothing is left.
        Transient: it is not over yet; the next call goes on.
    """
    key = order.key
    for vm in find(api, key.stack, key.node):
        if vm.is_gone:
            _expunge(api, vm, wait)
        elif (kept := _running(api, vm, wait)) is not None:
            return _completed(api, kept, order, wait)
    try:
        said = api.call("deployVirtualMachine", **_parameters(api, order))
    except InfrastructureError as error:
        raise type(error)(f"{key} is not made: {error}") from error
    made = MachineKey(key.stack, key.node, str(said["id"]))
    try:
        api.result("deployVirtualMachine", str(said["jobid"]), wait)
    except (InsufficientCapacity, Permanent) as error:
        raise type(error)(f"{made} is not made: {error}{_tidied(api, made.machine_id, wait)}") from error
    vm = _known(api, made)
    if vm.state == "Error":
        raise Transient(f"{made} is not made: it is in error, and nobody says why")
    return _completed(api, vm, order, wait)


def _parameters(api: Api, order: Order) -> dict[str, Any]:
    key = order.key
    custom = next(
        (each.get("iscustomized") for each in api.listed("listServiceOfferings", id=order.offering)), False
    )
    sizes = {"cpuNumber": order.cpus, "memory": order.memory_mib}
    return {
        **api.owner,
        "zoneid": order.zone,
        "name": key.node,
        "displayname": f"{key.stack}-{key.node}",
        "group": group_of(key.stack),
        "networkids": [order.network],
        "ipaddress": order.address,
        "templateid": order.template,
        "serviceofferingid": order.offering,
        "details": sizes if custom else None,
        "rootdisksize": order.disk_gib or None,
        "userdataid": order.user_data,
        "affinitygroupids": list(order.affinity_groups),
        # It is decoded once more than other parameters; and no signature has a tilde.
        "extraconfig": quote(order.extra_config).replace("~", "%7E"),
    }


def _running(api: Api, vm: Vm, wait: Wait) -> Vm | None:
    """Have it run; None where it never will, and is taken away."""
    while vm.state in _MOVES:
        if not wait(f"{vm.key} is {vm.state}"):
            raise Transient(f"{vm.key} is still {vm.state}: its job goes on")
        vm = _known(api, vm.key)
    if vm.state == "Error":
        # What it said was told to who asked for it; the next one says what is so now.
        take_away(api, vm, wait)
        return None
    if vm.state != "Running":
        try:
            api.do("startVirtualMachine", wait, id=vm.id)
        except InfrastructureError as error:
            raise type(error)(f"{vm.key} is not started: {error}") from error
        return _known(api, vm.key)
    return vm


def _known(api: Api, key: MachineKey) -> Vm:
    found = there(api, key.machine_id)
    if found is None:
        raise Transient(f"{key} is not seen, right after it was")
    return found


def _completed(api: Api, vm: Vm, order: Order, wait: Wait) -> Vm:
    """Give it what the deploy call has not: its tags; and its protection, that nobody destroys it by mistake."""
    if not vm.is_tagged:
        pairs = {STACK: order.key.stack, NODE: order.key.node, **order.tags}
        tag(api, "UserVm", vm.id, pairs, wait)
    if vm.is_protected is False:
        _protect(api, vm.id, on=True)
    return vm


def _protect(api: Api, id: str, *, on: bool) -> None:
    api.call("updateVirtualMachine", id=id, deleteprotection=on)


def _tidied(api: Api, id: str, wait: Wait) -> str:
    """Take away what a deploy left that found no room; tell where that does not work."""
    try:
        _destroy(api, id, wait)
    except InfrastructureError as error:
        return f"; and what is left of it stays: {error}"
    return ""


def take_away(api: Api, vm: Vm, wait: Wait) -> None:
    """Take a VM away, with its disk, so that its name and its address are free. One that is gone is no error."""
    try:
        if vm.is_gone:
            _expunge(api, vm, wait)
            return
        if vm.is_protected:
            _unprotect(api, vm.id)
        _destroy(api, vm.id, wait)
    except InfrastructureError as error:
        raise type(error)(f"{vm.key} is not deleted: {error}") from error


def _expunge(api: Api, vm: Vm, wait: Wait) -> None:
    try:
        if vm.state != "Expunging":
            api.do("expungeVirtualMachine", wait, id=vm.id)
    except NotThere:
        return


def _unprotect(api: Api, id: str) -> None:
    try:
        _protect(api, id, on=False)
    except NotThere:
        return


def _destroy(api: Api, id: str, wait: Wait) -> None:
    try:
        api.do("destroyVirtualMachine", wait, id=id, expunge=True)
    except NotThere:
        return


def delete(api: Api, key: MachineKey, wait: Wait) -> None:
    """Take away the machines of ``key``, all that the node has where it has no id."""
    for vm in _of(find(api, key.stack, key.node), key):
        take_away(api, vm, wait)


def _of(vms: Iterable[Vm], key: MachineKey) -> list[Vm]:
    return [vm for vm in vms if key.matches(vm.key)]
