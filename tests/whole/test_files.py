"""People's files in a cluster: quotas that this machine's kernel cannot enforce are watched; scratch is wiped by age."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState

pytestmark = pytest.mark.slow

DAY_S = 86_400
RESEARCHER = "2000"
SCRATCH = "/scratch/researcher"
ROUND = "/usr/bin/python3 -I -S /usr/local/lib/tidepool/files.py round"


def on(cluster: Cluster, machine: str, script: str, user: str = "root") -> str:
    """What a shell's script on a machine says."""
    done = cluster.on(
        machine,
        *(() if user == "root" else ("setpriv", f"--reuid={user}", "--clear-groups")),
        "sh",
        "-ec",
        script,
    )
    assert done.exit_code == 0, done
    return done.stdout


def rounds(cluster: Cluster, *days: float) -> None:
    """Rounds of the service as if it were so many days later: by its own program, with its policy, and records of their own."""
    script = "mkdir -p /root/later; cp /var/spool/slurmctld/files/policy.json /root/later; export TIDEPOOL_FILES=/root/later"
    on(
        cluster,
        "ctl",
        "\n".join([script, *(f"{ROUND} $(($(date +%s) + {int(each * DAY_S)}))" for each in days)]),
    )


def days(first: float, end: float) -> list[float]:
    """Days on which a clock that goes from round to round is believed: by halves."""
    return [first + half / 2 for half in range(int(2 * (end - first)))]


def later(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(on(cluster, "ctl", "cat /root/later/report.json"))
    return found


def test_quotas_are_watched_and_scratch_is_wiped(images: Path, tmp_path: Path) -> None:
    files = {"home": {"quota": "1MiB"}, "scratch": {"warn_days": 7}}
    with a_cluster(tmp_path, images, **files) as cluster:
        assert "update" not in cluster.up(), "it is as it was made"

        # A home that is over its quota is told of, wherever a person looks.
        on(cluster, "login-1", "head -c 3000000 /dev/urandom >/home/researcher/data", RESEARCHER)
        view = json.loads(cluster.tidepool("quota", "--now", "--json"))
        (person,) = [each for each in view["people"] if each["name"] == "researcher"]
        assert 3_000_000 <= person["used"] < 3_500_000
        assert person["quota"] == 1 << 20
        assert not view["isEnforced"]
        assert view["remedy"]
        assert "over" in cluster.tidepool("quota")
        assert "over their quota of /home: researcher" in " ".join(cluster.tidepool("status").split())
        findings = json.loads(cluster.run("doctor", "--json").stdout)
        (told,) = [each for each in findings if each["what"] == "quotas"]
        assert (told["state"], bool(told["remedy"])) == ("note", True)

        # A job's file is on all machines, and in a folder that is its person's alone.
        until(lambda: "researcher" in on(cluster, "ctl", "ls /scratch") or None, "the service made it")
        job = cluster.submit(f"echo it >{SCRATCH}/result; exec sleep 600", output="/dev/null")
        cluster.until_job(job, JobState.RUNNING)
        until(
            lambda: on(cluster, "login-1", f"cat {SCRATCH}/result || true") == "it\n" or None, "it is there"
        )
        assert on(cluster, "login-1", f"stat -c '%U %a' {SCRATCH}") == "researcher 700\n"
        assert on(cluster, "cpu-1", "stat -c '%U %a' /scratch") == "root 755\n"

        # Told before, held by the job that runs, gone when it has ended.
        rounds(cluster, *days(0, 26))
        (found,) = later(cluster)["scratch"].values()
        assert (found["files"], found["soon"], found["first"][0][0]) == (1, 1, "result")
        assert "result" in on(cluster, "login-1", "cat /scratch/.soon/researcher", RESEARCHER)
        rounds(cluster, *days(26, 33.5))
        (found,) = later(cluster)["scratch"].values()
        assert (found["held_by_jobs"], found["wiped"]) == (1, 0), later(cluster)
        with cluster.slurm() as slurm:
            slurm.cancel(job)
        cluster.until_job(job, JobState.CANCELLED)

        def is_gone() -> bool:
            rounds(cluster, 33)  # a job that completes holds it still
            return on(cluster, "login-1", f"ls {SCRATCH}") == ""

        until(lambda: is_gone() or None, "it is gone")
        assert '"path": "result"' in on(cluster, "ctl", "cat /root/later/wiped.log")
        assert json.loads(cluster.tidepool("scratch", "--now", "--json"))["people"][0]["name"] == "researcher"
        assert "after 30 days" in cluster.tidepool("scratch")

        # Somebody takes the rule away by hand: a refresh shows it, the next `up` mends it. A change is a change in place.
        on(cluster, "ctl", "echo '{}' >/var/spool/slurmctld/files/policy.json")
        assert "scratch" in cluster.tidepool("preview", "--refresh")
        cluster.spec["scratch"]["wipe_after_days"] = 90
        cluster.up("--refresh")
        assert '"wipe_after_days": 90' in on(cluster, "ctl", "cat /var/spool/slurmctld/files/policy.json")
        cluster.spec["scratch"]["wipe_after_days"] = 7
        cluster.spec["home"]["quota"] = "1X"
        said = " ".join(cluster.refused("preview").split())
        assert "scratch.warn_days = 7" in said
        assert "home.quota = '1X'" in said
        assert '"wipe_after_days": 90' in on(cluster, "ctl", "cat /var/spool/slurmctld/files/policy.json")
