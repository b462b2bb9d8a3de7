"""A machine that is suspended, on a host in memory: its contract, how it is listed, and what such hosts refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.infrastructures.libvirt.fake import FakeHost, FakeHosts
from tests.infrastructures.libvirt.suspension import a_suspension, keeps_the_contract
from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.cluster.spec_checks import SUSPENDING
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.libvirt.machines import Machines
from tidepool.infrastructures.libvirt.suspension import DomainSuspension
from tidepool.infrastructures.registry import BUILT_IN, descriptor, suspension_of

URI = "qemu+ssh://root@alpha/system"
DOMAIN = """\
<domain><name>dev-cpu-1</name><memory>64</memory>
<metadata><t:machine xmlns:t="urn:tidepool:machine" stack="dev" fleet="cpu" node="cpu-1"/></metadata>
<devices><interface><mac address="02:00:0a:50:01:01"/></interface></devices></domain>"""


@pytest.fixture
def host() -> FakeHost:
    it = FakeHost()
    it.say(("define", "/dev/stdin"), DOMAIN)
    it.say(("start", "dev-cpu-1"), "")
    return it


@pytest.fixture
def hosts(host: FakeHost) -> FakeHosts:
    return FakeHosts(alpha=host)


@pytest.fixture
def suspension(hosts: FakeHosts) -> DomainSuspension:
    return a_suspension(URI, hosts)


def test_it_keeps_the_contract(suspension: DomainSuspension) -> None:
    keeps_the_contract(suspension)


def test_a_machine_is_listed_as_suspended_for_as_long_as_its_memory_is_there(
    host: FakeHost, hosts: FakeHosts, suspension: DomainSuspension
) -> None:
    machines, key = Machines({"alpha": URI}, hosts), MachineKey("dev", "cpu-1")

    def state() -> str:
        (listed,) = machines.list("dev")
        assert machines.read(key) == listed
        return listed.state

    assert state() == "running"
    suspension.suspend()
    assert state() == "suspended"
    # The file is lost: libvirt would boot it.
    host.saved.clear()
    assert state() == "stopped"
    suspension.resume()
    suspension.suspend()
    machines.delete(key)
    assert (machines.list("dev"), host.saved) == ((), set())


@pytest.mark.parametrize("verb", ["managedsave", "start"])
def test_an_answer_that_is_lost_is_asked_for_again(
    verb: str, host: FakeHost, suspension: DomainSuspension
) -> None:
    if verb == "start":
        suspension.suspend()
    does = suspension.resume if verb == "start" else suspension.suspend
    host.loses.add(verb)
    with pytest.raises(Transient):
        does()
    does()
    assert suspension.state() == ("running" if verb == "start" else "suspended")


@pytest.mark.parametrize(
    ("breaks", "kind"),
    [
        (lambda host: setattr(host, "is_full", True), InsufficientCapacity),
        (lambda host: setattr(host, "down", True), Transient),
    ],
    ids=["full", "down"],
)
def test_what_it_cannot_do_is_told_with_its_kind_and_the_machine_goes_on(
    host: FakeHost,
    suspension: DomainSuspension,
    breaks: Callable[[FakeHost], None],
    kind: type[InfrastructureError],
) -> None:
    breaks(host)
    with pytest.raises(kind):
        suspension.suspend()
    host.down = False
    assert suspension.state() == "running"


def test_those_that_can_are_the_ones_that_a_spec_may_name() -> None:
    assert {name for name in BUILT_IN if descriptor(name).suspension} == SUSPENDING
    with pytest.raises(Permanent, match="does not suspend machines"):
        suspension_of({"kind": "local"})
