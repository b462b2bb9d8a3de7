"""slurmctld's machine hands over to the backup, by what a conversion asks and does; on a real cluster, with a job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import ControllerDown, JobState, SlurmError
from tidepool.conversion.ports import ConversionError, Verdict
from tidepool.conversion.slurm_side import SlurmSide

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]

#: What `status` says to start it by.
START = "mkdir -p /run/tidepool/start; touch /run/tidepool/start/slurmctld; kill -HUP 1"


@pytest.fixture
def cluster(images: Path, tmp_path: Path) -> Iterator[Cluster]:
    """One with a backup controller, for each test: who is in charge changes."""
    controller = {"shape": {"cpus": 1, "memory": "512MiB"}, "backup": True}
    with a_cluster(tmp_path, images, controller=controller) as it:
        yield it


def begin_job(cluster: Cluster) -> int:
    job = cluster.submit("until test -e go-on; do sleep 0.1; done; hostname")
    cluster.until_job(job, JobState.RUNNING)
    return job


def end_job(cluster: Cluster, job: int) -> None:
    """It went on all the time, and Slurm hears of its end."""
    assert cluster.job(job).state is JobState.RUNNING
    cluster.on("cpu-1", "touch", "/home/researcher/go-on")
    assert cluster.until_job(job, JobState.COMPLETED).restarts == 0


def test_the_backup_takes_over_from_the_primary_which_may_go_then(cluster: Cluster) -> None:
    job = begin_job(cluster)
    with cluster.slurm() as slurm:
        side = SlurmSide(slurm, "ctl")
        assert side.verdict() == Verdict("slurmctld of ctlbackup takes over from ctl", hands_over=True)
        side.hand_over()

        def gone() -> bool | None:
            try:
                return side.verdict() == Verdict() or None
            except ConversionError:
                return None  # nobody answers while the one takes over from the other

        until(gone, "ctlbackup is in charge", 60)
        assert in_charge(cluster) == "ctlbackup"

        def answers() -> bool | None:
            try:
                return slurm.job(job)[0].state is JobState.RUNNING or None
            except SlurmError:
                return None  # it reads its state

        until(answers, "squeue answers")
    other = cluster.submit("hostname")
    cluster.until_job(other, JobState.COMPLETED)
    end_job(cluster, job)
    # Without another that could, the one in charge stays.
    with cluster.slurm() as slurm:
        found = SlurmSide(slurm, "ctlbackup").verdict()
    assert not found.hands_over
    assert "no other controller answers" in found.keeps


def test_a_primary_stays_down_until_it_is_started_on_purpose_but_not_when_it_is_killed(
    cluster: Cluster,
) -> None:
    job = begin_job(cluster)
    with cluster.slurm() as slurm:
        slurm.takeover()
    until(lambda: services(cluster, "ctl")["slurmctld"] == ("ended", 0) or None, "it stays down")
    until(lambda: in_charge(cluster) == "ctlbackup" or None, "ctlbackup is in charge")
    said = cluster.run("status").stdout
    assert "slurmctld of ctl ended" in said, said
    assert "tidepool exec ctl" in said, said
    assert cluster.on("ctl", "sh", "-c", START).exit_code == 0
    until(lambda: in_charge(cluster) == "ctl" or None, "ctl is in charge again")
    # Who changes Slurm's files has it run by them.
    take_over(cluster)
    until(lambda: services(cluster, "ctl")["slurmctld"][0] == "ended" or None, "it stays down")
    cluster.spec["slurm_conf"] = {"MaxArraySize": 2001}
    cluster.up()
    assert in_charge(cluster) == "ctl"
    assert "2001" in cluster.on("login-1", "sh", "-c", "scontrol show config | grep MaxArraySize").stdout
    end_job(cluster, job)
    # Its state was saved as others took over; else Slurm saves it some seconds late.
    (_, before) = services(cluster, "ctl")["slurmctld"]
    cluster.on("ctl", "pkill", "-KILL", "-x", "slurmctld")
    until(lambda: services(cluster, "ctl")["slurmctld"] == ("up", before + 1) or None, "it is there again")
    until(lambda: in_charge(cluster) == "ctl" or None, "ctl is in charge again")


def test_a_backup_takes_over_and_gives_back_as_often_as_it_has_to(cluster: Cluster) -> None:
    for times in range(3):
        take_over(cluster)
        until(lambda: services(cluster, "ctl")["slurmctld"][0] == "ended" or None, "it stays down")
        until(lambda: in_charge(cluster) == "ctlbackup" or None, "ctlbackup is in charge")
        # Each time it gave back control it was started anew.
        assert services(cluster, "ctlbackup")["slurmctld"] == ("up", times)
        cluster.until_job(cluster.submit("hostname"), JobState.COMPLETED)
        assert cluster.on("ctl", "sh", "-c", START).exit_code == 0
        until(lambda: in_charge(cluster) == "ctl" or None, "ctl is in charge again")
    until(lambda: services(cluster, "ctlbackup")["slurmctld"] == ("up", 3) or None, "it stands by again")


def take_over(cluster: Cluster) -> None:
    """Also from a primary that has just taken control back, whose backup is being started anew: that refuses until it can."""

    def asked() -> bool | None:
        with cluster.slurm() as slurm:
            try:
                slurm.takeover()
                return True
            except ControllerDown:
                # It was not half done either: no primary has ended, and no backup is left to find that out by itself.
                assert in_charge(cluster) == "ctl"
                return None

    until(asked, "the backup takes over")


def services(cluster: Cluster, machine: str) -> dict[str, tuple[str, int]]:
    """By name the state of each service of a machine, and how often it was started again."""
    told = json.loads(cluster.run("status", "--json").stdout)
    (found,) = [each for each in told["machines"] if each["name"] == machine]
    return {name: (each["state"], each["restarts"]) for name, each in found["services"].items()}


def in_charge(cluster: Cluster) -> str:
    """Who answers first, given that Slurm answers at all; else nobody."""
    with cluster.slurm() as slurm:
        try:
            slurm.nodes()
            return next((each.host for each in slurm.ping() if each.is_up), "")
        except SlurmError:
            return ""
