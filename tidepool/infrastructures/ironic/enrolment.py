"""Hosts that a stack enrols in an Ironic: made known to it, managed, inspected, provided; forgotten when nobody has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.boot_media.waiting import Wait
from tidepool.infrastructures.ironic.api import Enrolment, Ironic, NotThere
from tidepool.infrastructures.ironic.inventory import Host
from tidepool.infrastructures.ironic.machine import attempted, unlocked

#: On the way to being available, with what Ironic is told next.
_NEXT: Final[Mapping[str, str]] = {"enroll": "manage", "manageable": "provide", "inspect failed": "manage"}
#: Those in which it works by itself.
_MOVES: Final = ("verifying", "inspecting", "inspect wait", "cleaning", "clean wait")
_FAILED: Final = ("enroll", "inspect failed", "clean failed")


def enrol(ironic: Ironic, entry: Enrolment, driver_info: Mapping[str, Any], wait: Wait) -> Host:
    """Return the host of that name, available, or whatever else it is once it was: one that somebody else enrolled is left as it is.

    Raises:
        Permanent: Ironic cannot manage it, inspect it or clean it; says what Ironic says.
        Transient: it is not over yet; the next call goes on.
    """
    try:
        there = ironic.host(entry.name)
    except NotThere:
        there = ironic.enrol(entry, driver_info)
    if there.enrolled_by != entry.stack:
        return there
    unlocked(lambda: ironic.equip(there, entry), wait)
    unlocked(lambda: ironic.drive(there.uuid, driver_info), wait)
    told: list[str] = []
    while True:
        now = ironic.host(there.uuid)
        if now.state in _FAILED and (told or now.state == "clean failed") and now.last_error:
            raise Permanent(
                f"the host {entry.name}: Ironic says of it, {now.state}: {now.last_error}; correct that"
            )
        if now.state in _NEXT:
            target = _NEXT[now.state]
            if now.state == "manageable" and now.memory_mib is None and "inspect" not in told:
                target = "inspect"
            elif now.state == "manageable" and now.cpus is None:
                unlocked(lambda: ironic.count_cpus(there.uuid), wait)
            if attempted(lambda target=target: ironic.provision(there.uuid, target)):  # type: ignore[misc]
                told.append(target)
        elif now.state not in _MOVES:
            return now
        if not wait(f"the host {entry.name} to be available, and it is {now.state}"):
            raise Transient(
                f"the host {entry.name} is not available yet: it is {now.state}; the next `tidepool up` goes on"
            )


def delete_host(ironic: Ironic, name: str, stack: str, wait: Wait) -> None:
    """Have Ironic forget a host that the stack enrolled; one of others stays, and one that is gone is no error.

    Raises:
        Permanent: somebody has it.
    """
    try:
        now = ironic.host(name)
    except NotThere:
        return
    if now.enrolled_by != stack:
        return
    if now.instance:
        whose = (
            f"the node {now.claim.node} of the stack {now.claim.stack}"
            if now.claim
            else f"the instance {now.instance}"
        )
        raise Permanent(f"the host {name} is {whose}, so that Ironic keeps it: give it back there first")
    while now.state in _MOVES or now.state == "deleting":
        if not wait(f"the host {name} to be forgotten, and it is {now.state}"):
            raise Transient(f"the host {name} is {now.state} still; the next `tidepool down` goes on")
        now = ironic.host(name)
    unlocked(lambda: ironic.remove(now.uuid), wait)
