"""Pools in the graph of a real cluster: a role changes in place, what the stack exports is true, and a kill is gone on from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.forking import fork_server
from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import LONG_S, ROOT, until
from tests.whole.conftest import images
from tests.whole.pools import PoolCluster, a_pool_cluster
from tidepool.clients.slurm import JobState
from tidepool.cluster.desired_state import NODES_VARIABLE, ONLY_VARIABLE, ROLES_VARIABLE
from tidepool.infrastructures.local.kernel import read_machine

pytestmark = [pytest.mark.slow, needs_kubernetes]

__all__ = ["images"]  # a fixture, which pytest finds here

ROLE = "tidepool:pool:Role"


class Graph:
    """The cluster's stack, as the engine and its state have it."""

    def __init__(self, cluster: PoolCluster) -> None:
        self.cluster = cluster
        self.settings: Mapping[str, str] = json.loads(cluster.tidepool("env", "--json"))

    def start(self, verb: str, *flags: str, wish: str | None = None, only: str = "") -> subprocess.Popen[str]:
        """Begin an operation of the engine, as the scaler does."""
        return subprocess.Popen(
            [sys.executable, *self._words(verb, flags)],
            cwd=self.cluster.folder,
            env=self._environment(wish, only),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, verb: str, *flags: str, wish: str | None = None, only: str = "") -> tuple[int, str]:
        words, env = self._words(verb, flags), self._environment(wish, only)
        done = fork_server().run(words, self.cluster.folder, env, timeout_s=LONG_S, merged=True)
        return done.returncode, done.stdout

    def _words(self, verb: str, flags: Sequence[str]) -> list[str]:
        return ["-m", "tidepool.engine", verb, "--stack", self.cluster.stack, *flags]

    def _environment(self, wish: str | None, only: str) -> dict[str, str]:
        wished = (
            {NODES_VARIABLE: "{}", ROLES_VARIABLE: json.dumps({"shared": wish}), ONLY_VARIABLE: only}
            if wish is not None
            else {}
        )
        return {**self.cluster.environment, **wished, **self.settings, "PYTHONPATH": str(ROOT)}

    def wished(self, wish: str, *flags: str, only: str = "") -> tuple[int, str]:
        """An `up` with a wish for roles, that goes on where one machine does not move."""
        targets = [flag for node in only.split(",") if node for flag in ("--target", f"**{ROLE}::{node}")]
        return self.run(
            "up", "--yes", "--skip-preview", "--continue-on-error", *targets, *flags, wish=wish, only=only
        )

    def state(self) -> list[Mapping[str, Any]]:
        """The resources of the state."""
        (file,) = (self.cluster.data / "state").glob(f".pulumi/stacks/**/{self.cluster.stack}.json")
        deployment = json.loads(file.read_text())["checkpoint"]["latest"]
        found: list[Mapping[str, Any]] = deployment["resources"]
        return found

    def role(self, node: str) -> Mapping[str, Any]:
        """A role as the state has it."""
        (found,) = (each for each in self.state() if each["urn"].endswith(f"{ROLE}::{node}"))
        outputs: Mapping[str, Any] = found["outputs"]
        return outputs

    @property
    def exported(self) -> Mapping[str, str]:
        """What the stack exports of the pool."""
        (stack,) = (each for each in self.state() if each["type"] == "pulumi:pulumi:Stack")
        pools: Mapping[str, Any] = stack["outputs"]["pools"]
        roles: Mapping[str, str] = pools["shared"]
        return roles


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    """Two machines, one of which has to serve Kubernetes."""
    store = golden_store("debian-12", CONVERGED)
    with a_pool_cluster(tmp_path_factory.mktemp("pool"), store, 2, kubernetes_min=1, deadline_s=25) as it:
        yield it


@pytest.fixture
def graph(cluster: PoolCluster) -> Iterator[Graph]:
    """shared-1 serves Slurm, shared-2 Kubernetes, without work."""
    found = Graph(cluster)
    code, said = found.wished("shared-2")
    assert code == 0, said
    yield found
    cluster.clear()


def test_roles_are_as_the_spec_has_them_and_the_next_up_changes_nothing(graph: Graph) -> None:
    assert graph.cluster.roles() == {"shared-1": {"slurm"}, "shared-2": {"kubernetes"}}
    assert graph.exported == {"slurm": "shared-1", "kubernetes": "shared-2"}
    said = graph.cluster.up()
    assert "unchanged" in said
    assert "updated" not in said
    assert graph.cluster.roles() == {"shared-1": {"slurm"}, "shared-2": {"kubernetes"}}


def test_another_role_is_an_update_in_a_preview_and_leaves_the_machine(graph: Graph) -> None:
    code, said = graph.run("preview", "--diff", wish="shared-[1-2]")
    assert code == 0, said
    assert "~ 1 to update" in said
    assert 'role: "slurm" => "kubernetes"' in said
    assert "replace" not in said
    machine = read_machine(graph.cluster.data, graph.cluster.stack, "shared-1")
    code, said = graph.wished("shared-[1-2]", only="shared-1")
    assert code == 0, said
    assert graph.cluster.roles() == {"shared-1": {"kubernetes"}, "shared-2": {"kubernetes"}}
    assert graph.exported == {"slurm": "", "kubernetes": "shared-[1-2]"}
    after = read_machine(graph.cluster.data, graph.cluster.stack, "shared-1")
    assert machine is not None
    assert after is not None
    assert (after.pid, after.address) == (machine.pid, machine.address)
    # A person's `up` undoes nothing of it.
    graph.cluster.up()
    assert graph.exported == {"slurm": "", "kubernetes": "shared-[1-2]"}


