"""What is wrong with a cluster, worked out from what was seen: plain calls."""

from __future__ import annotations

import io
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.cli.standins import CONTROLLER, OUTPUTS
from tests.simulation.slurm import FakeSlurm
from tidepool import infrastructures
from tidepool.cli.cluster import Cluster, parse_outputs
from tidepool.cli.overview import NOBODY, Overview, overview, tables
from tidepool.cli.problems import Observations, RemoteMachines, state_word
from tidepool.clients.slurm import Controller, JobRequest, Node, NodeState, Slots
from tidepool.clients.slurm.scontrol import Reason
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.local.kernel import Machine
from tidepool.infrastructures.local.kernel.machine import MachineState
from tidepool.infrastructures.local.kernel.record import ServiceState

CLUSTER = Cluster("dev", "dev", CONTROLLER, fleets={"cpu": "cpu-[1-2]"})
UP = (Controller("primary", "ctl", True),)


def machine(
    name: str, state: MachineState = "running", kills: int = 0, services: tuple[ServiceState, ...] = ()
) -> Machine:
    return Machine(
        stack="dev",
        name=name,
        state=state,
        network="net",
        address="10.99.1.1",
        mac="",
        image="",
        cpus=1,
        memory_mib=64,
        fingerprint="",
        pid=1 if state == "running" else None,
        services=services,
        memory_kills=kills,
        boot_log=Path("/boot.log"),
        outdated=False,
    )


def nodes(*states: str) -> tuple[Node, ...]:
    return tuple(
        Node(f"cpu-{number}", NodeState.parse(state)) for number, state in enumerate(states, start=1)
    )


def problems(seen: Observations) -> list[tuple[str, str]]:
    return [(p.severity, p.what) for p in overview(CLUSTER, seen).problems]


MACHINES = (machine("ctl"), machine("cpu-1"), machine("cpu-2"))


def test_all_is_well() -> None:
    seen = overview(CLUSTER, Observations(UP, "22.05.8", nodes("IDLE", "MIXED", "FUTURE"), (), MACHINES))
    assert seen.problems == ()
    (fleet,) = seen.fleets
    assert (fleet.name, fleet.up, fleet.present, fleet.max_nodes) == ("cpu", 2, 2, 3)
    assert dict(fleet.nodes) == {"idle": 1, "mixed": 1}


def test_machines_that_are_suspended_are_counted_and_are_no_problem() -> None:
    key = MachineKey("dev", "cpu-3", "m-1", "libvirt")
    remote = RemoteMachines((infrastructures.Machine(key, IPv4Address("10.80.1.3"), "suspended"),))
    kept: dict[str, str]
    for kept in ({}, {"cpu": "cpu-3"}):
        cluster = parse_outputs("dev", {**OUTPUTS, "suspended": kept})
        there = Observations(UP, "22.05.8", nodes("IDLE", "MIXED", "FUTURE"), (), MACHINES, remote=remote)
        seen = overview(cluster, there)
        assert [fleet.suspended for fleet in seen.fleets] == [len(kept)]
        # One that no output names is nobody's.
        assert any("cpu-3" in problem.what for problem in seen.problems) == (not kept)
        table = io.StringIO()
        fleets = tables(seen, NOBODY, None, all_machines=False)[1 + bool(seen.problems)]
        Console(file=table, width=120).print(fleets)
        assert ("suspended" in table.getvalue()) == bool(kept)


def test_fleets_say_which_offerings_their_machines_are() -> None:
    entries = [{"name": "local", "offering": "here"}, {"name": "aws", "offering": "spot"}, "libvirt"]
    spec: dict[str, Any] = {"fleets": [{"name": "cpu", "infrastructures": entries}]}
    for offerings, told in (([{"name": "here"}, {"name": "spot"}], ("here", "spot")), ([], ())):
        cluster = parse_outputs("dev", {**OUTPUTS, "spec": {**spec, "offerings": offerings}})
        seen = overview(cluster, Observations(UP, "22.05.8", nodes("IDLE", "MIXED"), (), MACHINES))
        assert [fleet.offerings for fleet in seen.fleets] == [told]
        table = io.StringIO()
        _, fleets, *_ = tables(seen, NOBODY, None, all_machines=False)
        Console(file=table, width=120).print(fleets)
        assert ("here, spot" in table.getvalue()) == bool(told)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("IDLE", "idle"),
        ("FUTURE", "slot"),
        ("DOWN+NOT_RESPONDING", "not responding"),
        ("IDLE+NOT_RESPONDING", "not responding"),
        ("DOWN", "down"),
        ("DOWN+DRAIN", "down"),
        ("IDLE+DRAIN", "drained"),
        ("MIXED+DRAIN", "draining"),
        ("IDLE+COMPLETING+DRAIN", "draining"),
        ("IDLE+FAIL", "failing"),
        ("ALLOCATED+DYNAMIC_NORM", "allocated"),
    ],
)
def test_a_state_has_a_word(state: str, word: str) -> None:
    assert state_word(NodeState.parse(state)) == word


def test_nodes_that_do_not_answer_are_one_line_with_a_hostlist() -> None:
    seen = Observations(UP, "", nodes("DOWN+NOT_RESPONDING", "DOWN+NOT_RESPONDING"), (), MACHINES)
    assert problems(seen) == [("failure", "node cpu-[1-2] is DOWN+NOT_RESPONDING")]


