"""What a program is asked for: by a person's file, or by a wish, which carries out nothing that a person edited since."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulumi.runtime import set_all_config

from tests.cluster.specs import spec_mapping, with_pool
from tests.components.stack import registered, spec_with
from tidepool.cluster.desired_state import (
    NODES_VARIABLE,
    ONLY_VARIABLE,
    ROLES_VARIABLE,
    SUSPENDED_VARIABLE,
)
from tidepool.cluster.hostlist import HostSet
from tidepool.components import DesiredState, desired_state

LAST = {"spec": spec_mapping(), "fleets": {"cpu": "cpu-[1-3]", "gpu": "gpu-2"}}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[_World]:
    yield _World(monkeypatch)
    set_all_config({}, [])


class _World:
    """The stack's file and its last outputs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        # The package has a function of the module's name.
        patch.setattr(sys.modules[desired_state.__module__], "last_outputs", lambda: self.last)
        patch.setattr(pulumi, "get_stack", lambda: "dev")
        patch.setattr(pulumi, "get_project", lambda: "cluster")
        self.last: Mapping[str, Any] = LAST
        self.file: Any = spec_mapping()
        self.is_secret = False

    def desired(self, **environment: str) -> DesiredState:
        set_all_config(
            {"cluster:spec": json.dumps(self.file)} if self.file is not None else {},
            ["cluster:spec"] if self.is_secret else [],
        )
        return desired_state(pulumi.Config("cluster"), environment)


def edited() -> dict[str, Any]:
    """The file after somebody changed a shape and added a fleet."""
    mapping = spec_mapping(name="edited")
    mapping["fleets"][0]["shape"]["memory"] = "8GiB"
    mapping["fleets"].append({**mapping["fleets"][0], "name": "new", "subnet": "10.77.20.0/24"})
    return mapping


def names(of: DesiredState) -> dict[str, str]:
    return {fleet: str(nodes) for fleet, nodes in of.nodes.items()}


def test_a_person_goes_by_the_file_and_undoes_nothing_of_the_scalers(world: _World) -> None:
    world.file = edited()
    found = world.desired()
    assert found.spec == spec_with(**edited())
    assert names(found) == {"cpu": "cpu-[1-3]", "gpu": "gpu-2", "new": ""}
    assert (found.only, found.outputs["spec"]) == (None, edited())


def test_a_wish_goes_by_what_was_brought_up_last(world: _World) -> None:
    world.file = edited()
    found = world.desired(**{NODES_VARIABLE: '{"cpu": "cpu-[2,9]"}'})
    assert found.spec == spec_with()
    # A fleet that it does not name stays, and gets no nodes by its minimum either.
    assert names(found) == {"cpu": "cpu-[2,9]", "gpu": "gpu-2"}
    assert (found.only, found.outputs["spec"]) == (None, spec_mapping())


@pytest.mark.parametrize("file", [None, {"name": 1, "no": "spec"}, "no mapping"])
def test_a_wish_does_not_mind_a_broken_file(world: _World, file: Any) -> None:
    world.file = file
    assert names(world.desired(**{NODES_VARIABLE: "{}"})) == LAST["fleets"]


def test_a_stack_that_was_brought_up_before_there_was_such_an_output(world: _World) -> None:
    world.last = {"fleets": LAST["fleets"]}
    found = world.desired(**{NODES_VARIABLE: '{"gpu": ""}'})
    assert found.spec == spec_with()
    assert names(found) == {"cpu": "cpu-[1-3]", "gpu": ""}
    assert "spec" not in found.outputs, "nobody knows whether the file is what was brought up"
    world.last = {}
    assert names(world.desired()) == {"cpu": "", "gpu": ""}


