"""Real Slurm, real machines, the daemon, and real faults: those of docs/faults.md that one machine can have."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import versions
from tests.machine_faults import freeze_machine, pull_plug, thaw_machine
from tests.whole.breathing import (
    FLEETS,
    Daemon,
    breathing,
    completed,
    killed_after,
    machines,
    until_empty,
    wish,
)
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState, Node, NodeBase, NodeFlag, SlurmError
from tidepool.infrastructures.local import kernel

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]

#: For faults that must come at a certain moment, which is Slurm's and not the test's.
_TRIES = 5
#: A job that goes on until it is requeued, and ends at once then.
_LONG_AT_FIRST = 'test -n "$SLURM_RESTART_COUNT" || sleep 600'


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Without nodes. Those that do not come up, or do not answer, are given up soon."""
    folder = tmp_path_factory.mktemp("breathing")
    changes = {"scaling": {"boot_timeout_s": 8}, "slurm_conf": {"SlurmdTimeout": 5}}
    with a_cluster(folder, images, fleets=FLEETS, **changes) as it:
        yield it


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Daemon]:
    """One daemon for all of them: it has to survive each."""
    with breathing(cluster) as it:
        yield it


@pytest.fixture
def daemon(cluster: Cluster, running: Daemon) -> Iterator[Daemon]:
    """Before and after each fault there is no node, and the daemon is well."""
    until_empty(cluster)
    yield running
    until_empty(cluster)
    assert running.health()["role"] == "leads"


def test_jobs_from_zero_nodes_run_and_their_nodes_go(cluster: Cluster, daemon: Daemon) -> None:
    # Each waits for the two others: however slowly a node comes, none has the job of another one.
    script = "touch met-$SLURM_JOB_ID; until test $(ls met-* | wc -l) = 3; do sleep 0.1; done"
    jobs = [cluster.submit(script, exclusive=True) for _ in range(3)]
    records = completed(cluster, jobs)
    assert {job.restarts for job in records} == {0}
    assert len({job.nodelist for job in records}) == 3


