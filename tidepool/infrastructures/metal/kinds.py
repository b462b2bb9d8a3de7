"""Kinds of resources of bare metal: the site, which is a file here, and the hosts that are machines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidepool.cluster.failures import Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.boot_media.kinds import address_mistakes, bootable
from tidepool.infrastructures.boot_media.media import Kept, Medium
from tidepool.infrastructures.boot_media.seeds import seed
from tidepool.infrastructures.boot_media.silence import silence
from tidepool.infrastructures.boot_media.waiting import Wait, waiting_in_task
from tidepool.infrastructures.metal.inventory import Need
from tidepool.infrastructures.metal.machine import HostEntry, Hosts, Order
from tidepool.infrastructures.metal.published import Published
from tidepool.infrastructures.metal.redfish import BmcLocation, Open
from tidepool.infrastructures.metal.resources import (
    MetalMachine,
    MetalMachineModel,
    MetalSite,
    MetalSiteModel,
)
from tidepool.infrastructures.metal.resting import Failures
from tidepool.infrastructures.metal.tasks import NotOver
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Made, Refusal, Task, Unfinished
from tidepool.resources.model import to_wire
from tidepool.resources.reading import Mistake, read
from tidepool.resources.values import Plain


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


class MetalMachineKind(IdempotentKind[MetalMachineModel]):
    """A host that is a machine."""

    resource = MetalMachine
    timeout_s = 900.0

    def __init__(
        self,
        home: Home,
        open: Open = BmcLocation.open,
        sleep: Callable[[float], None] = time.sleep,
        silence: Callable[[str], str] = silence,
    ) -> None:
        super().__init__(home)
        self._open = open
        self._sleep = sleep
        self._silence = silence

    def mistakes(self, wanted: MetalMachineModel) -> Iterable[Mistake]:
        yield from address_mistakes(wanted.address)

    def create(self, wanted: MetalMachineModel, task: Task) -> Made:
        kept, site = self._site(wanted)
        key = MachineKey(wanted.stack, wanted.machine)
        user_data = bootable(kept, key, wanted.boot, wanted.image)
        hosts, failures = self._hosts(kept, site, wanted), Failures(kept)
        # There is room for it, or no host is switched on; the hardware address is as long for each.
        seed(_medium(wanted, site, next(iter(hosts.entries.values())).mac), user_data, "")
        order = Order(
            key,
            Need(wanted.cpus, wanted.memory_mib, wanted.bios),
            tuple(each for each in wanted.hosts or hosts.entries if each in hosts.entries),
            bool(wanted.disk_image),
            failures.resting(),
            lambda host, wait: self._came_up(host, wanted, kept, wait),
            failures.note,
        )
        try:
            held = hosts.take(order, waiting_in_task(task, self._sleep))
        except Transient as error:
            found, _ = hosts.find(key.stack, key.node)
            if not found:
                raise
            # What was begun is Pulumi's, so that a `destroy` takes it away as well.
            reason = f"{error}; the next `tidepool up` goes on from here"
            raise Unfinished(found[0].key.machine_id, reason, cause="transient") from error
        failures.clear(held.host)
        if held.unkept:
            task.warn(
                f"the host {held.host} has booted, and of its BIOS {'; '.join(held.unkept)}: see whether its firmware lets that be set"
            )
        return Made(held.key.machine_id)

    def _came_up(self, host: str, wanted: MetalMachineModel, kept: Kept, wait: Wait) -> str:
        """Wait for it to answer by SSH; gives what keeps it, when its time is up."""
        ends = time.monotonic() + wanted.boot_timeout_s
        while why := self._silence(wanted.address):
            if time.monotonic() >= ends:
                log = kept.log(host)
                said = (
                    f"what its boot said is in {log}"
                    if log.exists()
                    else "its boot said nothing here, so look at its console"
                )
                return f"it was switched on, and does not answer by SSH within {wanted.boot_timeout_s} s ({why}); {said}"
            if not wait(f"{host} to answer by SSH"):
                raise NotOver(f"the host {host} is switched on, and does not answer by SSH yet ({why})")
        return ""

    def look(self, id: str, state: MetalMachineModel) -> Mapping[str, Plain] | None:
        kept, site = self._site(state)
        found, silent = self._hosts(kept, site, state).find(state.stack, state.machine, id.partition("/")[0])
        held = next((each for each in found if each.key.machine_id == id), None)
        if held is None:
            return AS_KNOWN if silent else None  # not seen is not gone
        return AS_KNOWN if held.facts.is_on else {"state": "off"}

    def delete(self, id: str, state: MetalMachineModel, task: Task) -> None:
        kept, site = self._site(state)
        self._hosts(kept, site, state).delete(
            MachineKey(state.stack, state.machine, id), waiting_in_task(task, self._sleep)
        )
        kept.remove(id.partition("/")[0])

    def _site(self, wanted: MetalMachineModel) -> tuple[Kept, Mapping[str, Any]]:
        kept = Kept(self._home.data, wanted.stack)
        if (text := kept.read_site()) is None:
            raise Refusal(
                f"the hosts of the stack {wanted.stack} are not known on this machine: `tidepool up --refresh` writes them again",
                "transient",
            )
        return kept, json.loads(text)

    def _hosts(self, kept: Kept, site: Mapping[str, Any], wanted: MetalMachineModel) -> Hosts:
        entries = {name: read(HostEntry, said).value for name, said in site["hosts"].items()}
        media = Published(kept, lambda host, _: _medium(wanted, site, entries[host].mac))
        return Hosts(entries, media, self._open, self._sleep)


def _medium(wanted: MetalMachineModel, site: Mapping[str, Any], mac: str) -> Medium:
    return Medium(
        wanted.stack,
        wanted.machine,
        wanted.image,
        wanted.boot,
        mac,
        f"{wanted.address}/{site['prefix']}",
        site["gateway"],
        tuple(site["nameservers"]),
        disk_image=wanted.disk_image,
        disk=dict(wanted.disk),
        wipe=wanted.wipe,
    )
