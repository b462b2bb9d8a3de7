"""The preflight takes over what stacks of earlier releases have in its place, without replacement."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.forking import fork_server
from tests.provider.calls import Calls, Preflights, plainly
from tests.repository import ROOT
from tidepool.resources.declarations import RETIRED

#: The state of each retired type, as the release before wrote it.
OLD: Final[dict[str, dict[str, Any]]] = {
    "libvirt": {"uri": "qemu:///system", "demands": [{"path": "a", "machines": 1.0}]},
    "aws": {"region": "eu-central-1", "path": "a", "network": "10.0.0.0/8", "demands": [], "counted": True},
    "nomad": {"api": {"address": "http://a"}, "namespace": "default", "stack": "dev", "demands": []},
    "ssh": {"stack": "dev", "systems": ["debian 12"], "users": [], "hosts": [{"path": "a", "host": "alpha"}]},
    "kubernetes": {
        "stack": "dev",
        "kubeconfig": "/k",
        "path": "a",
        "namespace": "physics",
        "ownNamespace": True,
        "uses": ["pods"],
        "demands": [],
    },
}


@pytest.mark.parametrize("name", sorted(RETIRED))
def test_a_resource_of_a_retired_type_becomes_the_preflight_in_place(tmp_path: Path, name: str) -> None:
    preflights = Preflights(tmp_path, name)
    new = preflights.inputs({"demands": []})
    difference = preflights.calls.diff(OLD[name], new)
    assert (difference.changes, difference.replaces) == (True, [])
    updated = plainly(preflights.calls.update("id", OLD[name], new).properties)
    assert updated.items() >= new.items()


@pytest.mark.parametrize("name", sorted(RETIRED))
def test_a_resource_of_a_retired_type_is_refreshed_and_deleted(tmp_path: Path, name: str) -> None:
    calls = Calls(tmp_path, RETIRED[name])
    assert calls.read("id", OLD[name], OLD[name]).resource_id == "id"
    calls.delete("id", OLD[name])


def test_up_of_a_stack_that_has_a_retired_type_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(
        f"name: cluster\nruntime: python\nplugins: {{providers: [{{name: tidepool, path: {ROOT}/provider}}]}}\n"
    )
    (tmp_path / "__main__.py").write_text(
        "from tidepool.infrastructures.ssh.preflight import Demands\n"
        "from tidepool.resources.declarations import preflight\n"
        'preflight("hosts", "ssh", "a", Demands("dev", (), {}, ()))\n'
    )

    def engine(*words: str, stdin: str = "") -> str:
        env = {**os.environ, "PULUMI_BACKEND_URL": f"file://{tmp_path}", "PULUMI_CONFIG_PASSPHRASE": "pass"}
        command = ["-m", "tidepool.engine", *words, "--stack", "dev"]
        done = fork_server().run(command, tmp_path, env, stdin=stdin, timeout_s=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def actions(printed: str) -> list[str]:
        return [step["op"] for step in json.loads(printed)["steps"] if "preflight" in step["urn"].lower()]

    engine("stack", "init")
    engine("up", "--yes", "--skip-preview")
    state = json.loads(engine("stack", "export"))
    (found,) = (
        each
        for each in state["deployment"]["resources"]
        if each["type"] == "tidepool:infrastructure:Preflight"
    )
    found.update(type=RETIRED["ssh"], urn=found["urn"].replace(found["type"], RETIRED["ssh"]))
    found.update(inputs=OLD["ssh"], outputs=OLD["ssh"])
    engine("stack", "import", stdin=json.dumps(state))
    assert actions(engine("preview", "--json")) == ["update"]
    engine("up", "--yes", "--skip-preview")
    assert actions(engine("preview", "--json")) == []


def test_an_infrastructure_without_a_check_is_named(tmp_path: Path) -> None:
    assert "local" in Preflights(tmp_path, "local").failures({})["infrastructure"]
    assert "moon" in Preflights(tmp_path, "moon").failures({})["infrastructure"]