def test_a_job_array_is_served_in_one_step(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit("until test -e all-came; do sleep 0.1; done", array="0-11", cpus_per_task=2)
    most = until(lambda: len(machines(cluster)) if len(machines(cluster)) == 6 else None, "all six come")
    assert most == 6
    assert cluster.on("login-1", "touch", "/home/researcher/all-came").exit_code == 0
    until(lambda: _all_completed(cluster, job), "all tasks have ended", 90)
    decided = [line for line in _log(cluster) if "launch" in json.dumps(line).lower()]
    assert decided


def test_slurmctld_is_killed_within_five_seconds_of_a_submit(cluster: Cluster, daemon: Daemon) -> None:
    cluster.submit("sleep 1")
    pid = cluster.on("ctl", "cat", "/run/slurmctld.pid").stdout.strip()
    assert cluster.on("ctl", "kill", "-KILL", pid).exit_code == 0
    # Slurm may have lost that one, and with it what the scaler made for it goes again; another is served.
    after = until(lambda: _submitted(cluster, "sleep 1"), "slurmctld takes jobs again")
    assert completed(cluster, [after])[0].restarts == 0


def test_slurmctld_hangs_and_nothing_is_taken_away(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit(_until_there("thawed"))
    cluster.until_job(job, JobState.RUNNING)
    there = machines(cluster)
    freeze_machine(cluster.data, cluster.stack, "ctl")
    try:
        daemon.until_role("holds still")
        assert machines(cluster) == there
    finally:
        thaw_machine(cluster.data, cluster.stack, "ctl")
    _let_end(cluster, "thawed")
    assert completed(cluster, [job])[0].restarts == 0


def test_a_node_that_a_person_drained_is_theirs(cluster: Cluster, daemon: Daemon) -> None:
    # Not before the person is done may it be idle, and be the scaler's to take away.
    job = cluster.submit(_until_there("drained"))
    node = cluster.until_job(job, JobState.RUNNING).nodelist
    cluster.tidepool("drain", node, "--reason", "new disk")
    _let_end(cluster, "drained")
    completed(cluster, [job])
    # Another comes and goes beside it, so it is not for want of looks that this one stays.
    completed(cluster, [cluster.submit("true")])
    until(lambda: machines(cluster) == [node] or None, "only the drained node is there")
    reason = cluster.nodes()[node].reason
    assert reason is not None
    assert reason.text == "new disk"
    cluster.tidepool("resume", node)


def test_a_node_that_a_person_set_down_is_theirs(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit(_until_there("set-down"))
    node = cluster.until_job(job, JobState.RUNNING).nodelist
    with cluster.slurm() as slurm:
        slurm.drain(node, "looking into it")
        _let_end(cluster, "set-down")
        completed(cluster, [job])
        completed(cluster, [cluster.submit("true")])
        until(lambda: machines(cluster) == [node] or None, "only the node that somebody looks into is there")
        slurm.resume(node)


def test_the_plug_of_a_node_is_pulled_and_its_job_runs_again(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit(f"{_LONG_AT_FIRST}; echo done", output="plug.out")
    node = cluster.until_script(job).nodelist
    pull_plug(cluster.data, cluster.stack, node)
    assert completed(cluster, [job])[0].restarts == 1
    assert cluster.on("login-1", "cat", "/home/researcher/plug.out").stdout == "done\n"


def test_a_machine_is_gone_from_outside(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit(_LONG_AT_FIRST)
    node = cluster.until_script(job).nodelist
    kernel.delete_machine(cluster.data, cluster.stack, node)
    assert completed(cluster, [job])[0].restarts == 1


def test_a_machine_boots_and_never_registers(cluster: Cluster, daemon: Daemon) -> None:
    for _ in range(_TRIES):
        job, node = _frozen_early(cluster)
        has_registered = node in cluster.nodes()
        record = completed(cluster, [job])[0]
        if not has_registered:
            break
        # It was quicker than this test, and its end was that of a node at work: once more.
        until_empty(cluster)
    else:
        pytest.fail(f"{_TRIES} machines registered before they could be frozen")
    assert record.nodelist != node
    assert record.restarts == 0


def test_a_job_that_can_never_run_starts_no_machine_and_is_named(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit("true", nodes="7")
    told = until(lambda: _why(cluster, job, "never"), "the job is named")
    assert "7" in told
    assert machines(cluster) == []
    with cluster.slurm() as slurm:
        slurm.cancel(job)


def test_a_job_is_requeued_and_runs_again(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit(_LONG_AT_FIRST)
    cluster.until_job(job, JobState.RUNNING)
    with cluster.slurm() as slurm:
        slurm.requeue(job)
    assert completed(cluster, [job])[0].restarts == 1


def test_a_leader_is_stopped_past_its_lease_and_others_are_killed_again_and_again(
    cluster: Cluster, daemon: Daemon
) -> None:
    jobs = []
    with ExitStack() as others:
        # Whatever comes of it, one that is stopped goes on.
        others.callback(daemon.signal, signal.SIGCONT)
        daemon.signal(signal.SIGSTOP)
        # Until the lease of the one that is stopped is over, the next stands by.
        other = others.enter_context(killed_after(Daemon.start(cluster, "other")))
        until(lambda: "leads (epoch" in other.said() or None, "the other leads", timeout_s=60)
        for after_s in (0.3, 0.7, 1.1, 1.5):
            jobs += [cluster.submit("sleep 1", exclusive=True) for _ in range(2)]
            # Anywhere in a look, a decision, an `up`: what is tried is that it does not matter where.
            time.sleep(after_s)
            other.kill()
            before = other.said()
            other = others.enter_context(killed_after(Daemon.start(cluster, "other")))
        ended = completed(cluster, jobs)
        # They may have ended before the last one began: one that is told to end any sooner just dies.
        until(lambda: "leads (epoch" in _since(other, before) or None, "the last of them leads")
        told = daemon.said()
        daemon.signal(signal.SIGCONT)
        until(lambda: "lost" in _since(daemon, told) or None, "the one that was stopped has seen it")
        assert other.end() == 0
    daemon.until_role("leads")
    assert {job.restarts for job in ended} == {0}
    # In between it did nothing.
    between = _since(daemon, told).partition("leads (epoch")[0]
    assert "up" not in between.replace("update", "").split(), between


def test_a_person_brings_up_a_changed_spec_while_the_queue_is_busy(cluster: Cluster, daemon: Daemon) -> None:
    jobs = [cluster.submit("sleep 2") for _ in range(10)]
    cluster.until_job(jobs[0], JobState.RUNNING)
    cluster.spec["partitions"] = [{"name": "main", "default": True}, {"name": "night"}]
    cluster.spec["fleets"][0]["features"] = ["quick"]
    cluster.up()
    jobs += [cluster.submit("sleep 1", partition="night", features="quick") for _ in range(4)]
    assert {job.restarts for job in completed(cluster, jobs)} == {0}


def test_an_edit_that_nobody_brought_up_is_not_carried_out(cluster: Cluster, daemon: Daemon) -> None:
    kept = json.dumps(cluster.spec)
    cluster.spec["fleets"][0]["shape"] = {"cpus": 1, "memory": "128MiB"}
    cluster.spec["partitions"].append({"name": "unfinished"})
    cluster.write_spec()
    try:
        completed(cluster, [cluster.submit("sleep 1")])
        with cluster.slurm() as slurm:
            assert "unfinished" not in {partition.name for partition in slurm.partitions()}
            assert {node.cpus for node in slurm.nodes()} == {2}
    finally:
        cluster.spec = json.loads(kept)
        cluster.write_spec()


def test_a_policy_with_mistakes_is_told_of_and_the_running_one_stays(
    cluster: Cluster, daemon: Daemon
) -> None:
    kept = json.dumps(cluster.spec)
    cluster.spec["scaling"]["policies"] = ["queu", {"name": "warm", "fleet": "cpux", "nodes": 0}]
    cluster.write_spec()
    try:
        told = until(lambda: _complaint(daemon, "queu"), "the mistakes are told")
        assert "warm" in told or "cpux" in told
        completed(cluster, [cluster.submit("true")])
    finally:
        cluster.spec = json.loads(kept)
        cluster.write_spec()
    until(lambda: None if daemon.health()["complaints"] else True, "all is well again")


@pytest.mark.parametrize("broken", ["config: {cluster:spec: [", None])
def test_the_stacks_file_is_broken_or_gone_and_nodes_come_and_go(
    cluster: Cluster, daemon: Daemon, broken: str | None
) -> None:
    if broken is None:
        cluster.file.unlink()
    else:
        cluster.file.write_text(broken)
    try:
        completed(cluster, [cluster.submit("true")])
        until_empty(cluster)
        assert cluster.file.exists() == (broken is not None)
        assert broken is None or cluster.file.read_text() == broken
        assert daemon.health()["complaints"]
    finally:
        cluster.write_spec()
    until(lambda: None if daemon.health()["complaints"] else True, "all is well again")


def test_paused_it_does_nothing_and_afterwards_goes_on(cluster: Cluster, daemon: Daemon) -> None:
    cluster.tidepool("pause", "--reason", "we look")
    try:
        daemon.until_role("paused")
        job = cluster.submit("true")
        until(lambda: _why(cluster, job, ""), "it is known of")
        assert machines(cluster) == []
    finally:
        cluster.tidepool("continue")
    completed(cluster, [job])


def test_the_state_is_truncated_and_nothing_is_taken_away(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit(_until_there("truncated"))
    cluster.until_job(job, JobState.RUNNING)
    until(lambda: wish(cluster) or None, "the `up` has ended")
    there = machines(cluster)
    state = cluster.data / "state" / ".pulumi" / "stacks" / "cluster" / f"{cluster.stack}.json"
    whole = state.read_bytes()
    state.write_bytes(whole[: len(whole) // 2])
    until(lambda: _complaint(daemon, "state") or daemon.health().get("text"), "it says so")
    _let_end(cluster, "truncated")
    completed(cluster, [job])
    assert machines(cluster) == there
    state.write_bytes(whole)


def test_a_node_does_not_respond_for_a_while_and_its_job_goes_on(cluster: Cluster, daemon: Daemon) -> None:
    for _ in range(_TRIES):
        job, seen = _silent_for_a_while(cluster)
        record = completed(cluster, [job])[0]
        if seen.state.base is not NodeBase.DOWN:
            break
        # Slurm itself gave it up before it was let go on: another case, which has a test of its own.
        assert seen.reason is not None
        assert seen.reason.text.startswith("Not responding"), seen.reason
        until_empty(cluster)
    else:
        pytest.fail(f"Slurm gave up {_TRIES} nodes before they could be let go on")
    assert record.restarts == 0


def test_a_node_in_maintenance_is_left_alone(cluster: Cluster, daemon: Daemon) -> None:
    job = cluster.submit(_until_there("maintained"))
    node = cluster.until_job(job, JobState.RUNNING).nodelist
    words = ("ReservationName=upkeep", f"Nodes={node}", "StartTime=now", "Duration=10", "Users=root")
    made = cluster.on("login-1", "scontrol", "create", "reservation", *words, "Flags=MAINT,IGNORE_JOBS")
    assert made.exit_code == 0, made.stderr
    _let_end(cluster, "maintained")
    completed(cluster, [job])
    completed(cluster, [cluster.submit("true")])
    until(lambda: machines(cluster) == [node] or None, "only the node in maintenance is there")
    cluster.on("login-1", "scontrol", "delete", "ReservationName=upkeep")
    until_empty(cluster, timeout_s=150)  # at rest it asks for reservations once a minute


def _until_there(file: str) -> str:
    """A job's script, which ends when `_let_end` says so."""
    return f"until [ -e {file} ]; do sleep 0.1; done"


def _let_end(cluster: Cluster, file: str) -> None:
    assert cluster.on("login-1", "touch", f"/home/researcher/{file}").exit_code == 0


def _since(daemon: Daemon, told: str) -> str:
    return daemon.said()[len(told) :]


def _submitted(cluster: Cluster, script: str) -> int | None:
    try:
        return cluster.submit(script)
    except SlurmError:
        return None


def _silent_for_a_while(cluster: Cluster) -> tuple[int, Node]:
    """A job whose node is frozen until Slurm sees that it does not respond; the node once Slurm has decided about it."""
    job = cluster.submit("until [ -e heard-$SLURM_JOB_ID ]; do sleep 0.1; done")
    node = cluster.until_script(job).nodelist
    freeze_machine(cluster.data, cluster.stack, node)
    try:
        until(lambda: _is_silent(cluster.nodes()[node]) or None, "Slurm sees that it does not respond", 60)
    finally:
        thaw_machine(cluster.data, cluster.stack, node)
    decided = until(
        lambda: None if _is_silent(it := cluster.nodes()[node]) else it, "it is heard again or down"
    )
    _let_end(cluster, f"heard-{job}")
    return job, decided


def _is_silent(node: Node) -> bool:
    """Whether Slurm waits for it still. One that it has given up may answer no more than before."""
    return node.state.base is not NodeBase.DOWN and NodeFlag.NOT_RESPONDING in node.state.flags


def _frozen_early(cluster: Cluster) -> tuple[int, str]:
    """A job, and the node that is made for it, frozen as soon as its machine runs."""
    job = cluster.submit("sleep 1")
    node = until(lambda: next(iter(machines(cluster)), None), "its machine is being made", pause_s=0.005)
    until(lambda: _frozen(cluster, node), "it is frozen", pause_s=0.005)
    return job, node


def _frozen(cluster: Cluster, node: str) -> bool | None:
    """Freeze the machine of a node once it runs: before that, whoever makes it would wait for it."""
    try:
        found = kernel.read_machine(cluster.data, cluster.stack, node)
        if found is None or found.state != "running":
            return None
        freeze_machine(cluster.data, cluster.stack, node)
    except kernel.LocalError:
        return None
    return True


def _why(cluster: Cluster, job: int, standing: str) -> str | None:
    told = cluster.run("why", "job", str(job), "--json")
    return told.stdout if told.returncode == 0 and standing in told.stdout else None


def _all_completed(cluster: Cluster, job: int) -> bool | None:
    with cluster.slurm() as slurm:
        return True if {record.state for record in slurm.job(job)} == {JobState.COMPLETED} else None


def _log(cluster: Cluster) -> list[object]:
    log = cluster.data / cluster.stack / "scaler" / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


def _complaint(daemon: Daemon, words: str) -> str | None:
    told = json.dumps(daemon.health().get("complaints", {}))
    return told if words in told else None
