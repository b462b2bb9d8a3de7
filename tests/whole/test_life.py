"""A cluster comes up, serves its people, stays as it is, and goes."""

from __future__ import annotations

import json

import pytest

from tests import versions
from tests.whole.cluster import Cluster, summary
from tidepool.clients.slurm import JobState

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]


def test_all_nodes_are_idle_when_up_returns(cluster: Cluster) -> None:
    assert cluster.idle() == ["cpu-1", "cpu-2"]


def test_a_researcher_submits_from_the_login_machine_and_finds_the_output_at_home(cluster: Cluster) -> None:
    job = cluster.submit("id --user --name; hostname", output="who.out")
    cluster.until_job(job, JobState.COMPLETED)
    assert cluster.on("login-1", "cat", "/home/researcher/who.out").stdout.splitlines()[0] == "researcher"


def test_a_second_up_changes_nothing(cluster: Cluster) -> None:
    said = summary(cluster.up("--json"))
    assert set(said["changes"]) == {"same"}, said


def test_a_preview_of_no_change_says_so_and_makes_nothing(cluster: Cluster) -> None:
    before = {name: node.boot_time for name, node in cluster.nodes().items()}
    said = summary(cluster.tidepool("preview", "--json"))
    assert set(said["changes"]) == {"same"}, said
    assert {name: node.boot_time for name, node in cluster.nodes().items()} == before


def test_status_shows_what_is_there(cluster: Cluster) -> None:
    told = json.loads(cluster.tidepool("status", "--json"))
    assert {fleet["name"]: fleet["up"] for fleet in told["fleets"]} == {"cpu": 2}


def test_ssh_is_by_the_stacks_key_as_the_researcher(cluster: Cluster) -> None:
    assert cluster.tidepool("ssh", "cpu-1", "--", "id", "--user", "--name").strip() == "researcher"


def test_no_secret_is_in_the_state_in_clear_nor_in_what_is_printed(cluster: Cluster) -> None:
    key = cluster.on("ctl", "base64", "--wrap=0", "/etc/munge/munge.key").stdout
    assert len(key) > 100
    private = "PRIVATE KEY"
    for file in (cluster.data / "state").rglob("*.json*"):
        text = file.read_text(errors="replace")
        assert key not in text, file
        assert private not in text, file
    assert key not in cluster.tidepool("preview", "--json")


def test_nothing_of_a_stack_is_open_to_others_on_this_machine(cluster: Cluster) -> None:
    loose = [
        path
        for path in (cluster.data / cluster.stack, cluster.data / "state", cluster.data / "passphrase")
        if path.stat().st_mode & 0o077
    ]
    assert loose == []
