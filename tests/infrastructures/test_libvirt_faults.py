"""What hosts that run libvirt do to those who ask them for machines, and what becomes of the contract then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.infrastructures.conftest import a_request
from tests.infrastructures.libvirt.fake import FakeHost, FakeHosts
from tests.infrastructures.libvirt.specs import TWO_HOSTS, spec
from tests.infrastructures.libvirt_world import Made
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.libvirt.domain import pool_of
from tidepool.infrastructures.libvirt.machines import Machines, machines_of

CPU_1 = MachineKey("one", "cpu-1")


@pytest.fixture
def alpha() -> FakeHost:
    return FakeHost()


@pytest.fixture
def made(alpha: FakeHost) -> Made:
    return Made(TWO_HOSTS, FakeHosts(alpha=alpha, beta=FakeHost()))


def test_the_scaler_is_given_machines_of_all_hosts_that_a_spec_names() -> None:
    machines = machines_of(spec(hosts=TWO_HOSTS, bridge="br0"), "one", Path("/nowhere"))
    assert isinstance(machines, Machines)
    assert machines.hosts == TWO_HOSTS


@pytest.mark.parametrize("lack", ["memory", "pages", "room"])
def test_a_host_that_has_no_more_is_out_of_stock_and_one_that_has_again_gives_the_same_machine(
    made: Made, alpha: FakeHost, lack: str
) -> None:
    made = replace(made, hugepages=lack == "pages")
    alpha.memory_mib, alpha.room = (0 if lack == "memory" else 1024), (0 if lack == "room" else 9)
    words = "No space left on device" if lack == "room" else "Cannot allocate memory"
    with pytest.raises(InsufficientCapacity, match=words):
        made.create(a_request("one"))
    alpha.memory_mib, alpha.room, alpha.pages = 1024, 9, 999
    machine = made.create(a_request("one"))
    assert machine.state == "running"
    assert made.list("one") == (machine,)


def test_half_of_what_is_asked_for_is_there(made: Made, alpha: FakeHost) -> None:
    alpha.memory_mib = 2 * 64
    for number in (1, 2):
        assert made.create(a_request("one", number)).state == "running"
    for number in (3, 4):
        with pytest.raises(InsufficientCapacity):
            made.create(a_request("one", number))
    # Those that did not start are there all the same, and a sweep finds them.
    states = {machine.key.node: machine.state for machine in made.list("one")}
    assert states == {"cpu-1": "running", "cpu-2": "running", "cpu-3": "stopped", "cpu-4": "stopped"}
    for number in (3, 4):
        made.delete(MachineKey("one", f"cpu-{number}"))
    assert {*alpha.domains} == {"one-cpu-1", "one-cpu-2"}
    assert alpha.pools == {pool_of("one"): {"cpu-1.qcow2", "cpu-2.qcow2"}}


def test_a_machine_whose_makers_answers_were_lost_is_made_once(made: Made, alpha: FakeHost) -> None:
    """One answer for each step: its disk's, its own, its start's."""
    for step in ("vol-create-as", "define", "start"):
        alpha.loses = {step}
        with pytest.raises(Transient, match="does not answer within 30 s"):
            made.create(a_request("one"))
    machine = made.create(a_request("one"))
    assert made.list("one") == (machine,)
    assert alpha.made == 2  # A domain, and a start.


def test_a_machine_whose_deletions_answers_were_lost_is_gone_in_the_end(made: Made, alpha: FakeHost) -> None:
    """The domain goes last, so that an attempt that was cut off leaves nothing that is not found."""
    made.create(a_request("one"))
    for step in ("destroy", "vol-delete"):
        alpha.loses = {step}
        with pytest.raises(Transient):
            made.delete(CPU_1)
        assert made.read(CPU_1) is not None
    # After the last one it is looked again, and the machine is gone.
    alpha.loses = {"undefine"}
    made.delete(CPU_1)
    assert alpha.domains == {}
    assert alpha.pools == {pool_of("one"): set()}


def test_a_machine_that_is_listed_late_is_not_seen_and_not_gone(made: Made, alpha: FakeHost) -> None:
    machine = made.create(a_request("one"))
    alpha.unseen.add("one-cpu-1")
    assert made.read(CPU_1) is None
    assert made.list("one") == ()
    alpha.unseen.clear()
    assert made.list("one") == (machine,)


def test_a_host_that_does_not_answer_hides_no_machine(made: Made, alpha: FakeHost) -> None:
    made.create(a_request("one"))
    alpha.down = True
    for ask in (lambda: made.list("one"), lambda: made.read(CPU_1), lambda: made.delete(CPU_1)):
        with pytest.raises(Transient, match=r"qemu\+ssh://root@alpha/system .*Connection refused"):
            ask()
    assert {*alpha.domains} == {"one-cpu-1"}


def test_a_refused_deletion_says_so_and_takes_nothing_away(made: Made, alpha: FakeHost) -> None:
    machine = made.create(a_request("one"))
    alpha.refuses.add("one-cpu-1")
    with pytest.raises(Permanent, match="access denied"):
        made.delete(CPU_1)
    assert made.read(CPU_1) == machine
    assert alpha.pools == {pool_of("one"): {"cpu-1.qcow2"}}
    alpha.refuses.clear()
    made.delete(CPU_1)
    assert made.read(CPU_1) is None


def test_a_machine_that_somebody_else_deletes_meanwhile_is_deleted(made: Made, alpha: FakeHost) -> None:
    made.create(a_request("one"))
    real = made.virsh

    def slow(uri: str, *words: str, stdin: str = "") -> object:
        if words[0] == "undefine":
            real(uri, *words)
        return real(uri, *words, stdin=stdin)

    replace(made, virsh=slow).delete(CPU_1)  # type: ignore[arg-type]
    assert alpha.domains == {}


def test_a_machine_that_goes_while_machines_are_listed_is_not_listed(made: Made, alpha: FakeHost) -> None:
    for number in (1, 2):
        made.create(a_request("one", number))
    real = made.virsh

    def meanwhile(uri: str, *words: str, stdin: str = "") -> object:
        if words[0].startswith("dumpxml one-cpu-1"):
            alpha.running.clear()
            alpha.domains.pop("one-cpu-1", None)
        return real(uri, *words, stdin=stdin)

    listed = replace(made, virsh=meanwhile).list("one")  # type: ignore[arg-type]
    assert [machine.key.node for machine in listed] == ["cpu-2"]


def test_a_machine_that_is_there_and_cannot_be_read_fails_the_list(made: Made) -> None:
    made.create(a_request("one"))
    real = made.virsh

    def mute(uri: str, *words: str, stdin: str = "") -> object:
        said = real(uri, *words, stdin=stdin)
        if words[0].startswith("dumpxml"):
            said.stdout = ""
        return said

    with pytest.raises(Transient, match="does not say what one-cpu-1 is"):
        replace(made, virsh=mute).list("one")  # type: ignore[arg-type]


def test_domains_of_others_are_left_alone(made: Made, alpha: FakeHost) -> None:
    """By hand, and with the very name; of a stack whose name begins alike; with a name that is none of ours."""
    two = "<domain type='qemu'><name>{}</name><memory unit='MiB'>1</memory></domain>"
    for name in ("one-cpu-1", "one-two-cpu-1", "one-cpu 7; shutdown"):
        alpha.say(("define", "/dev/stdin"), two.format(name))
    assert made.list("one") == ()
    made.delete(CPU_1)
    assert len(alpha.domains) == 3


def test_many_machines_are_asked_for_with_few_commands(made: Made, alpha: FakeHost) -> None:
    alpha.memory_mib = alpha.room = 10**6
    for number in range(1, 251):
        alpha.say(("define", "/dev/stdin"), made._domain(a_request("one", number)))
    fake = made.virsh
    assert isinstance(fake, FakeHosts)
    fake.asked.clear()
    assert len(made.list("one")) == 250
    # Names, and of a hundred at a time what they are, and of those that are off whether their memory is kept.
    assert len([words for uri, *words in fake.asked if "alpha" in uri]) == 7
