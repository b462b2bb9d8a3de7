"""Tasks of hosts: switched on and off by their BMCs, and booted into memory to have their disks written or wiped."""

from __future__ import annotations

from typing import Final, Protocol

from tidepool.cluster.failures import InfrastructureError, Transient
from tidepool.infrastructures.boot_media.media import Report, Task
from tidepool.infrastructures.boot_media.waiting import Wait
from tidepool.infrastructures.metal.inventory import Claim, Facts
from tidepool.infrastructures.metal.redfish import Bmc

#: How often a host that goes off in the middle of its task is switched on again.
_TRIES: Final = 3


class NotOver(Transient):
    """A host does its task still."""


class Media(Protocol):
    """Media that hosts boot from, and what they say of it."""

    def publish(self, host: str, claim: Claim, task: Task) -> str:
        """Have a host boot that; gives the URL of its ISO."""
        ...

    def begin(self, host: str, *, begun: bool) -> None:
        """Note that the host may have been switched on with that; or that it was not."""
        ...

    def report(self, host: str, claim: Claim, task: Task) -> Report | None:
        """Return what the host said of a task, once it has."""
        ...

    def is_doing(self, host: str, claim: Claim, task: Task) -> bool:
        """Return whether a host that is on does that task."""
        ...

    def may_have_written(self, host: str, claim: Claim) -> bool:
        """Return whether there may be something on a disk by that claim."""
        ...

    def withdraw(self, host: str) -> None:
        """Have the host boot nothing any more."""
        ...


def run_task(bmc: Bmc, media: Media, host: str, claim: Claim, task: Task, wait: Wait) -> Report:
    """Have a host do a task in the system in memory; gives what it said. It is off afterwards.

    One that was begun is gone on with: a host that is on with that task does it, and one that lost its power is switched on again.

    Raises:
        NotOver: it is not; the next call goes on.
        Transient: the host goes off before it is.
    """
    if bmc.facts().is_on and not media.is_doing(host, claim, task):
        switched(bmc, "Off", wait)
    for _ in range(_TRIES):
        if (told := _tried(bmc, media, host, claim, task, wait)) is not None:
            # It goes off by itself, too: all is on its disk by now.
            switched(bmc, "Off", wait)
            return told
    raise Transient(
        f"it went off {_TRIES} times before its task was over: {task} of its disk; look at its console"
    )


def _tried(bmc: Bmc, media: Media, host: str, claim: Claim, task: Task, wait: Wait) -> Report | None:
    """Switch it on where it is off, and wait for what it says; gives nothing where it goes off before that."""
    was_on = bmc.facts().is_on
    if not was_on:
        bmc.boot_from(media.publish(host, claim, task))
        media.begin(host, begun=True)
        bmc.reset("On")
    while (told := media.report(host, claim, task)) is None:
        is_on = bmc.facts().is_on
        if was_on and not is_on:
            # What was said right before it went off.
            return media.report(host, claim, task)
        # One that is quick is off again before anybody sees that it is on.
        was_on = was_on or is_on
        if not wait(f"its disk: {task}"):
            if was_on:
                raise NotOver(
                    f"its task is not over yet: {task} of its disk; look at its console where it takes too long"
                )
            media.begin(host, begun=False)
            raise Transient("it was told to go on, and its BMC says Off still: see what its console shows")
    return told


def switched_on(bmc: Bmc, media: Media, host: str, wait: Wait) -> Facts:
    """Switch a host on, of which it is known from then on that it may have written to its disks."""
    media.begin(host, begun=True)
    try:
        return switched(bmc, "On", wait)
    except InfrastructureError:
        if bmc.facts().power == "Off":
            media.begin(host, begun=False)
        raise


def switched(bmc: Bmc, power: str, wait: Wait) -> Facts:
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
