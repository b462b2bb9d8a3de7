"""Kinds of resources of bare metal: the site and the boots, which are files here, and the hosts that are machines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tidepool.cluster.failures import Transient
from tidepool.images.errors import ImageError
from tidepool.images.iso import seed_at
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.metal.inventory import Need
from tidepool.infrastructures.metal.machine import HostEntry, Hosts, Order, Wait
from tidepool.infrastructures.metal.media import Kept, Medium, seed
from tidepool.infrastructures.metal.redfish import BmcLocation, Open
from tidepool.infrastructures.metal.resources import (
    MetalBoot,
    MetalBootModel,
    MetalMachine,
    MetalMachineModel,
    MetalSite,
    MetalSiteModel,
)
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Made, Refusal, Task, Unfinished
from tidepool.resources.model import to_wire
from tidepool.resources.reading import Mistake, read
from tidepool.resources.values import Plain

_AGAIN_S = 2.0


class MetalSiteKind(IdempotentKind[MetalSiteModel]):
    """A file of this machine."""

    resource = MetalSite

    def create(self, wanted: MetalSiteModel, task: Task) -> Made:
        Kept(self._home.data, wanted.stack).write_site(_site(wanted))
        return Made(wanted.stack)

    def look(self, id: str, state: MetalSiteModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if Kept(self._home.data, id).read_site() == _site(state) else {"state": "another"}

    def delete(self, id: str, state: MetalSiteModel, task: Task) -> None:
        Kept(self._home.data, id).remove_site()


def _site(wanted: MetalSiteModel) -> str:
    told = {
        "hosts": {name: to_wire(host) for name, host in wanted.hosts.items()},
        "boot_service": wanted.boot_service,
        "prefix": wanted.prefix,
        "gateway": wanted.gateway,
        "nameservers": list(wanted.nameservers),
    }
    return json.dumps(told, sort_keys=True)


class MetalBootKind(IdempotentKind[MetalBootModel]):
    """A file of this machine, for its boot service."""

    resource = MetalBoot

    def create(self, wanted: MetalBootModel, task: Task) -> Made:
        Kept(self._home.data, wanted.stack).write_boot(wanted.boot, wanted.content)
        return Made(wanted.boot)

    def look(self, id: str, state: MetalBootModel) -> Mapping[str, Plain] | None:
        there = Kept(self._home.data, state.stack).read_boot(id)
        # What is otherwise may be a key, and is not worth showing.
        return AS_KNOWN if there == state.content else {"state": "another"}

    def delete(self, id: str, state: MetalBootModel, task: Task) -> None:
        Kept(self._home.data, state.stack).remove_boot(id)


class MetalMachineKind(IdempotentKind[MetalMachineModel]):
    """A host that is a machine."""

    resource = MetalMachine
    timeout_s = 900.0

    def __init__(
        self, home: Home, open: Open = BmcLocation.open, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(home)
        self._open = open
        self._sleep = sleep

    def mistakes(self, wanted: MetalMachineModel) -> Iterable[Mistake]:
        try:
            IPv4Address(wanted.address)
        except ValueError:
            yield Mistake("address", f"it is {wanted.address!r}; an IPv4 address is wanted")

    def create(self, wanted: MetalMachineModel, task: Task) -> Made:
        kept, site = self._site(wanted)
        key = MachineKey(wanted.stack, wanted.machine)
        if (user_data := kept.read_boot(wanted.boot)) is None:
            raise Transient(
                f"{key}: the boot {wanted.boot} is not there; `tidepool up --refresh` writes it again"
            )
        try:
            seed_at(Path(wanted.image))
        except (ImageError, OSError) as error:
            raise Refusal(f"{key}: {wanted.image} is nothing to boot from: {error}", "permanent") from error
        hosts = self._hosts(site)
        # There is room for it, or no host is switched on; the hardware address is as long for each.
        seed(_medium(wanted, site, next(iter(hosts.entries.values())).mac), user_data)
        order = Order(
            key,
            Need(wanted.cpus, wanted.memory_mib, wanted.bios),
            tuple(each for each in wanted.hosts or hosts.entries if each in hosts.entries),
            self._publish(wanted, kept, site, hosts),
        )
        try:
            return Made(hosts.take(order, self._waiting(task)).key.machine_id)
        except Transient as error:
            found, _ = hosts.find(key.stack, key.node)
            if not found:
                raise
            # What was begun is Pulumi's, so that a `destroy` takes it away as well.
            reason = f"{error}; the next `tidepool up` goes on from here"
            raise Unfinished(found[0].key.machine_id, reason, cause="transient") from error

    def look(self, id: str, state: MetalMachineModel) -> Mapping[str, Plain] | None:
        _, site = self._site(state)
        found, silent = self._hosts(site).find(state.stack, state.machine, id.partition("/")[0])
        held = next((each for each in found if each.key.machine_id == id), None)
        if held is None:
            return AS_KNOWN if silent else None  # not seen is not gone
        return AS_KNOWN if held.facts.is_on else {"state": "off"}

    def delete(self, id: str, state: MetalMachineModel, task: Task) -> None:
        kept, site = self._site(state)
        self._hosts(site).delete(MachineKey(state.stack, state.machine, id), self._waiting(task))
        kept.remove(id.partition("/")[0])

    def _publish(
        self, wanted: MetalMachineModel, kept: Kept, site: Mapping[str, Any], hosts: Hosts
    ) -> Callable[[str], str]:
        def url(host: str) -> str:
            kept.write(host, _medium(wanted, site, hosts.entries[host].mac))
            return f"{site['boot_service'].rstrip('/')}{kept.path(host)}"

        return url

    def _site(self, wanted: MetalMachineModel) -> tuple[Kept, Mapping[str, Any]]:
        kept = Kept(self._home.data, wanted.stack)
        if (text := kept.read_site()) is None:
            raise Refusal(
                f"the hosts of the stack {wanted.stack} are not known on this machine: `tidepool up --refresh` writes them again",
                "transient",
            )
        return kept, json.loads(text)

    def _hosts(self, site: Mapping[str, Any]) -> Hosts:
        entries = {name: read(HostEntry, said).value for name, said in site["hosts"].items()}
        return Hosts(entries, self._open, self._sleep)

    def _waiting(self, task: Task) -> Wait:
        """Wait as long as an operation may take; each reason is shown once."""
        shown: list[str] = []

        def wait(why: str) -> bool:
            if why not in shown:
                task.status(f"waiting for {why}")
                shown.append(why)
            self._sleep(_AGAIN_S)
            return task.left_s > _AGAIN_S and not task.cancelled()

        return wait


def _medium(wanted: MetalMachineModel, site: Mapping[str, Any], mac: str) -> Medium:
    return Medium(
        wanted.machine,
        wanted.image,
        wanted.boot,
        mac,
        f"{wanted.address}/{site['prefix']}",
        site["gateway"],
        tuple(site["nameservers"]),
    )
