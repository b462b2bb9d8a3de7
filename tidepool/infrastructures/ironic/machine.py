"""Nodes of Ironic that are machines: claimed by their instance UUID, deployed from the boot service, undeployed to be given back.

A machine is a claimed host. Whoever asks again finds it by its claim, in whichever state it is, and goes on from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.boot_media.waiting import Wait
from tidepool.infrastructures.ironic.api import Conflict, Ironic, Locked, NotThere
from tidepool.infrastructures.ironic.inventory import (
    ACTIVE,
    AVAILABLE,
    ERROR,
    FAILED,
    OFF,
    ON,
    RAMDISK,
    Claim,
    Host,
    Need,
    mac_of,
    plan,
)
from tidepool.infrastructures.machines import MachineKey


class DeployFailed(Transient):
    """Ironic could not deploy the host; another one may do."""


@dataclass(frozen=True, slots=True)
class Order:
    """A machine that is to be, on one of ``hosts``, which are names or UUIDs; on any, where there are none.

    ``publish`` has an ISO served for an instance, on a host with a hardware address, and gives its URL; ``withdraw`` ends that.
    """

    key: MachineKey
    need: Need
    hosts: tuple[str, ...]
    publish: Callable[[str, str], str]
    withdraw: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Held:
    """A host that is a machine, as Ironic describes it."""

    host: Host
    claim: Claim

    @property
    def key(self) -> MachineKey:
        return self.claim.key


def deployment(url: str) -> Mapping[str, Any]:
    """Return the `instance_info` of a host that boots from that URL, whatever its own deploy interface is.

    Its BMC reads the URL itself, for as long as the host boots: nothing of it is kept by Ironic.
    """
    return {"boot_iso": url, "deploy_interface": RAMDISK, "ramdisk_image_download_source": "http"}


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of an Ironic."""

    ironic: Ironic

    def find(self, stack: str, node: str = "") -> tuple[Held, ...]:
        """Return the machines of that stack, or of that node."""
        return tuple(
            Held(host, claim)
            for host in self.ironic.hosts()
            if (claim := host.claim) is not None and claim.stack == stack and node in ("", claim.node)
        )

    def take(self, order: Order, wait: Wait) -> Held:
        """Return the machine of ``order``, switched on: the host that it has by its claim, else the best that is free.

        A host that cannot be deployed is given back, and the next one is tried.

        Raises:
            InsufficientCapacity: there is no such host to be had; says of each why.
            Transient: it is not over yet, or it is not known how it came out; the next call goes on.
        """
        planned = plan(order.key, order.need, self.ironic.hosts(), order.hosts)
        reasons = dict(planned.reasons)
        last: InfrastructureError | None = None
        for host in (*planned.held, *planned.candidates):
            try:
                claim = host.claim or self._claimed(host, order, wait)
            except Conflict as error:
                # It is somebody's by now.
                reasons[host.called] = str(error)
                continue
            try:
                return self._start(host, claim, order, wait)
            except (DeployFailed, Permanent) as error:
                last, reasons[host.called] = error, str(error)
                self._give_back(host, claim, wait)
                order.withdraw(claim.instance)
        said = "; ".join(f"{host}: {why}" for host, why in reasons.items())
        kind = Transient if isinstance(last, Transient) else type(last) if last else InsufficientCapacity
        raise kind(f"{order.key} cannot be made: no host is to be had: {said or 'there is none'}")

    def delete(self, key: MachineKey, wait: Wait) -> None:
        """Give back the machines that ``key`` matches. One that is gone is no error.

        Raises:
            InfrastructureError: it may be there still.
        """
        for held in self.find(key.stack, key.node):
            if key.matches(held.key):
                self._give_back(held.host, held.claim, wait)

    def _claimed(self, host: Host, order: Order, wait: Wait) -> Claim:
        claim = Claim(order.key.stack, order.key.node, str(uuid.uuid4()))
        url = order.publish(claim.instance, mac_of(host, order.need.physical_network))
        try:
            unlocked(lambda: self.ironic.claim(host.uuid, claim, deployment(url)), wait)
        except (Conflict, Permanent):
            order.withdraw(claim.instance)
            raise
        return claim

    def _start(self, host: Host, claim: Claim, order: Order, wait: Wait) -> Held:
        """Have it deployed and switched on, from whichever state it is in."""
        mac = mac_of(host, order.need.physical_network)
        while True:
            now = self.ironic.host(host.uuid)
            if now.claim != claim:
                raise Transient(f"the host {host.called}: its claim went while it was deployed")
            if now.is_on:
                return Held(now, claim)
            if now.state in FAILED:
                raise DeployFailed(f"Ironic could not deploy it: {now.last_error or now.state}")
            if now.is_in_maintenance:
                # Ironic does nothing with it then, and nobody knows whether it is off.
                raise Transient(
                    f"the host {host.called}, which is {claim.key}, is {now.state} and in maintenance "
                    f"({now.maintenance_reason or now.fault}): baremetal node maintenance unset {host.called}, when it is well"
                )
            why = f"the host {host.called} to be deployed, and it is {now.state}, {now.power or 'power unknown'}"
            attempted(lambda now=now: self._step(now, order.publish(claim.instance, mac)))  # type: ignore[misc]
            if not wait(why):
                raise Transient(f"{claim.key} is not ready yet: waited for {why}")

    def _step(self, now: Host, url: str) -> None:
        """Tell Ironic what comes next for a host that is claimed."""
        if now.state == AVAILABLE:
            if now.info != (wanted := deployment(url)):
                self.ironic.tell(now.uuid, wanted)
            self.ironic.provision(now.uuid, "active")
        elif now.state == ACTIVE:
            self.ironic.power(now.uuid, ON)

    def _give_back(self, host: Host, claim: Claim, wait: Wait) -> None:
        """Have Ironic undeploy it, until it is nobody's; it is cleaned after that. What is claimed by others is left alone."""
        is_told = False
        while True:
            try:
                now = self.ironic.host(host.uuid)
            except NotThere:
                return
            if now.claim != claim:
                return
            if now.state == ERROR and is_told:
                # Its instance goes right after this; one that is off is nobody's then.
                if now.power != OFF:
                    raise Transient(
                        f"the host {host.called} could not be given back: {now.last_error or 'Ironic does not say why'}; see to its BMC. "
                        "It stays the node's until it is"
                    )
            elif now.state == AVAILABLE:
                attempted(lambda: self.ironic.release(host.uuid))
            elif now.state == ACTIVE or now.state in FAILED or now.state == "wait call-back":
                is_told = attempted(lambda: self.ironic.provision(host.uuid, "deleted")) or is_told
            if not wait(f"the host {host.called} to be given back, and it is {now.state}"):
                raise Transient(f"{claim.key} is not given back yet: the host {host.called} is {now.state}")


def attempted(call: Callable[[], None]) -> bool:
    """Return whether it was done; not while a conductor works on the host, or where it is in another state by now."""
    try:
        call()
    except (Locked, Conflict):
        return False
    return True


def unlocked(call: Callable[[], None], wait: Wait) -> None:
    """Do it when no conductor works on the host."""
    while True:
        try:
            return call()
        except Locked as error:
            if not wait(str(error)):
                raise
