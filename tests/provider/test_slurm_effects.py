"""What a change of Slurm's files asks for is decided without Slurm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.decide.cluster_states import job
from tidepool.clients.slurm import Job, JobState, Partition
from tidepool.clients.slurm.scontrol import parse_partition
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slurm_conf import configuration
from tidepool.cluster.spec_reading import read_spec
from tidepool.provider.slurm_effects import (
    Effect,
    Impact,
    PartitionOrder,
    impact,
    losses,
    lost_fleets,
    lost_slots,
    partitions_of,
    setting,
    states_by_hand,
    used_of,
)

_TEXT = st.text("aK=# \\\n,1", max_size=40)

CONF = """\
ClusterName=physics
SlurmctldHost=ctl(10.77.0.2)
SlurmctldParameters=enable_configless
MaxNodeCount=1024
SelectType=select/cons_tres
KillWait=30  # seconds
PartitionName=main Nodes=ALL State=UP
"""


def _impact(old: str, new: str) -> Impact:
    return impact({"slurm.conf": old}, {"slurm.conf": new})


def test_what_says_the_same_asks_for_nothing() -> None:
    other = "# By hand.\n\n" + CONF.replace("=30  # seconds", " =  30").replace(
        " State=UP", " \\\n  State=UP"
    )
    assert _impact(CONF, CONF) == Impact(Effect.NOTHING)
    assert _impact(CONF, other).effect is Effect.NOTHING


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("KillWait=30", "KillWait=60"),
        ("KillWait=30  # seconds\n", ""),
        ("State=UP", 'State=UP TRESBillingWeights="CPU=1 Mem=1"'),
        (" State=UP", ""),
        ("PartitionName=main", "NodeSet=ns Feature=a\nPartitionName=main"),
        ("enable_configless", "enable_configless,idle_on_node_suspend"),
    ],
)
def test_most_keys_ask_for_a_reconfigure(before: str, after: str) -> None:
    assert _impact(CONF, CONF.replace(before, after)) == Impact(Effect.RECONFIGURE)


@pytest.mark.parametrize(
    ("before", "after", "because"),
    [
        ("MaxNodeCount=1024", "MaxNodeCount=2048", "MaxNodeCount"),
        ("MaxNodeCount=1024", "maxnodecount=2048", "maxnodecount"),
        ("MaxNodeCount=1024\n", "", "MaxNodeCount"),
        ("KillWait", "AccountingStorageEnforce=limits\nKillWait", "AccountingStorageEnforce"),
        ("KillWait", "SlurmctldHost=ctlbackup\nKillWait", "SlurmctldHost"),
        ("enable_configless", "idle_on_node_suspend", "SlurmctldParameters"),
        ("KillWait", "NodeName=cpu-[1-4] State=FUTURE\nKillWait", "NodeName"),
        ("KillWait", "GresTypes=gpu\nKillWait", "GresTypes"),
        ("KillWait", "ResumeProgram=/x\nKillWait", "ResumeProgram"),
    ],
)
def test_keys_that_are_read_at_the_start_ask_for_a_restart(before: str, after: str, because: str) -> None:
    assert _impact(CONF, CONF.replace(before, after)) == Impact(Effect.RESTART, (because,))


def test_other_files_ask_for_a_reconfigure() -> None:
    old = {"slurm.conf": CONF, "gres.conf": "# Nothing.\n"}
    assert impact(old, old | {"gres.conf": "Name=gpu File=/dev/gpu\n"}).effect is Effect.RECONFIGURE
    assert impact(old, old | {"topology.conf": "SwitchName=a Nodes=b\n"}).effect is Effect.RECONFIGURE
    assert impact(old, old | {"gres.conf": ""}).effect is Effect.NOTHING


@given(_TEXT, _TEXT)
def test_any_two_texts_are_compared(old: str, new: str) -> None:
    assert _impact(old, old).effect is Effect.NOTHING
    assert _impact(old, new).effect == _impact(new, old).effect


def test_the_partitions_and_settings_of_a_real_file() -> None:
    spec = {
        "name": "physics",
        "network": "10.77.0.0/16",
        "fleets": [
            {"name": "cpu", "subnet": "10.77.1.0/24", "max_nodes": 4, "shape": {"cpus": 1, "memory": "1GiB"}}
        ],
        "partitions": [{"name": "main", "default": True}, {"name": "night", "fleets": ["cpu"]}],
    }
    files = configuration(read_spec(spec))
    assert partitions_of(files) == {"main", "night"}
    assert setting(files, "slurmctldpidfile", "?") == "/run/slurmctld.pid"
    assert setting(files, "NoSuchKey", "?") == "?"
    more = spec | {"partitions": [{"name": "main"}]}
    found = impact(files, configuration(read_spec(more)))
    assert found.orders == (PartitionOrder("delete", "night"),)


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        ("State=UP", "State=DOWN", PartitionOrder("update", "main", (("State", "DOWN"),))),
        (" State=UP", " State=UP MaxTime=60", PartitionOrder("update", "main", (("MaxTime", "60"),))),
        ("PartitionName=main Nodes=ALL State=UP\n", "", PartitionOrder("delete", "main")),
        (
            "PartitionName=main",
            "PartitionName=night Nodes=a\nPartitionName=main",
            PartitionOrder("create", "night", (("Nodes", "a"),)),
        ),
    ],
)
def test_partitions_alone_are_said_by_orders(before: str, after: str, order: PartitionOrder) -> None:
    assert _impact(CONF, CONF.replace(before, after)) == Impact(Effect.ORDERS, orders=(order,))


def test_who_becomes_the_default_is_told_last() -> None:
    old = CONF.replace("State=UP", "Default=YES") + "PartitionName=night Nodes=a Default=NO\n"
    new = CONF.replace("State=UP", "Default=NO") + "PartitionName=night Nodes=a Default=YES\n"
    assert [order.name for order in _impact(old, new).orders] == ["main", "night"]
    assert [order.name for order in _impact(new, old).orders] == ["night", "main"]


def _job(job_id: int, *nodes: str, partition: str = "main") -> Job:
    state = JobState.RUNNING if nodes else JobState.PENDING
    return job(job_id, partitions=(partition,), nodelist=",".join(nodes), state=state)


def test_what_runs_or_waits_there_keeps_a_partition() -> None:
    jobs = [_job(7, "cpu-1"), _job(3), _job(9, partition="night")]
    (said,) = losses({"main"}, HostSet(), jobs)
    assert said.startswith("partition main cannot go: Slurm would cancel the jobs 3, 7 in it")
    assert list(losses({"empty"}, HostSet(), jobs)) == []


def test_what_runs_there_keeps_slots() -> None:
    jobs = [_job(7, "cpu-2"), _job(8, "cpu-3", "gpu-1"), _job(3)]
    (said,) = losses((), HostSet("cpu-[1-4],big-[1-4]"), jobs)
    assert said.startswith(
        "of the slots big-[1-4],cpu-[1-4], which go or have another shape, some run the jobs 7, 8;"
    )
    assert said.endswith("`scancel 7 8`")
    assert list(losses((), HostSet("big-[1-4]"), jobs)) == []


def test_slots_are_lost_with_their_line_or_their_shape_and_not_with_a_feature() -> None:
    def lost(*lines: str) -> str:
        before = "NodeName=cpu-[1-4] CPUs=4 RealMemory=8000 Feature=cpu State=FUTURE"
        return str(lost_slots({"slurm.conf": before}, {"slurm.conf": "\n".join(lines)}))

    assert lost("NodeName=cpu-[1-9] RealMemory=8000 CPUs=4 Feature=cpu,ib State=FUTURE") == ""
    assert (
        lost("NodeName=cpu-[1-2] CPUs=4 RealMemory=8000", "NodeName=cpu-[3-4] CPUs=8 RealMemory=8000")
        == "cpu-[3-4]"
    )
    assert lost() == "cpu-[1-4]"


def test_nodes_of_a_fleet_that_goes_are_those_that_jobs_use() -> None:
    def files(*fleets: str) -> dict[str, str]:
        return {"slurm.conf": "\n".join(f"NodeSet=ns_{fleet} Feature={fleet}" for fleet in fleets)}

    fleets = lost_fleets(files("cpu", "big", "gpu"), files("gpu", "more"))
    assert fleets == {"cpu", "big"}
    jobs = [_job(7, "cpu-2"), _job(8, "cpu-3", "gpu-1"), _job(3), _job(9, "byhand")]
    assert str(used_of(fleets, jobs)) == "cpu-[2-3]"
    assert str(used_of({"big"}, jobs)) == ""


def _partition(name: str, state: str) -> Partition:
    said = {
        "PartitionName": name,
        "State": state,
        "Default": "NO",
        "Nodes": "",
        "TotalNodes": "0",
        "TotalCPUs": "0",
    }
    said |= {"MaxTime": "UNLIMITED", "DefaultTime": "NONE", "MaxNodes": "UNLIMITED", "PriorityTier": "1"}
    return parse_partition(" ".join(f"{key}={value}" for key, value in said.items()) + " OverSubscribe=NO")


def test_a_state_that_somebody_set_is_kept_and_another_of_the_file_is_not_undone() -> None:
    conf = {
        "slurm.conf": 'PartitionName=main State=UP\nPartitionName=night State=UP\nPartitionName=own Nodes=ALL TRESBillingWeights="CPU=1 Mem=1"\n'
    }
    there = [_partition("main", "DOWN"), _partition("night", "UP"), _partition("own", "DRAIN")]
    kept = (
        PartitionOrder("update", "main", (("State", "DOWN"),)),
        PartitionOrder("update", "own", (("State", "DRAIN"),)),
    )
    assert states_by_hand(conf, conf, there) == kept
    changed = {"slurm.conf": conf["slurm.conf"].replace("main State=UP", "main State=INACTIVE")}
    assert states_by_hand(conf, changed, there) == kept[1:]
    assert states_by_hand(conf, {"slurm.conf": ""}, there) == ()
