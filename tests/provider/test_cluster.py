"""A real cluster by the provider, from its first `up` to its end. One cluster; the tests follow each other."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from tests.machine_faults import pull_plug
from tests.provider.stack import Stack, eventually, fleet
from tidepool.cluster.desired_state import FORCE_SETTINGS as REGARDLESS
from tidepool.infrastructures.local import kernel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(stack: Stack) -> Stack:
    """Two nodes that are up, of a fleet of four slots."""
    stack.done("up")
    return stack


def test_a_preview_before_anything_is_there_tells_all_and_makes_nothing(stack: Stack) -> None:
    ran = stack.done("preview")
    assert ran.changes == ["15 to create"]
    assert "10.91" not in " ".join(map(str, kernel.list_networks(stack.data, stack.name)))
    assert "configuration" in ran.text
    assert "mungeKey" in ran.text


def test_up_gives_nodes_that_are_idle(cluster: Stack) -> None:
    assert cluster.states() == {"cpu-1": "IDLE", "cpu-2": "IDLE", "cpu-3": "FUTURE", "cpu-4": "FUTURE"}


def test_nothing_changes_when_nothing_changed(cluster: Stack) -> None:
    assert cluster.done("up").changes == ["15 unchanged"]
    assert cluster.done("up", "--refresh").changes == ["15 unchanged"]
    assert cluster.done("preview").changes == ["15 unchanged"]


def test_a_node_takes_less_than_a_kilobyte_of_state(cluster: Stack) -> None:
    file = cluster.root / "state/.pulumi/stacks/cluster/dev.json"
    resources = json.loads(file.read_text())["checkpoint"]["latest"]["resources"]
    node = [each for each in resources if each["urn"].endswith(("::cpu-1", "::cpu-1-node"))]
    assert len(node) == 2
    assert sum(len(json.dumps([each["inputs"], each["outputs"]])) for each in node) < 1024


def test_secrets_are_secrets(cluster: Stack) -> None:
    key = (cluster.data / "dev/machines/ctl/upper/etc/munge/munge.key").read_bytes()
    assert len(key) == 128
    checkpoint = (cluster.root / "state/.pulumi/stacks/cluster/dev.json").read_text()
    boots = (cluster.data / "dev/boots/controller.json").stat()
    assert boots.st_mode & 0o777 == 0o600
    assert "OPENSSH PRIVATE KEY" not in checkpoint
    assert base64.b64encode(key).decode() not in checkpoint
    assert "[secret]" in cluster.done("up").text


def test_no_change_of_partitions_restarts_slurmctld(cluster: Stack) -> None:
    pid = cluster.pid_of("slurmctld")
    night = {"partitions": [{"name": "main", "default": True}, {"name": "night", "max_time": "8:00:00"}]}
    for names, more in (({"main", "night"}, night), ({"main"}, {})):
        cluster.want(fleet(), nodes={"cpu": 2}, spec=more)
        assert cluster.done("up").changes == ["1 updated", "14 unchanged"]
        assert {each.name for each in cluster.slurm.partitions()} == names
        assert cluster.pid_of("slurmctld") == pid


def test_more_slots_come_while_a_job_runs_and_a_partition_stays_as_somebody_set_it(cluster: Stack) -> None:
    job = cluster.job("cpu-1")
    cluster.slurm.change_partition("update", "main", (("State", "DRAIN"),))
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2})
    cluster.done("up")
    assert cluster.states()["cpu-6"] == "FUTURE"
    assert cluster.job_state(job) == "RUNNING"
    assert [each.state for each in cluster.slurm.partitions()] == ["DRAIN"]
    cluster.slurm.change_partition("update", "main", (("State", "UP"),))
    cluster.cancel(job)
    eventually(lambda: cluster.states()["cpu-1"] == "IDLE")


def test_a_partition_with_a_waiting_job_is_not_removed(cluster: Stack) -> None:
    more = {"partitions": [{"name": "main", "default": True}, {"name": "night"}]}
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2}, spec=more)
    cluster.done("up")
    job = int(cluster.on("ctl", "sbatch", "--parsable", "--partition=night", "--hold", "--wrap=true"))
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2})
    assert f"partition night cannot go: Slurm would cancel the jobs {job}" in cluster.refused("up").text
    assert cluster.job_state(job) == "PENDING"
    cluster.slurm.cancel(job)
    cluster.done("up")


def test_a_node_that_runs_a_job_is_not_deleted(cluster: Stack) -> None:
    job = cluster.job("cpu-2")
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 1})
    assert f"node cpu-2 runs the jobs {job}, and stays" in cluster.refused("up").text
    (node,) = cluster.slurm.nodes("cpu-2")
    assert not node.state.is_draining
    cluster.slurm.drain("cpu-2", "a bad fan")
    cluster.refused("up")
    (node,) = cluster.slurm.nodes("cpu-2")
    assert node.state.is_draining
    assert node.reason is not None
    assert node.reason.text == "a bad fan"
    cluster.cancel(job)
    cluster.done("up")
    assert cluster.states()["cpu-2"] == "FUTURE"
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2})
    cluster.done("up")
    (node,) = cluster.slurm.nodes("cpu-2")
    assert node.state.takes_jobs


def test_regardless_a_node_goes_with_the_job_that_it_runs(cluster: Stack) -> None:
    job = cluster.job("cpu-2")
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 1})
    cluster.refused("up")
    replace(cluster, more=REGARDLESS).done("up")
    assert cluster.states()["cpu-2"] == "FUTURE"
    assert cluster.job_state(job) == "PENDING", "put back into the queue"
    cluster.cancel(job)
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2})
    cluster.done("up")


def test_a_node_that_a_person_drained_is_up(cluster: Stack) -> None:
    cluster.slurm.drain("cpu-2", "a bad fan")
    assert cluster.done("up", "--refresh").changes == ["15 unchanged"]
    assert cluster.slurm.nodes("cpu-2")[0].state.is_draining
    cluster.slurm.undrain("cpu-2")


def test_what_slurm_refuses_is_put_back(cluster: Stack) -> None:
    before, pid = cluster.on("ctl", "cat", "/etc/slurm/slurm.conf"), cluster.pid_of("slurmctld")
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2}, files={"slurm.conf": f"{before}\nNoSuchKey=1\n"})
    ran = cluster.refused("up")
    assert "NoSuchKey" in ran.text
    assert "has the former one again" in ran.text
    assert cluster.on("ctl", "cat", "/etc/slurm/slurm.conf") == before
    assert cluster.pid_of("slurmctld") == pid
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2})
    assert "15 unchanged" in cluster.done("up").changes


def test_a_key_that_is_read_at_the_start_restarts_slurmctld_and_jobs_go_on(cluster: Stack) -> None:
    job, pid = cluster.job("cpu-1"), cluster.pid_of("slurmctld")
    before = cluster.on("ctl", "cat", "/etc/slurm/slurm.conf")
    more = before.replace("MaxNodeCount=1024", "MaxNodeCount=2048")
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2}, files={"slurm.conf": more})
    ran = cluster.done("up")
    assert "slurmctld restarts: it reads MaxNodeCount only then" in ran.text
    assert cluster.pid_of("slurmctld") != pid
    assert cluster.job_state(job) == "RUNNING"
    assert "MaxNodeCount            = 2048" in cluster.on("ctl", "scontrol", "show", "config")
    eventually(lambda: cluster.states()["cpu-1"] == "ALLOCATED")
    cluster.cancel(job)


def test_a_file_that_was_changed_by_hand_is_seen_and_written_anew(cluster: Stack) -> None:
    before = cluster.on("ctl", "cat", "/etc/slurm/slurm.conf")
    cluster.on("ctl", "sed", "-i", "s/^SlurmdTimeout=.*/SlurmdTimeout=77/", "/etc/slurm/slurm.conf")
    ran = cluster.done("up", "--refresh")
    assert "1 updated" in ran.changes
    assert cluster.on("ctl", "cat", "/etc/slurm/slurm.conf") == before


def test_slots_that_were_lost_are_made_again(cluster: Stack) -> None:
    cluster.slurm.delete_nodes("cpu-[4-5]")
    ran = cluster.done("up", "--refresh")
    assert "1 updated" in ran.changes
    assert set(cluster.states()) == {f"cpu-{n}" for n in range(1, 7)}
    assert cluster.done("up", "--refresh").changes == ["15 unchanged"]


def test_what_died_and_is_no_longer_wanted_is_taken_away(cluster: Stack) -> None:
    pull_plug(cluster.data, cluster.name, "cpu-2")
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 1})
    cluster.done("up", "--refresh")
    assert {each.name for each in kernel.list_machines(cluster.data, cluster.name)} == {"ctl", "cpu-1"}
    assert cluster.states()["cpu-2"] == "FUTURE"
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2})
    cluster.done("up")


def test_another_shape_replaces_slots_and_nodes_but_not_machines(cluster: Stack) -> None:
    pid = cluster.pid_of("munged", "cpu-1")
    bigger = fleet(max_nodes=6, shape={"cpus": 1, "memory": "700MiB"})
    cluster.want(bigger, nodes={"cpu": 2})
    job = cluster.job("cpu-1")
    assert f"run the jobs {job};" in cluster.refused("up").text
    cluster.cancel(job)
    cluster.done("up")
    assert [node.memory_mib for node in cluster.slurm.nodes()] == [700] * 6
    # Slurm of 22.05 counts jobs of slots that scontrol created twice, once it has read its files again.
    big = int(
        cluster.on(
            "ctl",
            "sbatch",
            "--parsable",
            "--mem=650",
            "--chdir=/tmp",
            "--output=/dev/null",
            "--wrap=sleep 300",
        )
    )
    eventually(lambda: cluster.job_state(big) == "RUNNING")
    cluster.slurm.reconfigure()
    cluster.cancel(big)
    again = int(
        cluster.on(
            "ctl", "sbatch", "--parsable", "--mem=650", "--chdir=/tmp", "--output=/dev/null", "--wrap=true"
        )
    )
    eventually(lambda: cluster.job_state(again) == "COMPLETED")
    assert cluster.states()["cpu-1"] == "IDLE"
    assert cluster.pid_of("munged", "cpu-1") == pid


def test_another_controller_machine_has_all_jobs_of_the_first(cluster: Stack) -> None:
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2})
    cluster.done("up")
    job = cluster.job("cpu-1")
    waiting = int(cluster.on("ctl", "sbatch", "--parsable", "--hold", "--wrap=true"))
    # Both were submitted a moment ago, which slurmctld writes down when it is told to stop.
    cluster.want(fleet(max_nodes=6), nodes={"cpu": 2}, ctlMac="02:00:00:00:00:02")
    assert cluster.done("up").changes == ["2 replaced", "13 unchanged"]
    assert cluster.job_state(job) == "RUNNING"
    assert cluster.job_state(waiting) == "PENDING"
    assert set(cluster.states()) == {f"cpu-{n}" for n in range(1, 7)}
    cluster.slurm.cancel(waiting)
    cluster.cancel(job)
    assert cluster.done("up", "--refresh").changes == ["15 unchanged"]
