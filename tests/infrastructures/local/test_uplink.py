"""Packets through the uplinks of two departments on one machine, with the same names and addresses."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.test_firewall import spec
from tests.infrastructures.local.outside import (
    ASK,
    ECHO,
    FAR,
    HOST,
    LICENCES,
    OTHER,
    PATIENCE_S,
    Outside,
    asked,
    conversation,
    devices,
    ruleset,
    world,
)
from tests.infrastructures.local.stacks import PYTHON, Stack, kill_hard
from tidepool.cluster.boot import Service
from tidepool.cluster.flows import Flow, Forward, Peer
from tidepool.infrastructures.local.checks import checks_of
from tidepool.infrastructures.local.kernel import (
    LocalError,
    NetworkSpec,
    Rules,
    TimedOut,
    enter_prefix,
    uplink,
    uplink_lacks,
    wait_ready,
)
from tidepool.infrastructures.local.kernel.layout import network_paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline
from tidepool.infrastructures.local.kernel.lock import host_locked
from tidepool.infrastructures.local.kernel.uplink import is_as_known, set_uplink
from tidepool.infrastructures.local.kinds import NetworkKind
from tidepool.infrastructures.local.resources import NetworkModel
from tidepool.resources.kind import Home, Task

NODE, LOGIN = "10.77.0.11", "10.77.0.12"
LICENCE, PROXY = 27000, 3128
TO_LICENCES = Flow((f"{NODE}/32",), (f"{LICENCES}/32",), "tcp", (str(LICENCE),))
ANYWHERE = Flow(("10.77.0.0/16",), ("0.0.0.0/0",), "tcp")
FROM_LICENCES = Forward(2222, LOGIN, (f"{LICENCES}/32",))


@pytest.fixture
def outside(stack: Stack, other_stack: Stack) -> Iterator[Outside]:
    """A host of the test's own; what a department leaves there fails the test."""
    with world() as it:
        for port in (LICENCE, PROXY):
            it.serve(port)
        before = ruleset(), devices()
        yield it
        for each in (stack, other_stack):
            each.delete_all()
        assert (ruleset(), devices()) == before


def department(stack: Stack, rules: Rules) -> None:
    """A network with these rules, a node `cpu-1` and a login machine `cpu-2`."""
    stack.network()
    apply(stack, rules)
    for number in (1, 2):
        argv = (PYTHON, "-c", ECHO, "22", f"cpu-{number} of {stack.name}")
        stack.create(stack.spec(number, Service("echo", argv, ready="tcp:22")))
    for number in (1, 2):
        wait_ready(stack.data, stack.name, f"cpu-{number}", 60)


def apply(stack: Stack, rules: Rules) -> None:
    network = NetworkSpec(stack.name, "net", "10.77.0.0/16")
    set_uplink(network_paths(stack.data, stack.name, "net"), network.switch_address, rules)


def asking(stack: Stack, address: str, port: int, on: str = "cpu-1") -> list[str]:
    prefix = enter_prefix(stack.data, stack.name, on)
    return [*prefix, PYTHON, "-c", ASK, address, str(port), PATIENCE_S, ""]


def reach(stack: Stack, address: str, port: int = LICENCE, on: str = "cpu-1") -> str:
    return asked(asking(stack, address, port, on))


def is_refused_at_once(said: str) -> bool:
    return said.startswith("refused") and "timed out" not in said


def test_what_a_rule_allows_is_reached_and_nothing_else(
    stack: Stack, other_stack: Stack, outside: Outside
) -> None:
    department(stack, Rules((TO_LICENCES,), (FROM_LICENCES,)))
    department(other_stack, Rules())
    # Outside it looks as if this machine asked.
    assert reach(stack, LICENCES) == f"outside to {HOST}: hello"
    outside.serve(LICENCE, here=True)
    for address, port in ((LICENCES, PROXY), (OTHER, LICENCE), (FAR, LICENCE), (HOST, LICENCE)):
        assert is_refused_at_once(reach(stack, address, port)), (address, port)
    assert is_refused_at_once(reach(stack, LICENCES, on="cpu-2")), "the rule is of nodes"
    # Without a rule there is no way at all, as ever.
    assert "Network is unreachable" in reach(other_stack, LICENCES)
    # The login machine knows who asks.
    assert outside.ask(2222, source=LICENCES) == f"cpu-2 of {stack.name} to {LICENCES}: hello"
    assert "timed out" in outside.ask(2222, source=OTHER) or is_refused_at_once(
        outside.ask(2222, source=OTHER)
    )
    # Whoever sends packets for its addresses to this machine is not let in.
    for address, port in ((NODE, 22), (LOGIN, 22), (_link(stack), 22), (_link(stack), 2222)):
        assert outside.ask(port, address, LICENCES).startswith("refused"), (address, port)


