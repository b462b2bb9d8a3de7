"""What a cluster on CloudStack registers: types, inputs, parents, dependencies, secrets."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pulumi.runtime.mocks import MockResourceArgs

from tests.components import cluster_graph
from tests.components.cluster_graph import Outputs, connection
from tests.infrastructures.cloudstack.specs import spec
from tests.repository import ROOT
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloudstack.graph import at_each_boot
from tidepool.testing import Graph

OURS = "tidepool:cloudstack:"
FLEET = "tidepool:components:ComputeFleet cpu"
CONTROLLER = "tidepool:components:SlurmController physics"
PREFLIGHT = "tidepool:infrastructure:Preflight cloudstack"


def registered(asked: ClusterSpec, **how: Any) -> Graph:
    """As `cluster_graph.registered`, on CloudStack."""
    return cluster_graph.registered(asked, outputs=_outputs, **how)


def _outputs(args: MockResourceArgs) -> Outputs:
    found: Mapping[str, Any] = {"connection": connection(args.inputs.get("address", ""))}
    return {cluster_graph.MACHINE: found, "tidepool:image:File": {"path": "/images/debian.qcow2"}}


def test_all_of_cloudstack_that_a_cluster_is() -> None:
    graph = registered(spec())
    ours = {name.removeprefix(OURS): parent for name, parent in graph.children.items() if OURS in name}
    assert ours == {
        "ServiceOffering machine-1x768": "",
        "ServiceOffering machine-4x3328": "",
        "Network net": "",
        "Template debian-12": "",
        "UserData ctl": CONTROLLER,
        "Machine ctl": CONTROLLER,
        "UserData login": CONTROLLER,
        "Machine login-1": CONTROLLER,
        "UserData cpu": FLEET,
        "Machine cpu-1": FLEET,
        "Machine cpu-2": FLEET,
    }
    for name in ours:
        assert PREFLIGHT in graph[f"{OURS}{name}"].depends_on, name


def test_a_machine_has_its_place_its_shape_and_no_keys() -> None:
    inputs = registered(spec({"disk": "20480MiB"}))[f"{OURS}Machine cpu-1"].inputs
    assert {
        key: inputs[key] for key in ("machine", "address", "cpus", "memoryMib", "diskGib", "zone", "stack")
    } == {
        "machine": "cpu-1",
        "address": "10.77.10.1",
        "cpus": 4,
        "memoryMib": 3328,
        "diskGib": 20,
        "zone": "zone-1",
        "stack": "dev",
    }
    assert "content" not in json.dumps(inputs)
    assert inputs["api"] == {"endpoint": "https://cloud.site/client/api"}


def test_user_data_is_secret_and_applies_at_each_boot() -> None:
    graph = registered(spec())
    told = graph[f"{OURS}UserData cpu"]
    assert "content" in told.secrets
    first, _, data = told.inputs["content"].partition("\n")
    assert first == "#cloud-config"
    assert ["write_files", "always"] in json.loads(data)["cloud_init_modules"]


def test_what_cloud_init_is_told_stays() -> None:
    told = at_each_boot('#cloud-config\n{"bootcmd": [["true"]], "write_files": []}\n', "10.77.0.1")
    first, second = json.loads(told.partition("\n")[2])["bootcmd"]
    assert second == ["true"]
    # Before anybody else is there, so that a job cannot read keys from the router.
    assert first[:2] == ["/bin/sh", "-c"]
    assert first[3:7] == ["sh", "pref", "100", "to"]
    assert {"10.77.0.1/32", "1-4294967294", "prohibit"} <= {*first}


def test_a_machine_whose_users_would_reach_the_router_ends(tmp_path: Path) -> None:
    told = at_each_boot('#cloud-config\n{"bootcmd": [], "write_files": []}\n', "10.77.0.1")
    (command,) = json.loads(told.partition("\n")[2])["bootcmd"]
    ended = tmp_path / "ended"
    (tmp_path / "poweroff").write_text(f"#!/bin/sh\ntouch {ended}\n")
    (tmp_path / "poweroff").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    def boots() -> str:
        """Twice, as somebody who looks for what is wrong has it done again; gives the rules that are there then."""
        script = '"$@" && "$@"; ip rule show pref 100'
        argv = ["unshare", "--net", "sh", "-c", script, "sh", *command]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env={"PATH": path}).stdout

    (rule,) = boots().splitlines()
    assert "to 10.77.0.1 uidrange 1-4294967294 ipproto tcp dport 80 prohibit" in rule
    assert not ended.exists()
    # A kernel without such rules.
    (tmp_path / "ip").write_text("#!/bin/sh\ntest $2 = show\n")
    (tmp_path / "ip").chmod(0o755)
    assert boots() == ""
    assert ended.exists()


def test_images_look_for_what_they_are_told_at_a_cloudstack() -> None:
    settings = yaml.safe_load((ROOT / "playbooks/roles/cloud_init/files/tidepool.cfg").read_text())
    assert "CloudStack" in settings["datasource_list"]
    assert settings["datasource_list"][-1] in ("None", None)


def test_images_are_fetched_by_name_and_digest_or_are_there_already() -> None:
    ((_, fetched),) = registered(spec()).of_type(f"{OURS}Template").items()
    assert fetched.inputs["url"].startswith("https://images.site/tidepool/")
    assert fetched.inputs["url"].endswith(f"{fetched.inputs['name'].removeprefix('tidepool-dev-')}.qcow2")
    assert fetched.inputs["path"]
    ((_, there),) = registered(spec(template="debian")).of_type(f"{OURS}Template").items()
    assert (there.inputs["name"], there.inputs.get("url")) == ("debian", None)


def test_groups_are_the_fleets_and_machines_are_in_them() -> None:
    graph = registered(
        spec({"affinity": "host anti-affinity"}, machines={"affinity": "non-strict host anti-affinity"})
    )
    assert graph[f"{OURS}AffinityGroup cpu"].inputs["type"] == "host anti-affinity"
    assert graph[f"{OURS}AffinityGroup own"].inputs["name"] == "tidepool-dev-own"
    of_fleet, of_own = (graph[f"{OURS}Machine {name}"].inputs["affinityGroups"] for name in ("cpu-1", "ctl"))
    assert of_fleet != of_own


def test_people_reach_login_machines_by_ports_of_the_public_address() -> None:
    firewall = {"logins": {"ingress": [{"from": ["198.51.100.0/24"]}]}}
    graph = registered(spec(controller={"login_machines": 2}, firewall=firewall))
    ports = {
        name.rpartition(" ")[2]: (each.inputs["port"], each.inputs["sources"])
        for name, each in graph.of_type(f"{OURS}PortForwarding").items()
    }
    assert ports == {
        "login-1": (2222, ["198.51.100.0/24"]),
        "login-2": (2223, ["198.51.100.0/24"]),
    }
