"""The contract of a machine of libvirt that is suspended and goes on, whichever host it is on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidepool.cluster.failures import Permanent
from tidepool.infrastructures.libvirt.ask import Virsh, output_of
from tidepool.infrastructures.libvirt.suspension import DomainSuspension, suspension_of


def a_suspension(uri: str, virsh: Virsh, patient: Virsh | None = None) -> DomainSuspension:
    """Of the domain `dev-cpu-1`."""
    found = suspension_of({"kind": "libvirt", "uri": uri, "domain": "dev-cpu-1"})
    return replace(found, virsh=virsh, patient=patient or virsh)


def keeps_the_contract(suspension: DomainSuspension) -> None:
    """The machine runs, and runs afterwards."""
    virsh, uri, domain = suspension.virsh, suspension.uri, suspension.domain

    def uuid() -> str:
        text = output_of(virsh, uri, "dumpxml", domain)
        return text.partition("<uuid>")[2].partition("<")[0]

    was = uuid()
    assert suspension.state() == "running"
    suspension.resume()
    assert suspension.state() == "running"
    for _ in range(2):
        # Done again, after one that was cut off.
        suspension.suspend()
        assert (suspension.state(), uuid()) == ("suspended", was)
    for _ in range(2):
        suspension.resume()
        assert (suspension.state(), uuid()) == ("running", was)
    # One that is stopped has no memory to keep: it boots.
    output_of(virsh, uri, "destroy", domain)
    assert suspension.state() == "stopped"
    with pytest.raises(Permanent, match="there is no memory of it"):
        suspension.suspend()
    suspension.resume()
    assert suspension.state() == "running"
    gone = replace(suspension, domain="dev-cpu-9")
    assert gone.state() == "gone"
    with pytest.raises(Permanent):
        gone.suspend()