@pytest.mark.parametrize("is_known_by", ["spec", "users"])
def test_a_directory_that_has_few_of_the_users_removes_nobody(
    world: _World, tmp_path: Path, is_known_by: str
) -> None:
    """Also the first one, of a cluster whose spec had them all."""
    users = [{"name": f"user{number}", "uid": 10_000 + number} for number in range(10)]
    outputs = {"users": {"users": users, "groups": []}} if is_known_by == "users" else {}
    world.last = LAST | {"spec": spec_mapping(users=[] if outputs else users)} | outputs
    file = tmp_path / "users.json"
    world.file = spec_mapping(users=[], directory={"file": str(file)})
    file.write_text(json.dumps({"users": users[:4]}))
    with pytest.raises(pulumi.RunError, match="has 4 users, where at least 5 were expected"):
        world.desired()
    file.write_text(json.dumps({"users": users[:5]}))
    assert len(world.desired().users.users) == 5


def test_a_secret_spec_stays_secret(world: _World) -> None:
    world.is_secret = True
    written = world.desired().outputs["spec"]
    assert isinstance(written, pulumi.Output)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("", "TIDEPOOL_WISH is not JSON"),
        ("cpu-[1-3]", "TIDEPOOL_WISH is not JSON"),
        ("[]", "TIDEPOOL_WISH should be hostlists by fleet"),
        ('{"cpu": 3}', "TIDEPOOL_WISH should be hostlists by fleet"),
        ('{"gone": "gone-1"}', "TIDEPOOL_WISH: there is no fleet gone; the fleets are cpu, gpu"),
        ('{"cpu": "gpu-1"}', "TIDEPOOL_WISH: gpu-1 is no node of fleet cpu"),
        ('{"cpu": "cpu-17"}', "TIDEPOOL_WISH: fleet cpu gets no node cpu-17: its max_nodes is 16"),
        ('{"cpu": "cpu-[1"}', "TIDEPOOL_WISH: fleet cpu: "),
    ],
)
def test_a_bad_wish_is_told_plainly(world: _World, wish: str, said: str) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        world.desired(**{NODES_VARIABLE: wish})
    assert str(caught.value).startswith(said)


def test_what_is_wrong_elsewhere_is_told_with_where_it_is(world: _World) -> None:
    world.file = spec_mapping(name=3)
    with pytest.raises(pulumi.RunError, match=r"^Pulumi\.dev\.yaml: one mistake"):
        world.desired()
    world.last = {**LAST, "spec": {"name": "x"}}
    with pytest.raises(pulumi.RunError, match=r"^the spec in the stack's outputs: "):
        world.desired(**{NODES_VARIABLE: "{}"})
    world.last, world.file = {**LAST, "fleets": {"cpu": "gpu-1"}}, spec_mapping()
    with pytest.raises(pulumi.RunError, match=r"^fleets: gpu-1 is no node"):
        world.desired()
    world.last = LAST
    with pytest.raises(pulumi.RunError, match=f"^{ONLY_VARIABLE}: "):
        world.desired(**{NODES_VARIABLE: "{}", ONLY_VARIABLE: "cpu-["})


def serving(of: DesiredState) -> dict[str, list[str]]:
    return {
        pool: [name for name, role in roles.items() if role == "kubernetes"]
        for pool, roles in of.roles.items()
    }


def pooled(kubernetes: str) -> Mapping[str, Any]:
    """The outputs of a stack with a pool."""
    return {"spec": with_pool(), "fleets": {"cpu": "cpu-1"}, "pools": {"shared": {"kubernetes": kubernetes}}}


def test_a_person_moves_no_machine_that_was_moved(world: _World) -> None:
    world.last, world.file = pooled("shared-[2,4]"), with_pool(kubernetes_min=1)
    found = world.desired()
    assert serving(found) == {"shared": ["shared-2", "shared-4"]}
    assert [*found.roles["shared"]] == [f"shared-{n}" for n in range(1, 5)]
    assert found.serving == {"shared": "shared-[2,4]"}
    # At first, and where the person raised a limit since.
    world.last = {}
    assert serving(world.desired()) == {"shared": ["shared-4"]}
    world.last, world.file = pooled("shared-2"), with_pool(kubernetes_min=2)
    assert serving(world.desired()) == {"shared": ["shared-2", "shared-4"]}