def test_a_remedy_depends_on_the_machine() -> None:
    dead = (machine("ctl"), machine("cpu-1", "dead"), machine("cpu-2"))
    told = overview(CLUSTER, Observations(UP, "", nodes("DOWN", "DOWN"), (), dead)).problems
    assert {p.what: p.remedy for p in told} == {
        "node cpu-1 is DOWN": "`tidepool up` makes it again",
        "node cpu-2 is DOWN": "`tidepool logs cpu-2` says more; `tidepool resume cpu-2` once it is well",
        "machine cpu-1 is dead": "`tidepool up` boots it again",
    }


def test_a_person_who_drains_is_a_note_below_the_failures() -> None:
    drained = Node("cpu-1", NodeState.parse("IDLE+DRAIN"), reason=Reason("new disk", "root"))
    seen = Observations(
        UP, "", (drained, *nodes("IDLE", "IDLE")[1:]), (), (*MACHINES[:2], machine("cpu-2", kills=1))
    )
    assert problems(seen) == [
        ("note", "node cpu-1 is drained: new disk"),
        ("note", "on machine cpu-2 processes were killed, because its memory was full"),
    ]
    down = Observations(UP, "", (drained, *nodes("IDLE", "DOWN")[1:]), (), MACHINES)
    assert [severity for severity, _ in problems(down)] == ["failure", "note"]


def test_nodes_without_machines_and_machines_that_are_no_nodes() -> None:
    machines = (machine("ctl"), machine("cpu-2"), machine("cpu-3"), machine("login-1"))
    logins = ({"kind": "local", "stack": "dev", "machine": "login-1"},)
    cluster = Cluster("dev", "dev", CONTROLLER, logins, fleets={"cpu": "cpu-[1-4]"})
    seen = overview(cluster, Observations(UP, "", nodes("IDLE", "IDLE", "FUTURE", "FUTURE"), (), machines))
    assert [p.what for p in seen.problems] == [
        "node cpu-1 has no machine",
        "machine cpu-3 is no node of Slurm's",
        "node cpu-4 should be there, and is not",
    ]


def test_machines_on_an_infrastructure_that_cannot_be_asked_are_not_missed() -> None:
    """Slurm says of their nodes whether they are up."""
    there = tuple(Node(name, NodeState.parse("IDLE")) for name in ("cpu-1", "gpu-1", "here-1"))
    unseen = RemoteMachines(silent={"libvirt": "no route"}, unseen=frozenset({"cpu", "gpu"}))
    told = overview(
        Cluster("dev", "dev", CONTROLLER), Observations(UP, "", there, (), (machine("ctl"),), remote=unseen)
    ).problems
    assert [problem.what for problem in told] == [
        "machines of libvirt cannot be listed: no route",
        "node here-1 has no machine",
    ]


def test_services_that_do_not_stay_up() -> None:
    ill = machine("cpu-1", services=(ServiceState("slurmd", "backing-off", 0, 9),))
    seen = Observations(UP, "", nodes("IDLE", "IDLE"), (), (MACHINES[0], ill, MACHINES[2]))
    assert problems(seen) == [("failure", "slurmd on machine cpu-1 does not stay up")]


def test_a_controller_that_was_taken_over_from_stays_down_and_is_started_by_what_is_told() -> None:
    ended = machine("ctl", services=(ServiceState("slurmctld", "ended", 0, 1),))
    backup = (Controller("primary", "ctl", False), Controller("backup", "ctlbackup", True))
    seen = overview(CLUSTER, Observations(backup, "", nodes("IDLE", "IDLE"), (), (ended, *MACHINES[1:])))
    (told,) = seen.problems
    assert (told.severity, told.what.split(",")[0]) == ("note", "slurmctld of ctl ended without an error")
    assert told.remedy.startswith("`tidepool exec ctl -- sh -c ")


def test_a_controller_whose_machine_serves_kubernetes_is_no_problem() -> None:
    away = machine("shared-1", services=(ServiceState("slurmctld", "off", 0, 0, "slurm"),))
    cluster = Cluster("dev", "dev", CONTROLLER, pools={"shared": {"kubernetes": "shared-1"}})
    there = (Controller("primary", "shared-1", False), Controller("backup", "ctl", True))
    assert overview(cluster, Observations(there, "", (), (), (machine("ctl"), away))).problems == ()


def test_a_controller_that_is_down_beside_one_that_is_up() -> None:
    backup = (Controller("primary", "ctl", False), Controller("backup", "ctlbackup", True))
    seen = Observations(backup, "", nodes("IDLE", "IDLE"), (), MACHINES)
    assert problems(seen) == [("failure", "slurmctld on ctl does not answer")]


def test_without_an_answer_nothing_is_said_of_nodes() -> None:
    seen = overview(CLUSTER, Observations(machines=MACHINES, failure="no answer", remedy="wait"))
    assert [(p.what, p.remedy) for p in seen.problems] == [("no answer", "wait")]
    assert not seen.is_reached


def test_the_queue_counts_jobs_by_state_and_reason() -> None:
    slurm = FakeSlurm()
    slurm.create_slots(Slots("cpu-[1-2]", addresses="10.0.0.[1-2]", cpus=1, memory_mib=100))
    slurm.boot("cpu-1")
    for _ in range(2):
        slurm.submit(JobRequest("#!/bin/sh\n"))
    slurm.submit(JobRequest("#!/bin/sh\n", array="0-9"))
    seen: Overview = overview(CLUSTER, Observations(UP, "", slurm.nodes(), slurm.jobs()))
    assert next((row.state, row.jobs) for row in seen.queue) == ("RUNNING", 1)
    assert sum(row.jobs for row in seen.queue if row.state == "PENDING") == 11
    assert seen.fleets[0].jobs == 1