def test_departments_do_not_reach_each_other_whatever_their_rules_allow(
    stack: Stack, other_stack: Stack, outside: Outside
) -> None:
    anybody = ("0.0.0.0/0",)
    department(stack, Rules((ANYWHERE,), (Forward(2222, LOGIN, anybody),)))
    department(other_stack, Rules((ANYWHERE,), (Forward(2223, LOGIN, anybody),)))
    pairs = ((stack, other_stack, 2223), (other_stack, stack, 2222))
    for one, other, port in pairs:
        assert reach(one, FAR) == f"outside to {HOST}: hello"
        assert outside.ask(port).startswith(f"cpu-2 of {other.name} to ")
        # At the same address each has its own.
        assert reach(one, LOGIN, 22) == f"cpu-2 of {one.name} to {NODE}: hello"
        for address, at in ((HOST, port), (_link(other), port), (_link(other), 22)):
            assert reach(one, address, at).startswith("refused"), (address, at)


def test_a_change_boots_nothing_and_ends_what_is_not_allowed_any_more(stack: Stack, outside: Outside) -> None:
    stays, goes = TO_LICENCES, replace(TO_LICENCES, to=(f"{FAR}/32",))
    department(stack, Rules())
    assert "Network is unreachable" in reach(stack, LICENCES)
    pids = [stack.read(name).pid for name in ("cpu-1", "cpu-2")]
    # An uplink that comes is for machines that run, too.
    apply(stack, Rules((stays, goes)))
    with (
        conversation(asking(stack, LICENCES, LICENCE)) as allowed,
        conversation(asking(stack, FAR, LICENCE)) as ended,
    ):
        assert allowed.say("one", 10) == f"outside to {HOST}: one"
        assert ended.say("one", 10) == f"outside to {HOST}: one"
        apply(stack, Rules((stays, replace(stays, ports=(str(PROXY),))), (FROM_LICENCES,)))
        assert ended.say("two", 2) is None
        assert allowed.say("two", 10) == f"outside to {HOST}: two"
        assert reach(stack, LICENCES, PROXY) == f"outside to {HOST}: hello"
        assert outside.ask(2222, source=LICENCES).startswith("cpu-2")
    apply(stack, Rules())
    assert "Network is unreachable" in reach(stack, LICENCES)
    assert outside.ask(2222, source=LICENCES).startswith("refused")
    assert [stack.read(name).pid for name in ("cpu-1", "cpu-2")] == pids


@pytest.mark.parametrize(
    ("where", "command"),
    [
        ("switch", "nft flush ruleset"),
        ("switch", "nft insert rule ip tidepool forward accept"),
        ("switch", "ip route flush exact default"),
        ("host", "nft delete table ip {table}"),
        ("host", "nft insert rule ip {table} forward drop"),
        ("host", "ip link delete {device}"),
    ],
)
def test_what_somebody_changed_is_seen_and_put_back(
    stack: Stack, outside: Outside, where: str, command: str
) -> None:
    rules = Rules((TO_LICENCES,), (FROM_LICENCES,))
    department(stack, rules)
    network = network_paths(stack.data, stack.name, "net")
    assert is_as_known(network, rules)
    found = next(each for each in devices() if each.startswith("tide"))
    told = command.format(device=found, table=_table()).split()
    prefix = stack.network().prefix if where == "switch" else ()
    subprocess.run([*prefix, *told], check=True)
    assert not is_as_known(network, rules)
    if "insert" not in command:
        # Without its rules nobody gets out.
        assert reach(stack, OTHER).startswith("refused")
    apply(stack, rules)
    assert is_as_known(network, rules)
    assert reach(stack, LICENCES) == f"outside to {HOST}: hello"
    assert is_refused_at_once(reach(stack, OTHER))
    assert outside.ask(2222, source=LICENCES).startswith("cpu-2")


