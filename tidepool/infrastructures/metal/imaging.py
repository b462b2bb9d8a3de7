"""A host of bare metal that is made anew from the image of a role: switched off and on by its BMC."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import Permanent
from tidepool.infrastructures.boot_media.imaging import MediumImaging
from tidepool.infrastructures.boot_media.media import Kept, Medium
from tidepool.infrastructures.boot_media.waiting import waiting_for
from tidepool.infrastructures.metal.inventory import Claim
from tidepool.infrastructures.metal.machine import HostEntry
from tidepool.infrastructures.metal.published import Published
from tidepool.infrastructures.metal.redfish import Bmc, BmcLocation, Open
from tidepool.infrastructures.metal.tasks import switched, switched_on
from tidepool.resources.reading import read

#: So long a BMC may take to switch its host, in seconds: less than what is left of the lease of who converts it.
_SWITCH_S: Final = 25.0
_AGAIN_S: Final = 1.0


def imaging_of(said: Mapping[str, Any], data: Path) -> MediumImaging:
    """The machine of which `tidepool.infrastructures.metal.graph` said this."""
    kept, (host, _, claim) = Kept(data, said["stack"]), said["id"].partition("/")
    power = BmcPower(kept, host, Claim(said["stack"], said["machine"], claim))
    return MediumImaging(kept, host, said["address"], said["images"], power)


@dataclass(frozen=True, slots=True)
class BmcPower:
    """`tidepool.infrastructures.boot_media.imaging.Power` of a host, as long as it has that claim."""

    kept: Kept
    host: str
    claim: Claim
    open: Open = BmcLocation.open
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def is_off(self) -> bool:
        return not self._claimed().facts().is_on

    def boot(self, medium: Medium) -> None:
        bmc, media = self._claimed(), Published(self.kept, lambda _host, _kept: medium)
        switched(bmc, "Off", waiting_for(_SWITCH_S, _AGAIN_S, self.sleep))
        # Its URL is the same, and some keep what was there, or how long that was.
        bmc.eject()
        bmc.boot_from(media.publish(self.host, self.claim, ""))
        switched_on(bmc, media, self.host, waiting_for(_SWITCH_S, _AGAIN_S, self.sleep))

    def _claimed(self) -> Bmc:
        known = json.loads(self.kept.read_site() or '{"hosts": {}}')["hosts"].get(self.host)
        if known is None:
            raise Permanent(
                f"the host {self.host} is not known on this machine: `tidepool up --refresh` writes down the stack's hosts"
            )
        bmc = self.open(read(HostEntry, known).value.location)
        if (claim := bmc.facts().claim) != self.claim:
            whose = f"{claim.node} of the stack {claim.stack}" if claim else "nobody's"
            raise Permanent(
                f"the host {self.host} is {whose} by its AssetTag, and not {self.claim.node} any more: `tidepool up --refresh` claims another"
            )
        return bmc
