"""The preflight takes over what stacks of earlier releases have in its place, without replacement."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.provider.calls import Calls, Preflights, plainly
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


def test_an_infrastructure_without_a_check_is_named(tmp_path: Path) -> None:
    assert "local" in Preflights(tmp_path, "local").failures({})["infrastructure"]
    assert "moon" in Preflights(tmp_path, "moon").failures({})["infrastructure"]