def test_a_role_takes_little_of_the_state_and_nothing_that_is_secret(graph: Graph) -> None:
    roles = [each for each in graph.state() if each["type"] == ROLE]
    assert len(roles) == 2
    for role in roles:
        # Most of it are the names of what it depends on.
        assert len(json.dumps(role["inputs"], separators=(",", ":"))) < 450
        its = {key: value for key, value in role.items() if key not in ("stackTrace", "sourcePosition")}
        assert len(json.dumps(its, separators=(",", ":"))) < 2800
        assert "ciphertext" not in json.dumps(role)
        assert "BEGIN" not in json.dumps(role)


def test_a_job_that_outlasts_the_deadline_keeps_its_machine_and_what_is_exported_is_true(
    graph: Graph,
) -> None:
    job = graph.cluster.submit("sleep 300")
    graph.cluster.until_job(job, JobState.RUNNING)
    code, said = graph.wished("shared-[1-2]")
    assert code != 0
    assert "Traceback" not in said
    assert "shared-1 was not given to Kubernetes: its work did not end" in said
    assert f"job {job} of researcher" in said
    assert graph.cluster.job(job).state is JobState.RUNNING
    assert graph.role("shared-1")["role"] == "slurm"
    assert graph.exported == {"slurm": "shared-1", "kubernetes": "shared-2"}
    # Nobody asks for it once more.
    graph.cluster.up()
    assert graph.cluster.job(job).state is JobState.RUNNING
    assert graph.cluster.roles()["shared-1"] == {"slurm"}


@pytest.mark.parametrize("victim", ["engine", "provider", "nobody"])
def test_after_a_kill_or_a_cancel_a_persons_plain_up_goes_on(graph: Graph, victim: str) -> None:
    job = graph.cluster.submit("sleep 300")
    graph.cluster.until_job(job, JobState.RUNNING)
    process = graph.start("up", "--yes", "--skip-preview", "--continue-on-error", wish="shared-[1-2]")
    graph.cluster.until_phase("shared-1", "emptying")
    if victim == "engine":
        os.killpg(process.pid, signal.SIGKILL)
    elif victim == "nobody":
        os.kill(process.pid, signal.SIGINT)
    else:
        providers = _providers(process.pid)
        assert providers
        for pid in providers:
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=20)
    assert graph.cluster.last("shared-1").is_under_way
    with graph.cluster.slurm() as slurm:
        slurm.cancel(job)
    # Its program, and the stack's outputs, know of no wish: the journal does.
    code, said = graph.run("preview")
    assert code == 0, said
    assert "1 to update" in said
    graph.cluster.up()
    assert graph.cluster.last("shared-1").phase == "done"
    assert graph.cluster.roles()["shared-1"] == {"kubernetes"}
    assert graph.exported == {"slurm": "", "kubernetes": "shared-[1-2]"}
    said = graph.cluster.up()
    assert "updated" not in said


@pytest.mark.parametrize(("node", "role"), [("shared-1", "slurm"), ("shared-2", "kubernetes")])
def test_a_machine_that_died_is_booted_and_takes_up_its_role(graph: Graph, node: str, role: str) -> None:
    machine = read_machine(graph.cluster.data, graph.cluster.stack, node)
    assert machine is not None
    assert machine.pid is not None
    os.kill(machine.pid, signal.SIGKILL)
    until(
        lambda: (read_machine(graph.cluster.data, graph.cluster.stack, node) or machine).pid is None or None,
        f"{node} is down",
    )
    graph.cluster.up()
    assert graph.cluster.roles()[node] == {role}


def test_a_machine_that_has_work_does_not_leave_its_pool(graph: Graph) -> None:
    graph.cluster.pod("web")
    graph.cluster.until_pod("web", "Running")
    graph.cluster.spec["pools"][0] |= {"machines": 1, "kubernetes_min": 0}
    try:
        said = graph.cluster.refused("up", "--yes")
        assert "default/web" in said
        graph.cluster.until_pod("web", "Running")
        graph.cluster.clear()
        graph.cluster.up()
        assert graph.exported == {"slurm": "shared-1", "kubernetes": ""}
        assert read_machine(graph.cluster.data, graph.cluster.stack, "shared-2") is None
    finally:
        graph.cluster.spec["pools"][0] |= {"machines": 2, "kubernetes_min": 1}
    graph.cluster.clear()
    graph.cluster.up()
    assert graph.cluster.roles() == {"shared-1": {"slurm"}, "shared-2": {"kubernetes"}}


def _providers(engine: int) -> list[int]:
    """The plugins that an engine has started."""
    tasks = Path(f"/proc/{engine}/task").glob("*/children")
    children = [pid for task in tasks for pid in task.read_text().split()]
    return [int(pid) for pid in children if b"provider" in Path(f"/proc/{pid}/cmdline").read_bytes()]
