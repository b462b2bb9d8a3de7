"""Nodes, read from what scontrol writes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.clients.slurm import Node, NodeBase, NodeFlag, NodeState, Reason
from tidepool.clients.slurm.scontrol import parse_node

#: As src/api/node_info.c of 22.05 and of 24.11 put a line together; the last key of the head differs.
HEAD = (
    "NodeName=cpu-1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=1 CPUEfctv=4 CPUTot=4 CPULoad=0.10 "
    "AvailableFeatures=std,avx2 ActiveFeatures=std Gres=gpu:a100:2(S:0-1) NodeAddr=10.0.0.1 NodeHostName=cpu-1 "
    "Version=22.05.8 OS=Linux 6.1.0 #1 SMP Debian 6.1.1  RealMemory=4000 AllocMem=100 FreeMem=N/A Sockets=2 Boards=1 "
    "State={state} ThreadsPerCore=1 TmpDisk=0 Weight=3 Owner=N/A MCS_label=N/A Partitions=std,all  BootTime=1700000000 "
    "SlurmdStartTime=1700000001 LastBusyTime=1700000002 CfgTRES=cpu=4,mem=4000M,billing=4,gres/gpu=2 "
    "AllocTRES=cpu=1,mem=100M "
)
OLD = (
    HEAD
    + "CapWatts=n/a CurrentWatts=n/s AveWatts=n/s ExtSensorsJoules=n/s ExtSensorsWatts=n/s ExtSensorsTemp=n/s"
)
NEW = (
    HEAD.replace("LastBusyTime=1700000002", "LastBusyTime=1700000002 ResumeAfterTime=None")
    + "CurrentWatts=0 AveWatts=0"
)


def line(form: str = OLD, state: str = "MIXED", notes: str = "") -> str:
    return form.format(state=state) + notes


@pytest.mark.parametrize("form", [OLD, NEW], ids=["22.05", "24.11"])
def test_every_field_is_read(form: str) -> None:
    node = parse_node(line(form))
    assert node == Node(
        name="cpu-1",
        state=NodeState(NodeBase.MIXED),
        address="10.0.0.1",
        hostname="cpu-1",
        cpus=4,
        cpus_alloc=1,
        memory_mib=4000,
        memory_alloc_mib=100,
        features=("std", "avx2"),
        active_features=("std",),
        gres="gpu:a100:2(S:0-1)",
        sockets=2,
        cores_per_socket=2,
        threads_per_core=1,
        weight=3,
        partitions=("std", "all"),
        reason=None,
        boot_time=datetime.fromtimestamp(1700000000, UTC),
        slurmd_start_time=datetime.fromtimestamp(1700000001, UTC),
        last_busy_time=datetime.fromtimestamp(1700000002, UTC),
        tres={"cpu": "4", "mem": "4000M", "billing": "4", "gres/gpu": "2"},
        tres_alloc={"cpu": "1", "mem": "100M"},
        version="22.05.8",
    )


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (" Reason=disk [root@1700000003]", Reason("disk", "root", datetime.fromtimestamp(1700000003, UTC))),
        (" Reason=no time", Reason("no time")),
        (
            " Reason=State=IDLE [me@home] NodeName=x [root@1700000003]",
            Reason("State=IDLE [me@home] NodeName=x", "root", datetime.fromtimestamp(1700000003, UTC)),
        ),
        (
            " Reason=two [root@1700000003]         lines",
            Reason("two lines", "root", datetime.fromtimestamp(1700000003, UTC)),
        ),
    ],
)
def test_who_said_why_and_when(written: str, reason: Reason) -> None:
    node = parse_node(line(state="IDLE+DRAIN", notes=written))
    assert node.reason == reason
    assert node.state.is_drained


def test_notes_of_newer_releases() -> None:
    node = parse_node(
        line(
            NEW,
            notes=" Reason=x [root@1] Comment=a b Extra={} InstanceId=i-1 InstanceType=m6 ReservationName=r",
        )
    )
    assert (node.comment, node.extra) == ("a b", "{}")


bases = st.sampled_from(NodeBase)
flags = st.frozensets(st.sampled_from(NodeFlag) | st.just("MADE_UP_BY_A_NEWER_SLURM"))


@given(bases, flags)
def test_every_combination_of_states_is_read_back(base: NodeBase, some: frozenset[str]) -> None:
    state = NodeState(base, some)
    assert NodeState.parse(str(state)) == state
    assert parse_node(line(state=str(state))).state == state


@given(bases, flags)
def test_a_node_that_runs_jobs_is_never_drained(base: NodeBase, some: frozenset[str]) -> None:
    state = NodeState(base, some)
    assert not (state.is_drained and state.runs_jobs)
    assert not (state.takes_jobs and state.is_draining)


def test_an_unknown_base_state_is_an_error() -> None:
    with pytest.raises(ValueError, match="DRAINED"):
        NodeState.parse("DRAINED")


@given(st.text(alphabet="=N ode\nStaIDLE+x[]@", max_size=60))
def test_what_is_no_node_is_an_error(written: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        parse_node(written)
