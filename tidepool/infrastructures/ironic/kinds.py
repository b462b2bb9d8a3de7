"""Kinds of resources of Ironic: the hosts that are enrolled, and those that are machines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tidepool.cluster.failures import Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.boot_media.credentials import read_credentials
from tidepool.infrastructures.boot_media.kinds import address_mistakes, bootable
from tidepool.infrastructures.boot_media.media import Kept, Medium
from tidepool.infrastructures.boot_media.seeds import seed
from tidepool.infrastructures.boot_media.waiting import waiting_in_task
from tidepool.infrastructures.ironic.api import Enrolment, IronicLocation, NotThere, Open
from tidepool.infrastructures.ironic.enrolment import delete_host, enrol
from tidepool.infrastructures.ironic.inventory import Need
from tidepool.infrastructures.ironic.machine import Hosts, Order
from tidepool.infrastructures.ironic.resources import (
    IronicHost,
    IronicHostModel,
    IronicMachine,
    IronicMachineModel,
)
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Made, Task, Unfinished
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

#: As long as those of all hosts.
_ANY_MAC = "00:00:00:00:00:00"


class IronicHostKind(IdempotentKind[IronicHostModel]):
    """A host that is enrolled."""

    resource = IronicHost
    #: With what the site has it cleaned by.
    timeout_s = 3600.0

    def __init__(
        self, home: Home, open: Open = IronicLocation.open, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(home)
        self._open = open
        self._sleep = sleep

    def create(self, wanted: IronicHostModel, task: Task) -> Made:
        user, password = read_credentials(Path(wanted.credentials).expanduser())
        told = {
            "redfish_address": wanted.bmc,
            "redfish_username": user,
            "redfish_password": password,
            "redfish_verify_ca": wanted.verify,
            **({"redfish_system_id": wanted.system} if wanted.system else {}),
        }
        entry = Enrolment(
            wanted.stack,
            wanted.host,
            wanted.mac,
            wanted.resource_class,
            tuple(wanted.traits),
            wanted.physical_network,
        )
        ironic = self._open(wanted.ironic)
        try:
            return Made(enrol(ironic, entry, told, waiting_in_task(task, self._sleep)).uuid)
        except Transient as error:
            try:
                begun = ironic.host(wanted.host).uuid
            except NotThere:
                raise error from None
            raise Unfinished(begun, str(error), cause="transient") from error

    def look(self, id: str, state: IronicHostModel) -> Mapping[str, Plain] | None:
        try:
            self._open(state.ironic).host(id)
        except NotThere:
            return None
        return AS_KNOWN

    def delete(self, id: str, state: IronicHostModel, task: Task) -> None:
        delete_host(self._open(state.ironic), id, state.stack, waiting_in_task(task, self._sleep))


class IronicMachineKind(IdempotentKind[IronicMachineModel]):
    """A node of Ironic that is a machine."""

    resource = IronicMachine
    #: Ironic waits for BMCs, which take minutes to be told something.
    timeout_s = 1800.0

    def __init__(
        self, home: Home, open: Open = IronicLocation.open, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(home)
        self._open = open
        self._sleep = sleep

    def mistakes(self, wanted: IronicMachineModel) -> Iterable[Mistake]:
        yield from address_mistakes(wanted.address)

    def create(self, wanted: IronicMachineModel, task: Task) -> Made:
        kept, key = Kept(self._home.data, wanted.stack), MachineKey(wanted.stack, wanted.machine)
        user_data = bootable(kept, key, wanted.boot, wanted.image)
        # There is room for it, or no host is claimed.
        seed(_medium(wanted, _ANY_MAC), user_data, wanted.boot_service)
        network = wanted.network
        need = Need(
            wanted.cpus,
            wanted.memory_mib,
            wanted.resource_class,
            tuple(wanted.traits),
            network.physical_network,
        )

        def publish(instance: str, mac: str) -> str:
            kept.write(instance, _medium(wanted, mac))
            # Where bare metal is in the stack as well, its own site says the same.
            if "hosts" not in json.loads(kept.read_site() or "{}"):
                kept.write_site(json.dumps({"boot_service": wanted.boot_service}))
            return f"{wanted.boot_service.rstrip('/')}{kept.path(instance)}.iso"

        hosts = self._hosts(wanted)
        try:
            held = hosts.take(
                Order(key, need, tuple(wanted.hosts), publish, kept.remove),
                waiting_in_task(task, self._sleep),
            )
            return Made(held.key.machine_id)
        except Transient as error:
            found = hosts.find(key.stack, key.node)
            if not found:
                raise
            # What was begun is Pulumi's, so that a `destroy` takes it away as well.
            reason = f"{error}; the next `tidepool up` goes on from here"
            raise Unfinished(found[0].key.machine_id, reason, cause="transient") from error

    def look(self, id: str, state: IronicMachineModel) -> Mapping[str, Plain] | None:
        found = self._hosts(state).find(state.stack, state.machine)
        held = next((each for each in found if each.key.machine_id == id), None)
        if held is None:
            return None
        return AS_KNOWN if held.host.is_on else {"state": "off"}

    def delete(self, id: str, state: IronicMachineModel, task: Task) -> None:
        self._hosts(state).delete(
            MachineKey(state.stack, state.machine, id), waiting_in_task(task, self._sleep)
        )
        Kept(self._home.data, state.stack).remove(id)

    def _hosts(self, wanted: IronicMachineModel) -> Hosts:
        return Hosts(self._open(wanted.ironic))


def _medium(wanted: IronicMachineModel, mac: str) -> Medium:
    network = wanted.network
    return Medium(
        stack=wanted.stack,
        node=wanted.machine,
        image=wanted.image,
        boot=wanted.boot,
        mac=mac,
        address=f"{wanted.address}/{network.prefix}",
        gateway=network.gateway,
        nameservers=tuple(network.nameservers),
    )
