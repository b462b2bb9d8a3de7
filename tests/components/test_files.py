"""Files of people in the graph: scratch on all machines, the service on controllers, the policy, a file server."""

from __future__ import annotations

from tests.components.stack import NODES, answers, on_first, registered, spec_with
from tidepool.components import Cluster
from tidepool.components.desired_state import DesiredState
from tidepool.testing import Graph, register

GIB = 1 << 30
FILES = {
    "home": {
        "quota": "50GiB",
    },
    "users": [{"name": "ada", "uid": 3001, "quota": "200GiB"}],
    "scratch": {"path": "/work/scratch"},
}
BOOTS = ("ctl", "login", "cpu")


def whole(**keys: object) -> Graph:
    state = DesiredState.at_first(on_first(spec_with(**keys)))

    def program() -> None:
        Cluster("physics", state)

    return register(program, answers)


def targets(graph: Graph, boot: str) -> list[str]:
    return [mount["target"] for mount in graph[f"tidepool:local:Boot {boot}"].inputs["mounts"]]


def test_a_cluster_that_says_nothing_of_files_has_nothing_of_them() -> None:
    graph = registered(spec_with(), NODES)
    assert not [name for name in graph.resources if "files" in name or "scratch" in name]
    assert all("scratch" not in str(graph[f"tidepool:local:Boot {boot}"].inputs) for boot in BOOTS)


def test_scratch_is_on_all_machines_and_its_service_on_controllers() -> None:
    graph = registered(spec_with(**FILES), NODES)
    assert {boot: "/work/scratch" in targets(graph, boot) for boot in BOOTS} == dict.fromkeys(BOOTS, True)
    assert not graph["tidepool:local:Volume scratch"].inputs["retain"]
    services = {
        boot: [each["name"] for each in graph[f"tidepool:local:Boot {boot}"].inputs["services"]]
        for boot in BOOTS
    }
    assert [boot for boot in BOOTS if "files" in services[boot]] == ["ctl"]


def test_the_policy_is_the_spec_s_after_the_machines() -> None:
    policy = whole(**FILES)["tidepool:files:Policy physics"]
    assert policy.inputs["quota"] == 50 * GIB
    assert policy.inputs["quotas"] == {"ada": 200 * GIB}
    assert policy.inputs["scratch"] == {"path": "/work/scratch", "wipe_after_days": 30, "warn_days": 7}
    assert policy.inputs["controller"]["machine"] == "ctl"
    assert "tidepool:slurm:Configuration physics" in policy.depends_on


def test_a_file_server_is_there_before_who_mounts_it_and_serves_what_there_is() -> None:
    graph = whole(**FILES, file_server={})
    server = graph["tidepool:local:Machine nfs"]
    assert (server.inputs["address"], server.inputs["waitReady"]) == ("10.77.0.5", True)
    assert "tidepool:local:Machine nfs" in graph["tidepool:local:Machine ctl"].depends_on
    assert targets(graph, "nfs") == ["/srv/home", "/srv/scratch"]
    conf = str(graph["tidepool:local:Boot nfs"].inputs["files"]["/etc/ganesha/ganesha.conf"]["content"])
    assert [line.split()[-1] for line in conf.splitlines() if "Pseudo" in line] == ["/home;", "/scratch;"]
    assert conf.count("Clients = 10.77.0.0/26; Access_Type = RW; Squash = No_Root_Squash") == 2
    assert conf.count("Clients = 10.77.0.0/16; Access_Type = RW; Squash = Root_Squash") == 2
    policy = graph["tidepool:files:Policy physics"].inputs
    assert (policy["server"]["machine"], policy["servedFrom"]) == ("nfs", "/srv/home")
