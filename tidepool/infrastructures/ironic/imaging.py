"""A node of Ironic that is booted while it is a machine: switched off and on, and its BMC reads its medium once more.

It is the same image each time: what would put another one in, `rebuild` and media by the API, fails or is kept by a conductor with Ironic 39
(docs/adr/0069-pools-on-hosts.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.boot_media.imaging import MediumImaging
from tidepool.infrastructures.boot_media.media import Kept, Medium
from tidepool.infrastructures.boot_media.waiting import waiting_for
from tidepool.infrastructures.ironic.api import Ironic, IronicLocation
from tidepool.infrastructures.ironic.inventory import ACTIVE, OFF, ON, Host
from tidepool.infrastructures.ironic.machine import Hosts, attempted

#: So long Ironic may take to switch a host, in seconds: less than what is left of the lease of who converts it.
_SWITCH_S: Final = 25.0
_AGAIN_S: Final = 1.0


def imaging_of(said: Mapping[str, Any], data: Path) -> MediumImaging:
    """The machine of which `tidepool.infrastructures.ironic.graph` said this."""
    kept, instance, location = Kept(data, said["stack"]), said["id"], said["ironic"]
    ironic = IronicLocation(location["cloud"], location["cloudsFile"])
    power = InstancePower(kept, said["stack"], said["machine"], instance, ironic.open)
    return MediumImaging(kept, instance, said["address"], said["images"], power)


@dataclass(frozen=True, slots=True)
class InstancePower:
    """`tidepool.infrastructures.boot_media.imaging.Power` of the host that has that instance."""

    kept: Kept
    stack: str
    node: str
    instance: str
    open: Callable[[], Ironic]
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def is_off(self) -> bool:
        host = self._host(self.open())
        return host.state == ACTIVE and host.power == OFF

    def boot(self, medium: Medium) -> None:
        ironic = self.open()
        self._switched(ironic, OFF)
        self.kept.write(self.instance, medium)
        self._switched(ironic, ON)

    def _switched(self, ironic: Ironic, power: str) -> None:
        """Have Ironic switch it, and wait until it says so."""
        wait = waiting_for(_SWITCH_S, _AGAIN_S, self.sleep)
        while (host := self._host(ironic)).power != power or host.state != ACTIVE:
            if host.state == ACTIVE:
                attempted(lambda uuid=host.uuid: ironic.power(uuid, power))  # type: ignore[misc]
            if not wait(power):
                raise Transient(
                    f"the host {host.called} was told to go to {power}, and is {host.state}, {host.power or 'power unknown'} still: see to "
                    "its BMC"
                )

    def _host(self, ironic: Ironic) -> Host:
        for held in Hosts(ironic).find(self.stack, self.node):
            if held.claim.instance == self.instance:
                return held.host
        raise Permanent(
            f"no host of the Ironic has the instance {self.instance}, which is {self.node}: `tidepool up --refresh` claims another"
        )