def test_a_switch_that_died_has_its_uplink_again(stack: Stack, outside: Outside) -> None:
    rules = Rules((TO_LICENCES,))
    department(stack, rules)
    pid = stack.network().pid
    assert pid is not None
    switch = Lifeline.of(pid)
    assert switch is not None
    subprocess.run(["kill", "-KILL", str(pid)], check=True)
    switch.wait_gone(10)
    stack.network()
    apply(stack, rules)
    # Machines that run are plugged in again.
    argv = (PYTHON, "-c", ECHO, "22", f"cpu-1 of {stack.name}")
    stack.create(stack.spec(1, Service("echo", argv, ready="tcp:22")))
    assert reach(stack, LICENCES) == f"outside to {HOST}: hello"


def test_after_a_boot_of_the_host_what_it_lacks_is_told_and_the_next_up_makes_the_rest(
    stack: Stack, outside: Outside
) -> None:
    department(stack, Rules((TO_LICENCES,), (FROM_LICENCES,)))
    kind = NetworkKind(Home(stack.data, stack.data))
    wanted = NetworkModel(
        stack=stack.name, network="net", cidr="10.77.0.0/16", egress=(TO_LICENCES,), ingress=(FROM_LICENCES,)
    )
    assert list(kind.mistakes(wanted)) == []
    # Files are what is left after a boot: no process, no table, no setting that nobody wrote into a file.
    kill_hard(stack.read("cpu-1").pid or 0)
    kill_hard(stack.read("cpu-2").pid or 0)
    kill_hard(stack.network().pid or 0)
    subprocess.run(["nft", "delete", "table", "ip", _table()], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
    (told,) = kind.mistakes(wanted)
    assert "sysctl -w net.ipv4.ip_forward=1" in told.reason
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    assert list(kind.mistakes(wanted)) == []
    assert kind.look("", wanted) == {"state": "dead"}
    kind.create(wanted, Task("urn", 60.0, time.monotonic() + 60, print, print, print))
    department(stack, Rules((TO_LICENCES,), (FROM_LICENCES,)))
    assert reach(stack, LICENCES) == f"outside to {HOST}: hello"
    assert outside.ask(2222, source=LICENCES).startswith("cpu-2")
    # Somebody closes it while the cluster runs.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
    assert len(list(kind.mistakes(wanted))) == 1


_MAKE = (
    "import sys; from pathlib import Path\n"
    "from tidepool.cluster.flows import Flow\n"
    "from tidepool.infrastructures.local.kernel.layout import network_paths\n"
    "from tidepool.infrastructures.local.kernel.ruleset import Rules\n"
    "from tidepool.infrastructures.local.kernel.uplink import set_uplink\n"
    "data, stack, ports = sys.argv[1:]\n"
    "rules = Rules((Flow(('10.77.0.11/32',), ('192.0.2.7/32',), 'tcp', (ports,)),)) if ports else Rules()\n"
    "print('now', flush=True)\n"
    "set_uplink(network_paths(Path(data), stack, 'net'), '10.77.255.254', rules)\n"
)


def test_killed_while_an_uplink_is_made_or_taken_away_the_next_one_goes_on(
    stack: Stack, outside: Outside
) -> None:
    department(stack, Rules())
    for after_ms in (5, 15, 30, 50, 80):
        for ports in (str(LICENCE), ""):
            command = [sys.executable, "-c", _MAKE, str(stack.data), stack.name, ports]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as maker:
                assert maker.stdout is not None
                maker.stdout.readline()
                time.sleep(after_ms / 1000)
                maker.kill()
        # Whatever stands, nobody gets where no rule leads.
        assert reach(stack, OTHER).startswith("refused")
        apply(stack, Rules((TO_LICENCES,)))
        assert reach(stack, LICENCES) == f"outside to {HOST}: hello"


def test_one_whose_removal_was_cut_off_is_made_anew(
    stack: Stack, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CutOff(BaseException):
        pass

    def cut_off(device: str) -> None:
        raise CutOff

    rules = Rules((TO_LICENCES,))
    department(stack, rules)
    with monkeypatch.context() as patched:
        patched.setattr(uplink, "_remove_device", cut_off)
        with pytest.raises(CutOff):
            apply(stack, Rules())
    apply(stack, rules)
    # The machines that run had no route any more.
    assert reach(stack, LICENCES) == f"outside to {HOST}: hello"


def test_what_this_machine_lacks_is_told(stack: Stack, other_stack: Stack, outside: Outside) -> None:
    rules = Rules((TO_LICENCES,), (FROM_LICENCES,))
    network, other = (network_paths(each.data, each.name, "net") for each in (stack, other_stack))
    assert list(uplink_lacks(network, rules)) == []
    department(stack, rules)
    assert list(uplink_lacks(network, rules)) == [], "its own port is not in its way"
    (taken,) = uplink_lacks(other, rules)
    assert "2222" in taken.what
    assert "firewall.logins.port" in taken.remedy
    outside.serve(2223, here=True)
    (listening,) = uplink_lacks(network, Rules((), (replace(FROM_LICENCES, port=2223),)))
    assert "2223" in listening.what
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
    (closed,) = uplink_lacks(network, Rules((TO_LICENCES,)))
    assert closed.remedy.startswith("sysctl -w net.ipv4.ip_forward=1 ")
    # Between switches nothing passes this machine itself.
    assert list(uplink_lacks(network, Rules(peers=(Peer("10.88.0.0/16", (), ()),)))) == []
    # The doctor says it of a stack whose spec asks for it, and of no other.
    asking = {"nodes": {"egress": [{"to": [LICENCES]}]}}
    found = [[*checks_of(spec(each), other_stack.name, other_stack.data)] for each in (asking, {})]
    assert [[(each.state, each.remedy) for each in one] for one in found] == [[("lacks", closed.remedy)], []]
    assert list(uplink_lacks(network, Rules())) == []


def test_of_two_that_take_a_port_at_once_one_has_it_and_the_other_is_told(
    stack: Stack, other_stack: Stack, outside: Outside
) -> None:
    rules = Rules((TO_LICENCES,), (FROM_LICENCES,))
    for one in (stack, other_stack):
        department(one, Rules())
    with ThreadPoolExecutor() as threads:
        errors = [
            each.exception() for each in [threads.submit(apply, one, rules) for one in (stack, other_stack)]
        ]
    (told,) = filter(None, errors)
    assert isinstance(told, LocalError)
    assert "firewall.logins.port: port 2222" in str(told)
    first, second = (stack, other_stack) if errors[0] is None else (other_stack, stack)
    assert outside.ask(2222, source=LICENCES).startswith(f"cpu-2 of {first.name}")
    # Of the other nothing was changed, and at another port it has what it wants.
    assert "Network is unreachable" in reach(second, LICENCES)
    apply(second, replace(rules, ingress=(replace(FROM_LICENCES, port=2223),)))
    with pytest.raises(LocalError, match=r"firewall\.logins\.port: port 2222"):
        apply(second, rules)
    for one, port in ((first, 2222), (second, 2223)):
        assert outside.ask(port, source=LICENCES).startswith(f"cpu-2 of {one.name}")


def test_addresses_of_an_uplink_are_chosen_by_one_at_a_time(
    stack: Stack, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.network()
    monkeypatch.setattr(uplink, "_LOCK_S", 0.0)
    # Whoever holds it may have another data folder: it is the host's network that has the addresses.
    with host_locked(0.0), pytest.raises(TimedOut):
        apply(stack, Rules((TO_LICENCES,)))
    apply(stack, Rules((TO_LICENCES,)))
    assert _link(stack)


def test_an_uplink_of_a_network_that_is_not_up_is_refused(stack: Stack) -> None:
    with pytest.raises(LocalError, match="not up"):
        apply(stack, Rules((TO_LICENCES,)))


def _link(stack: Stack) -> str:
    """The switch's address at its uplink."""
    told = subprocess.run(
        [*stack.network().prefix, "ip", "-o", "-4", "addr", "show", "dev", "uplink"],
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.split()[3].partition("/")[0]


def _table() -> str:
    """The name of the one table that the host has of a stack."""
    told = subprocess.run(["nft", "list", "tables", "ip"], capture_output=True, text=True, check=True)
    return told.stdout.split()[2]