def test_a_wish_for_roles_is_for_the_pools_it_names_and_for_nothing_else(world: _World) -> None:
    world.last, world.file = pooled("shared-2"), edited()
    found = world.desired(**{ROLES_VARIABLE: '{"shared": "shared-[1,2]"}', ONLY_VARIABLE: "shared-1"})
    assert found.spec == spec_with(**with_pool())
    assert serving(found) == {"shared": ["shared-1", "shared-2"]}
    assert names(found) == {"cpu": "cpu-1", "gpu": ""}
    assert (found.only, found.serving) == (HostSet("shared-1"), {"shared": "shared-2"})
    # A wish for nodes leaves the roles as they are.
    assert serving(world.desired(**{NODES_VARIABLE: '{"cpu": ""}'})) == {"shared": ["shared-2"]}


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ('{"gone": ""}', "TIDEPOOL_WISH_ROLES: there is no pool gone; the pools are shared"),
        (
            '{"shared": "shared-5"}',
            "TIDEPOOL_WISH_ROLES: shared-5 is no machine of the pool shared: its machines",
        ),
        (
            '{"shared": "shared-[1-4]"}',
            "TIDEPOOL_WISH_ROLES: pool shared: 4 of its 4 machines would serve Kuber",
        ),
        ("[]", "TIDEPOOL_WISH_ROLES should be hostlists by pool"),
    ],
)
def test_a_bad_wish_for_roles_is_told_plainly(world: _World, wish: str, said: str) -> None:
    world.last = {**pooled(""), "spec": with_pool(slurm_min=1)}
    with pytest.raises(pulumi.RunError) as caught:
        world.desired(**{ROLES_VARIABLE: wish})
    assert str(caught.value).startswith(said)


def test_without_a_wish_nothing_limits_the_program(world: _World) -> None:
    """It would take away what it does not register."""
    assert world.desired(**{ONLY_VARIABLE: "cpu-1"}).only is None
    assert world.desired(**{NODES_VARIABLE: "{}", ONLY_VARIABLE: ""}).only is None
    assert world.desired(**{NODES_VARIABLE: "{}", ONLY_VARIABLE: "cpu-1"}).only == HostSet("cpu-1")


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(1, 16)), st.sets(st.integers(1, 16), min_size=1))
def test_what_is_limited_registers_those_nodes_alone_and_tells_of_all(
    there: set[int], about: set[int]
) -> None:
    nodes = HostSet.from_names(f"cpu-{number}" for number in there)
    only = HostSet.from_names(f"cpu-{number}" for number in about)
    whole = registered(spec_with(), {"cpu": nodes})
    part = registered(spec_with(), {"cpu": nodes}, only=only)
    component = "tidepool:components:ComputeFleet cpu"
    assert part.outputs[component] == whole.outputs[component] == {"nodes": str(nodes)}
    left_out = whole.resources.keys() - part.resources.keys()
    assert left_out == {
        f"{kind} {node}"
        for kind in ("tidepool:local:Machine", "tidepool:slurm:Node")
        for node in nodes - only
    }
    # What is registered is no other for it: nothing of it is changed.
    assert all(whole[name].inputs == part[name].inputs for name in part.resources)


def test_machines_that_are_suspended_stay_so_until_the_scaler_says_otherwise(world: _World) -> None:
    assert world.desired().suspended == {}
    world.last = {**LAST, "suspended": {"cpu": "cpu-[4-5]"}}
    found = world.desired()
    assert found.suspended == {"cpu": HostSet("cpu-[4-5]")}
    assert found.outputs["suspended"] == {"cpu": "cpu-[4-5]"}
    # One that is to be a node is none of them, whoever says so.
    asked = {NODES_VARIABLE: '{"cpu": "cpu-[1-4]"}'}
    assert world.desired(**asked).suspended == {"cpu": HostSet("cpu-5")}
    assert world.desired(**asked, **{SUSPENDED_VARIABLE: '{"cpu": "cpu-[6-7]"}'}).suspended == {
        "cpu": HostSet("cpu-[6-7]")
    }
    gone = world.desired(**asked, **{SUSPENDED_VARIABLE: '{"cpu": ""}'})
    assert (gone.suspended, "suspended" in gone.outputs) == ({}, False)
    with pytest.raises(pulumi.RunError, match="gpu-1 is no node of fleet cpu"):
        world.desired(**asked, **{SUSPENDED_VARIABLE: '{"cpu": "gpu-1"}'})
