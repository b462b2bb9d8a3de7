"""What people are told of a cluster that breathes: before the daemon runs, while it does, and after it has ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.whole.breathing import FLEETS, breathing, completed, launches, machines, until_empty
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.cli import errors
from tidepool.cluster.hostlist import expand

pytestmark = pytest.mark.slow


def told(cluster: Cluster, *words: str, code: int = 0) -> Any:
    """What a verb says as JSON."""
    done = cluster.run(*words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_plan_why_and_watch(images: Path, tmp_path: Path) -> None:
    priced = [{**FLEETS[0], "infrastructures": [{"name": "local", "price_usd_per_hour": 0.5}]}]
    with a_cluster(tmp_path, images, fleets=priced) as cluster:
        # Of the salt of the stack's secrets, which is the data folder's, nobody writes into a file that people share.
        described = cluster.file.read_bytes()
        assert b"salt" not in described
        job_id = cluster.submit("sleep 1", nodes="2")
        endless = cluster.submit("sleep 1", cpus_per_task=64)

        # Nobody runs: what would be done is decided afresh, and nothing of it is done.
        assert told(cluster, "watch", code=errors.NOT_THERE)["health"]["state"] == "never"
        plan = told(cluster, "plan")
        (launch,) = plan["actions"]
        assert (launch["what"], launch["nodes"], launch["jobs"]) == ("launch", "cpu-[1-2]", [job_id])
        assert (launch["usdPerHour"], plan["usdPerHour"], plan["usdPerHourAfter"]) == (1.0, 0, 1.0)
        assert [(group["standing"], group["jobs"]) for group in plan["waiting"]] == [
            ("coming", [job_id]),
            ("never", [endless]),
        ]
        for word in ("Machine cpu-1 create", "Node cpu-2 create", "4 to create"):
            assert word in plan["preview"], plan["preview"]
        why = told(cluster, "why", "job", str(job_id))
        assert (why["standing"], why["isAfresh"]) == ("coming", True)
        assert why["fleets"] == [{"fleet": "cpu", "fits": True, "why": ""}]
        never = told(cluster, "why", "job", str(endless))
        assert never["standing"] == "never"
        assert "a node has 2 CPUs, and 64 are asked for" in never["fleets"][0]["why"]
        assert machines(cluster) == []
        assert cluster.nodes() == {}
        assert cluster.file.read_bytes() == described

        with breathing(cluster):
            completed(cluster, [job_id])
            until(lambda: told(cluster, "why", "job", str(job_id))["times"]["ended"], "its end is known")
            times = told(cluster, "why", "job", str(job_id))["times"]
            assert times["launched"] < times["up"]
            until_empty(cluster)
            # Of each launch its phases; machines of this kernel boot none.
            rows = launches(cluster, "making", "units", "slurmd", unknown="kernel")
            assert [row["node"] for row in rows] == ["cpu-1", "cpu-2"]
            assert {row["infrastructure"] for row in rows} == {"local"}
            view = until(
                lambda: view if not (view := told(cluster, "watch"))["fleets"][0]["phases"] else None,
                "the daemon has seen that all nodes are gone",
            )
            assert view["health"]["state"] == "runs"
            assert [group["jobs"] for group in view["never"]] == [[endless]]
            done = [
                (action["what"], node)
                for each in view["decisions"]
                for action in each["actions"]
                for node in expand(action["nodes"])
            ]
            # Both come in one step, and each goes when it is its time: Slurm need not let go of both at once.
            assert sorted(done[-2:]) == [("launch", "cpu-1"), ("launch", "cpu-2")]
            for name in ("cpu-1", "cpu-2"):
                assert [what for what, node in done if node == name] == ["remove", "drain", "launch"]
                node = told(cluster, "why", "node", name)
                assert node["phase"] == "absent"
                assert [(event["what"], event["result"]) for event in node["history"]] == [
                    ("remove", "done"),
                    ("drain", "done"),
                    ("launch", "done"),
                ]
            cluster.tidepool("pause", "--reason", "new switch")
            assert "new switch" in told(cluster, "status")["scaler"]["words"]
            cluster.tidepool("continue")
            assert cluster.file.read_bytes() == described

        stopped = told(cluster, "watch", code=errors.NOT_THERE)
        assert stopped["health"]["state"] == "stopped"
        assert told(cluster, "status")["scaler"]["state"] == "stopped"
        assert told(cluster, "why", "fleet", "cpu")["isAfresh"]
