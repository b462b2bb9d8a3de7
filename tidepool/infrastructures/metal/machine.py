"""Hosts that are machines: claimed by their AssetTags, switched on from the stack's boot service, given back switched off.

A machine is a claimed host. Whoever asks again finds it by its claim; one of another stack is never touched. One with its root on a
disk is booted into memory first, where its disk is written, and once more when it is given back, where that is wiped.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.boot_media.waiting import Wait
from tidepool.infrastructures.machines import MachineKey
from tidepool.infrastructures.metal.inventory import Claim, Facts, Need, Plan, plan, taken
from tidepool.infrastructures.metal.redfish import Bmc, BmcLocation, Conflict, Open, of_host
from tidepool.infrastructures.metal.tasks import Media, NotOver, run_task, switched, switched_on

_AT_ONCE: Final = 32
#: Between writing a claim and believing it, where BMCs have no ETags: longer than from reading a tag to writing it.
SETTLE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host of the site: its BMC, its hardware address, and its AssetTag when it is nobody's node."""

    location: BmcLocation
    mac: str
    asset_tag: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """A machine that is to be. It is one of ``hosts``, and with ``on_disk`` its root is on a disk.

    Of hosts that are left alone, ``resting`` has why. ``came_up`` waits for the machine, and says what keeps it; ``failed`` is told
    of hosts that failed.
    """

    key: MachineKey
    need: Need
    hosts: tuple[str, ...]
    on_disk: bool = False
    resting: Mapping[str, str] = field(default_factory=dict)
    came_up: Callable[[str, Wait], str] = lambda _host, _wait: ""
    failed: Callable[[str, str], object] = lambda _host, _why: None


class HostFailed(Transient):
    """A host was switched on, and is not the machine: it did not come up, or its disk was not written."""


@dataclass(frozen=True, slots=True)
class Held:
    """A host that is a machine, as its BMC describes it. Of its BIOS, ``unkept`` is what it was told and is not."""

    host: str
    claim: Claim
    facts: Facts
    unkept: tuple[str, ...] = ()

    @property
    def key(self) -> MachineKey:
        return self.claim.key(self.host)


