"""What ConvergedNodePool registers: a machine and a role for each of a pool's machines, and a role that changes in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.specs import with_pool
from tests.components.stack import answers, connection, of_one_image, spec_with
from tidepool import resources
from tidepool.cluster.desired_state import role_set
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.roles import Role
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import ConvergedNodePool, SlurmController
from tidepool.infrastructures.local.graph import Local
from tidepool.testing import Graph, register

COMPONENT = "tidepool:components:ConvergedNodePool shared"
BOOT, MACHINE, ROLE = "tidepool:local:Boot", "tidepool:local:Machine", "tidepool:pool:Role"
SLOTS, ACCESS = "tidepool:slurm:Slots", "tidepool:kubernetes:Access kubernetes"
NODES = tuple(f"shared-{n}" for n in range(1, 5))


def pooled(**changes: Any) -> ClusterSpec:
    return spec_with(**with_pool(**changes))


@dataclass
class Reached:
    """A Kubernetes, as far as a pool asks for it."""

    access: pulumi.Output[str]
    authority_certificate: pulumi.Output[str]


def program_of(
    spec: ClusterSpec, roles: Mapping[str, Role], serving: str = "", only: HostSet | None = None
) -> Callable[[], None]:
    """A stack with one pool."""

    def program() -> None:
        controller = SlurmController(spec.name, locations=of_one_image(spec, Local("dev")))
        access = resources.Access("kubernetes", stack="dev", access="kubernetes", kubeconfig="{}")
        reached = Reached(access.access, pulumi.Output.from_input("AUTHORITY"))
        ConvergedNodePool(
            "shared", controller=controller, kubernetes=reached, roles=roles, serving=serving, only=only
        )

    return program


def registered(wish: str = "", serving: str = "", *, only: str | None = None, preview: bool = False) -> Graph:
    spec = pooled()
    roles = role_set(spec.pool("shared"), desired=wish)
    limited = HostSet(only) if only is not None else None
    return register(program_of(spec, roles, serving, limited), answers, preview=preview)


def test_a_pool_is_three_boots_slots_and_two_resources_for_each_machine() -> None:
    graph = registered("shared-2")
    assert {name for name, parent in graph.children.items() if parent == COMPONENT} == {
        f"{BOOT} shared",
        f"{BOOT} shared-slurm",
        f"{BOOT} shared-kubernetes",
        f"{SLOTS} shared",
        *(f"{kind} {node}" for kind in (MACHINE, ROLE) for node in NODES),
    }
    assert graph.outputs[COMPONENT] == {"roles": {"slurm": "shared-[1,3-4]", "kubernetes": "shared-2"}}


def test_urns_are_what_they_were() -> None:
    graph = registered()
    above = "urn:pulumi:dev::cluster::tidepool:components:ConvergedNodePool"
    assert graph[COMPONENT].urn == f"{above}::shared"
    assert graph[f"{MACHINE} shared-1"].urn == f"{above}$tidepool:local:Machine::shared-1"
    assert graph[f"{ROLE} shared-1"].urn == f"{above}$tidepool:pool:Role::shared-1"
    assert graph[f"{SLOTS} shared"].urn == f"{above}$tidepool:slurm:Slots::shared"
    assert graph[f"{BOOT} shared-slurm"].urn == f"{above}$tidepool:local:Boot::shared-slurm"


def test_a_role_goes_before_its_machine_and_comes_after_its_slot_and_the_kubernetes_that_it_joins() -> None:
    graph = registered("shared-1")
    machine, role = graph[f"{MACHINE} shared-1"], graph[f"{ROLE} shared-1"]
    assert f"{SLOTS} shared" in machine.depends_on
    assert machine.replace_with == {f"{SLOTS} shared"}
    assert role.by_input == {
        "controller": {f"{MACHINE} ctl"},
        "machine": {f"{MACHINE} shared-1"},
        "slots": {f"{SLOTS} shared"},
        "boots": {f"{BOOT} shared-slurm", f"{BOOT} shared-kubernetes"},
        "access": {ACCESS},
    }
    assert "tidepool:slurm:Configuration physics" in graph[f"{SLOTS} shared"].depends_on
    # A machine boots without Kubernetes, and no machine waits for another.
    assert ACCESS not in machine.depends_on
    for node in NODES:
        others = {f"{kind} {other}" for kind in (MACHINE, ROLE) for other in NODES if other != node}
        assert not graph[f"{ROLE} {node}"].depends_on & others


def test_a_role_names_what_it_needs_and_holds_none_of_it() -> None:
    role = registered("shared-2")[f"{ROLE} shared-2"]
    assert role.inputs == {
        "node": "shared-2",
        "pool": "shared",
        "role": "kubernetes",
        "machine": connection("shared-2"),
        "controller": connection("ctl"),
        "access": "kubernetes",
        "boots": {"slurm": "shared-slurm", "kubernetes": "shared-kubernetes"},
        "podSubnet": "10.240.1.0/24",
        "deadlineS": 3600,
        "atDeadline": "stop",
        "slots": "shared-id",
    }
    assert not role.secrets
    assert len(str(dict(role.inputs))) < 600


def test_what_a_machine_is_given_with_a_role_is_secret_and_its_own_boot_holds_none_of_it() -> None:
    graph = registered()
    boot, slurm, kubernetes = (graph[f"{BOOT} shared{of}"] for of in ("", "-slurm", "-kubernetes"))
    assert "files" in slurm.secrets
    assert slurm.inputs["files"]["/etc/munge/munge.key"]["content"] == "munge-key"
    # The authority's certificate is no secret; a kubelet's own credentials are made for it when it joins.
    assert "AUTHORITY" in str(kubernetes.inputs["files"])
    assert {len(slurm.inputs["services"]), len(kubernetes.inputs["services"])} == {0}
    assert not boot.secrets
    assert "munge-key" not in str(boot.inputs)
    by_role: dict[str, list[str]] = {}
    for service in boot.inputs["services"]:
        by_role.setdefault(service.get("role", ""), []).append(service["name"])
    assert by_role[""] == ["node-access", "sshd"]
    assert by_role["slurm"] == ["munged", "slurmd"]
    assert "kubelet" in by_role["kubernetes"]
    assert boot.inputs["containers"] == "kubernetes"


def test_the_machine_that_runs_slurmctld_boots_with_it_and_with_the_volumes_that_ctl_has() -> None:
    spec = spec_with(**with_pool(), controller={"runs_on": "shared-2"})
    graph = register(program_of(spec, role_set(spec.pool("shared"))), answers)
    plain, special, ctl = (graph[f"{BOOT} {name}"] for name in ("shared", "shared-controller", "ctl"))
    assert {node: graph[f"{MACHINE} {node}"].inputs["boot"] for node in NODES} == {
        **dict.fromkeys(NODES, "shared"),
        "shared-2": "shared-controller",
    }
    services = {each["name"]: each for each in special.inputs["services"]}
    names = [each["name"] for each in plain.inputs["services"]]
    assert list(services) == [*names[:3], "slurmctld", *names[3:]]
    for each in (services["slurmctld"], *(s for s in ctl.inputs["services"] if s["name"] == "slurmctld")):
        assert each["restart"] == "on-failure"
    assert services["slurmctld"]["role"] == "slurm"
    # Seen by what serves Slurm, and by nothing that serves Kubernetes.
    mounts = {each["target"]: each for each in special.inputs["mounts"]}
    assert {target: mount.get("role", "") for target, mount in mounts.items()} == {
        "/home": "",
        "/var/spool/slurmctld": "slurm",
        "/etc/slurm": "slurm",
    }
    both = {each["target"]: each["source"] for each in ctl.inputs["mounts"]}
    assert {target: mount["source"] for target, mount in mounts.items()} == both
    assert not special.secrets
    # Who is told to start it again, when Slurm's files changed, is that machine's role alone.
    told = {node: graph[f"{ROLE} {node}"] for node in NODES if "slurmctld" in graph[f"{ROLE} {node}"].inputs}
    assert list(told) == ["shared-2"]
    assert told["shared-2"].by_input["slurmctld"] == {"tidepool:slurm:Configuration physics"}
    # All slurmds ask it first.
    slurmd = next(each for each in plain.inputs["services"] if each["name"] == "slurmd")
    assert slurmd["argv"][slurmd["argv"].index("--conf-server") + 1] == "shared-2,ctl"


def test_slots_of_a_pool_are_future_also_where_power_saving_asks_for_nodes() -> None:
    spec = spec_with(**with_pool(), scaling={"mode": "power_save"})
    roles = role_set(spec.pool("shared"))
    slots = register(program_of(spec, roles), answers)[f"{SLOTS} shared"]
    assert slots.inputs["state"] == "FUTURE"
    assert slots.inputs["names"] == "shared-[1-4]"
    assert slots.inputs["features"] == ["shared"]


def test_in_a_tree_slurmd_says_nothing_of_a_slot_that_slurm_conf_has() -> None:
    spec = spec_with(**with_pool(), topology="tree")
    boot = register(program_of(spec, role_set(spec.pool("shared"))), answers)[f"{BOOT} shared"]
    (slurmd,) = (each for each in boot.inputs["services"] if each["name"] == "slurmd")
    assert "-Z" not in slurmd["argv"]


def test_another_role_changes_that_input_of_that_machine_and_nothing_else() -> None:
    before, after = registered("shared-1"), registered("shared-[1,3]", "shared-1")
    assert set(before.resources) == set(after.resources)
    changed = {name for name in before.resources if before[name].inputs != after[name].inputs}
    assert changed == {f"{ROLE} shared-3"}
    was, now = before[f"{ROLE} shared-3"], after[f"{ROLE} shared-3"]
    assert {key for key in now.inputs if now.inputs[key] != was.inputs[key]} == {"role"}


def test_a_preview_knows_all_roles() -> None:
    graph = registered("shared-2", preview=True)
    assert graph.outputs[COMPONENT] == {"roles": {"slurm": "shared-[1,3-4]", "kubernetes": "shared-2"}}


@settings(max_examples=15, deadline=None)
@given(st.sets(st.sampled_from(NODES)), st.sets(st.sampled_from(NODES)), st.sets(st.sampled_from(NODES)))
def test_what_is_limited_registers_those_machines_alone_and_tells_of_all(
    wish: set[str], last: set[str], only: set[str]
) -> None:
    wished, served, limited = (str(HostSet.from_names(each)) for each in (wish, last, only))
    part = registered(wished, served, only=limited)
    assert {each.name for each in part.of_type(ROLE).values()} == only
    assert {each.name for each in part.of_type(MACHINE).values() if each.name in NODES} == only
    # Those that it does not touch are what they were.
    serving = {node for node in NODES if node in (wish if node in only else last)}
    assert part.outputs[COMPONENT]["roles"] == {
        "slurm": str(HostSet.from_names(set(NODES) - serving)),
        "kubernetes": str(HostSet.from_names(serving)),
    }
    whole = registered(wished, served)
    assert all(whole[name].inputs == part[name].inputs for name in part.resources)


@pytest.mark.parametrize("role", ["slurm", "kubernetes"])
def test_a_deadline_is_told_to_each_machine(role: Role) -> None:
    spec = pooled(deadline_s=5, at_deadline="force")
    graph = register(program_of(spec, dict.fromkeys(NODES, role)), answers)
    assert {each.inputs["deadlineS"] for each in graph.of_type(ROLE).values()} == {5}
    assert {each.inputs["atDeadline"] for each in graph.of_type(ROLE).values()} == {"force"}
