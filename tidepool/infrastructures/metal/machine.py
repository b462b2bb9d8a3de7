"""Hosts that are machines: claimed by their AssetTags, switched on from the stack's boot service, given back switched off.

A machine is a claimed host. Whoever asks again finds it by its claim; one of another stack is never touched.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.machines import MachineKey
from tidepool.infrastructures.metal.inventory import Claim, Facts, Need, Plan, plan, taken
from tidepool.infrastructures.metal.redfish import Bmc, BmcLocation, Conflict, Open, of_host

_AT_ONCE: Final = 32
#: Between writing a claim and believing it, where BMCs have no ETags: longer than from reading a tag to writing it.
SETTLE_S: Final = 2.0

#: Waits a while for the reason that it is told; gives false when there is no more time.
Wait = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host of the site: its BMC, its hardware address, and its AssetTag when it is nobody's node."""

    location: BmcLocation
    mac: str
    asset_tag: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """A machine that is to be. It is one of ``hosts``, and boots from ``url``, which depends on the host."""

    key: MachineKey
    need: Need
    hosts: tuple[str, ...]
    url: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Held:
    """A host that is a machine, as its BMC describes it."""

    host: str
    claim: Claim
    facts: Facts

    @property
    def key(self) -> MachineKey:
        return self.claim.key(self.host)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a site, by name."""

    entries: Mapping[str, HostEntry]
    open: Open = BmcLocation.open
    sleep: Callable[[float], None] = field(default=lambda _: None, repr=False)

    def bmc(self, host: str) -> Bmc:
        return self.open(self.entries[host].location)

    def ask(self, hosts: Iterable[str], *, whole: bool = False) -> Mapping[str, Facts | InfrastructureError]:
        """Return what each says, or why it does not. All are asked at once."""

        def one(host: str) -> Facts | InfrastructureError:
            try:
                return self.bmc(host).facts(whole=whole)
            except InfrastructureError as error:
                return of_host(host, error)

        names = [*hosts]
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(names)))) as threads:
            return dict(zip(names, threads.map(one, names), strict=True))

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

        A host that cannot be switched on is given back, and the next one is tried.

        Raises:
            InsufficientCapacity: there is no such host to be had; says of each why.
            Transient: it is not over yet, or it is not known how it came out; the next call goes on.
        """
        planned = self._plan(order)
        if planned.held:
            return self._start(planned.held, order, wait)
        reasons = dict(planned.reasons)
        last: InfrastructureError | None = None
        for host in planned.candidates:
            claim = Claim(order.key.stack, order.key.node, secrets.token_hex(4))
            try:
                self._claim(host, claim)
            except (Conflict, Permanent) as error:
                # It is somebody's by now, or will never keep a claim: no reason to leave the node without a host.
                reasons[host] = str(error)
                if isinstance(error, Permanent):
                    last = error
                continue
            try:
                return self._start(host, order, wait)
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
            if isinstance(facts := brief[name], Facts) and not taken(facts, free_tags[name])
        ]
        whole = self.ask(free, whole=True)
        known = {
            name: str(each) if isinstance(each := whole.get(name, brief[name]), Exception) else each
            for name in order.hosts
        }
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

    def _start(self, host: str, order: Order, wait: Wait) -> Held:
        try:
            bmc = self.bmc(host)
            facts = bmc.facts()
            if not facts.is_on:
                bmc.configure(order.need.bios)
                bmc.boot_from(order.url(host))
                facts = _switched(bmc, "On", wait)
        except InfrastructureError as error:
            raise of_host(host, error) from error
        if (claim := facts.claim) is None or (claim.stack, claim.node) != (order.key.stack, order.key.node):
            raise Transient(f"the host {host}: its claim went while it was switched on")
        return Held(host, claim, facts)

    def _give_back(self, host: str, claim: Claim, wait: Wait) -> None:
        """Switch it off, then take the claim off it: nobody gets a host that runs. What is claimed by others is left alone."""
        try:
            bmc = self.bmc(host)
            if bmc.facts().claim != claim:
                return
            _switched(bmc, "Off", wait)
            bmc.eject()
            bmc.tag(self.entries[host].asset_tag, str(claim))
        except InfrastructureError as error:
            raise of_host(host, error) from error


def _switched(bmc: Bmc, power: str, wait: Wait) -> Facts:
    """Have it on or off, and wait until its BMC says so."""
    facts = bmc.facts()
    if facts.power == power:
        return facts
    bmc.reset("On" if power == "On" else "ForceOff")
    while (facts := bmc.facts()).power != power:
        if not wait(f"it to be {power.lower()}, and it is {facts.power}"):
            raise Transient(
                f"it was told to go {power.lower()}, and its BMC says {facts.power} still: see what its console shows, and reset the "
                "BMC where it is wrong"
            )
    return facts