def ask(
    entries: Mapping[str, HostEntry], *, whole: bool = False, open: Open = BmcLocation.open
) -> Mapping[str, Facts | InfrastructureError]:
    """Return what each host says, or why it does not. All are asked at once."""

    def one(host: str) -> Facts | InfrastructureError:
        try:
            return open(entries[host].location).facts(whole=whole)
        except InfrastructureError as error:
            return of_host(host, error)

    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(entries)))) as threads:
        return dict(zip(entries, threads.map(one, entries), strict=True))


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a site, by name."""

    entries: Mapping[str, HostEntry]
    media: Media
    open: Open = BmcLocation.open
    sleep: Callable[[float], None] = field(default=lambda _: None, repr=False)

    def bmc(self, host: str) -> Bmc:
        return self.open(self.entries[host].location)

    def ask(self, hosts: Iterable[str], *, whole: bool = False) -> Mapping[str, Facts | InfrastructureError]:
        """Return what each says, or why it does not. All are asked at once."""
        return ask({name: self.entries[name] for name in hosts}, whole=whole, open=self.open)

    def find(
        self, stack: str, node: str = "", host: str = "", but: Container[str] = ()
    ) -> tuple[tuple[Held, ...], Mapping[str, InfrastructureError]]:
        """Return the machines of that stack, or of that node; and of hosts that do not answer, why. Those of ``but`` are not asked."""
        found, silent = [], {}
        asked = [each for each in self.entries if host in ("", each) and each not in but]
        for name, facts in self.ask(asked).items():
            if isinstance(facts, InfrastructureError):
                silent[name] = facts
            elif (claim := facts.claim) is not None and claim.stack == stack and node in ("", claim.node):
                found.append(Held(name, claim, facts))
        return tuple(found), silent

    def take(self, order: Order, wait: Wait) -> Held:
        """Return the machine of ``order``, switched on: the host that it has by its claim, else the best that is free.

        A host that cannot be switched on, or does not come up, is given back, and the next one is tried.

        Raises:
            InsufficientCapacity: there is no such host to be had; says of each why.
            Transient: it is not over yet, or it is not known how it came out; the next call goes on.
        """
        planned = self._plan(order)
        if planned.held:
            return self._resumed(planned.held, order, wait)
        reasons = dict(planned.reasons)
        last: InfrastructureError | None = None
        for host in planned.candidates:
            claim = Claim(order.key.stack, order.key.node, secrets.token_hex(4), order.on_disk)
            try:
                self._claim(host, claim)
            except (Conflict, Permanent) as error:
                # It is somebody's by now, or will never keep a claim: no reason to leave the node without a host.
                reasons[host] = str(error)
                if isinstance(error, Permanent):
                    last = error
                continue
            try:
                return self._start(host, claim, order, wait)
            except NotOver:
                raise
            except InfrastructureError as error:
                last, reasons[host] = error, str(error)
                self._give_back(host, claim, wait)
        said = "; ".join(f"{host}: {why}" for host, why in reasons.items())
        kind = type(last) if last is not None else InsufficientCapacity
        raise kind(f"{order.key} cannot be made: no host is to be had: {said or 'there is none'}")

    def delete(self, key: MachineKey, wait: Wait) -> None:
        """Give back the machines that ``key`` matches. One that is gone is no error.

        Raises:
            InfrastructureError: it may be there still.
        """
        found, silent = self.find(key.stack, key.node, key.machine_id.partition("/")[0])
        matching = [held for held in found if key.matches(held.key)]
        for held in matching:
            self._give_back(held.host, held.claim, wait)
        # It may be on one of them.
        if silent and not matching:
            raise next(iter(silent.values()))

    def _plan(self, order: Order) -> Plan:
        free_tags = {name: self.entries[name].asset_tag for name in self.entries}
        # Where it is already is asked of all: the options of its fleet may be others by now.
        first = self.ask(self.entries)
        brief = {
            name: str(facts) if isinstance(facts, InfrastructureError) else facts
            for name, facts in first.items()
        }
        if (planned := plan(order.key, order.need, brief, free_tags)).held:
            return planned
        free = [
            name
            for name in order.hosts
            if name not in order.resting
            and isinstance(facts := brief[name], Facts)
            and not taken(facts, free_tags[name])
        ]
        whole = self.ask(free, whole=True)
        known = {
            name: str(each) if isinstance(each := whole.get(name, brief[name]), Exception) else each
            for name in order.hosts
        } | {name: why for name, why in order.resting.items() if name in order.hosts}
        return plan(order.key, order.need, known, free_tags)

    def _claim(self, host: str, claim: Claim) -> None:
        bmc, free = self.bmc(host), self.entries[host].asset_tag
        try:
            bmc.tag(str(claim), free)
            # Somebody may have read it before we wrote, and write now.
            self.sleep(SETTLE_S)
            if (now := bmc.facts().tag) != str(claim):
                raise Conflict(f"its AssetTag is {now!r} by now")
        except InfrastructureError as error:
            raise of_host(host, error) from error

    def _resumed(self, host: str, order: Order, wait: Wait) -> Held:
        """Go on with a host that the machine has. One that fails is given back, and the next call takes another."""
        try:
            claim = self.bmc(host).facts().claim
        except InfrastructureError as error:
            raise of_host(host, error) from error
        if claim is None:
            raise Transient(f"the host {host}: its claim went meanwhile")
        try:
            return self._start(host, claim, order, wait)
        except HostFailed:
            self._give_back(host, claim, wait)
            raise

    def _start(self, host: str, claim: Claim, order: Order, wait: Wait) -> Held:
        try:
            bmc = self.bmc(host)
            if claim.on_disk and (told := self.media.report(host, claim, "install")) is None:
                bmc.configure(order.need.bios)
                told = run_task(bmc, self.media, host, claim, "install", wait)
            if claim.on_disk and told is not None and not told.is_done:
                raise HostFailed(f"its disk was not written: {told.what}")
            facts = bmc.facts()
            if facts.is_on and self.media.is_doing(host, claim, "install"):
                facts = switched(bmc, "Off", wait)
            if not facts.is_on:
                bmc.configure(order.need.bios)
                url = self.media.publish(host, claim, "")
                if claim.on_disk:
                    bmc.boot_from_disk()
                else:
                    bmc.boot_from(url)
                facts = switched_on(bmc, self.media, host, wait)
            if why := order.came_up(host, wait):
                raise HostFailed(why)
            unkept = _unkept(bmc, order.need.bios)
        except InfrastructureError as error:
            if isinstance(error, HostFailed):
                order.failed(host, str(error))
            raise of_host(host, error) from error
        if (now := facts.claim) is None or (now.stack, now.node) != (order.key.stack, order.key.node):
            raise Transient(f"the host {host}: its claim went while it was switched on")
        return Held(host, now, facts, unkept)

    def _give_back(self, host: str, claim: Claim, wait: Wait) -> None:
        """Switch it off, wipe what it wrote, then take the claim off it: nobody gets a host that runs, or has our data.

        What is claimed by others is left alone.
        """
        try:
            bmc = self.bmc(host)
            if bmc.facts().claim != claim:
                return
            if claim.on_disk and self.media.may_have_written(host, claim):
                told = self.media.report(host, claim, "wipe")
                if told is None or not told.is_done:
                    told = run_task(bmc, self.media, host, claim, "wipe", wait)
                if not told.is_done:
                    raise Transient(
                        f"its disk was not wiped: {told.what}; the host stays claimed until it is"
                    )
            switched(bmc, "Off", wait)
            bmc.eject()
            bmc.tag(self.entries[host].asset_tag, str(claim))
            self.media.withdraw(host)
        except InfrastructureError as error:
            raise of_host(host, error) from error


def _unkept(bmc: Bmc, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """The attributes of the BIOS that are others than wanted, once it has booted with them."""
    now = (bmc.facts(whole=True).attributes or {}) if wanted else {}
    return tuple(
        f"{key} is {now.get(key)!r}, not {value!r}" for key, value in wanted.items() if now.get(key) != value
    )
