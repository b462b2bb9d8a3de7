"""A converged pool of real machines: between a real Slurm and a real Kubernetes, by hand, held up, forced, cancelled, killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests import versions
from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import until
from tests.whole.pool_load import told_by_us
from tests.whole.pools import ANY, POOL, PoolCluster, a_pool_cluster
from tests.whole.switching import kill_driver
from tidepool import toolchain
from tidepool.clients.slurm import JobState
from tidepool.conversion.kubernetes_side import MEMBER_LABEL
from tidepool.conversion.record import Conversion

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs("local", versions.slurm(), versions.built(toolchain.KUBERNETES)),
]

#: So often a kill may come too late, before that counts as a fault of the test.
_TRIES = 10

SLURMS = {"slurmd", "munged"}
KUBERNETES = {"kubelet", "containerd"}


@pytest.fixture(scope="module")
def pool(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    """Three machines, of which Slurm has one at least."""
    golden_store("debian-12", CONVERGED)
    with a_pool_cluster(tmp_path_factory.mktemp("pool"), images, 3, slurm_min=1) as it:
        yield it


@pytest.fixture(autouse=True)
def _tidy(pool: PoolCluster) -> None:
    """Each begins with nothing running, and all machines in Slurm."""
    pool.clear()
    pool.to("slurm", f"{POOL}-[1-3]")


# Both ways


def test_a_machine_goes_to_kubernetes_runs_a_pod_and_comes_back(pool: PoolCluster) -> None:
    (there,) = pool.convert("shared-3", "--to", "kubernetes")
    assert there["phase"] == "done"
    assert pool.role_of("shared-3") == "kubernetes"
    assert pool.processes("shared-3") & (SLURMS | KUBERNETES) == KUBERNETES
    pool.pod("once", 'echo "$NODE"')
    assert pool.until_pod("once", "Succeeded").node == "shared-3"
    (back,) = pool.convert("shared-3", "--to", "slurm")
    assert back["phase"] == "done"
    assert pool.role_of("shared-3") == "slurm"
    assert pool.processes("shared-3") & (SLURMS | KUBERNETES) == SLURMS
    job = pool.submit("hostname", work_dir="/tmp", more=("--nodelist=shared-3",))
    assert pool.until_job(job, JobState.COMPLETED).nodelist == "shared-3"
    # Who looks at Kubernetes alone is told where it is, since when, and who ordered it.
    said = pool.tidepool("kubectl", "get", "poolmachines", "shared-3").split("\n")
    assert said[0].split() == ["NAME", "POOL", "ROLE", "NODE", "JOBS", "SINCE", "REASON"]
    assert said[1].split()[:4] == ["shared-3", "shared", "Slurm", "Absent"]
    assert "person: " in said[1]


def test_an_up_changes_no_role_and_a_role_is_an_update_in_place(pool: PoolCluster) -> None:
    pool.convert("shared-2", "--to", "kubernetes")
    up = pool.run("up", "--yes", "--json")
    assert up.returncode == 0, up.stderr
    assert '"create"' not in up.stdout
    assert '"update"' not in up.stdout
    assert pool.role_of("shared-2") == "kubernetes"


def test_the_control_planes_machine_is_one_of_the_clusters_own(pool: PoolCluster) -> None:
    assert pool.tidepool("exec", "kube", "--", "hostname").strip() == "kube"
    assert "kube-apiserver" in pool.tidepool("logs", "--lines", "100000", "kube")
    told = json.loads(pool.tidepool("status", "--json"))
    assert told["problems"] == []
    assert told["pools"][0]["count"] == {"slurm": 3, "kubernetes": 0}


# Refused


def test_what_cannot_be_is_refused_all_at_once_and_nothing_changes(pool: PoolCluster) -> None:
    said = pool.refused("convert", "shared-[1-3]", "shared-9", "login-1", "--to", "kubernetes")
    for words in ("shared-9", "login-1", "slurm_min is 1", "nothing was changed"):
        assert words in said, said
    assert set(map(frozenset, pool.roles().values())) == {frozenset({"slurm"})}


def test_where_the_api_does_not_answer_nothing_moves_and_it_is_said(pool: PoolCluster) -> None:
    stopped = pool.signal("kube", "kube-apiserver", signal.SIGSTOP)
    assert stopped
    try:
        began = time.monotonic()
        said = pool.refused("convert", "shared-3", "--to", "kubernetes")
        assert "no machine moves" in said, said
        assert time.monotonic() - began < 60
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert pool.role_of("shared-3") == "slurm"
    pool.convert("shared-3", "--to", "kubernetes")


# Held up


def test_a_budget_that_allows_nothing_holds_it_until_its_deadline_and_then_it_stays(
    pool: PoolCluster,
) -> None:
    pool.convert("shared-3", "--to", "kubernetes")
    pool.pod("web-0", labels={"app": "web"})
    pool.until_pod("web-0", "Running")
    pool.budget("web", {"app": "web"})
    pool.convert("shared-3", "--to", "slurm", "--deadline", "1h", "--no-wait")
    until(lambda: "budget web" in pool.last("shared-3").text or None, "what holds it is known")
    for asked in (("node", "shared-3"), ("pod", "default/web-0")):
        _held(pool.tidepool("why", *asked), "budget", "web")
    # Others go on meanwhile: a person's `up`, and another machine.
    pool.up()
    pool.convert("shared-2", "--to", "kubernetes")
    pool.tidepool("convert", "shared-3", "--cancel")
    assert pool.last("shared-3").phase == "stopped"
    (late,) = pool.convert("shared-3", "--to", "slurm", "--deadline", "2s", "--at-deadline", "stop", code=1)
    assert late["phase"] == "stopped"
    assert "budget web" in late["text"]
    assert pool.role_of("shared-3") == "kubernetes"
    assert pool.until_pod("web-0", "Running").node == "shared-3"
    with closing(pool.kubernetes()) as kubernetes:

        def takes_pods() -> bool | None:
            node = kubernetes.node("shared-3")
            return (node is not None and node.takes_pods) or None

        # The taint goes a moment after the cordon.
        until(takes_pods, "it takes pods again")


def test_at_its_deadline_force_kills_the_pod_and_tells_its_owner(pool: PoolCluster) -> None:
    pool.convert("shared-3", "--to", "kubernetes")
    pool.pod("web-1", labels={"app": "web"})
    uid = pool.until_pod("web-1", "Running").uid
    pool.budget("web", {"app": "web"})
    (done,) = pool.convert("shared-3", "--to", "slurm", "--deadline", "2s", "--at-deadline", "force")
    assert (done["phase"], pool.role_of("shared-3")) == ("done", "slurm")
    (work,) = done["work"]
    assert (work["name"], work["fate"]) == ("default/web-1", "killed")
    with pool.pods() as pods:
        told = told_by_us(pods)
    assert "shared-3" in told[uid]


def test_a_job_longer_than_the_deadline_holds_it_and_then_it_stays(pool: PoolCluster) -> None:
    job = pool.submit("sleep 300", work_dir="/tmp", more=("--nodelist=shared-3", "--time=10"))
    pool.until_job(job, JobState.RUNNING)
    pool.convert("shared-3", "--to", "kubernetes", "--deadline", "1h", "--no-wait")
    until(lambda: str(job) in pool.last("shared-3").text or None, "what holds it is known")
    for asked in (("node", "shared-3"), ("job", str(job))):
        _held(pool.tidepool("why", *asked), f"job {job}")
    pool.tidepool("convert", "shared-3", "--cancel")
    assert pool.job(job).state is JobState.RUNNING
    (late,) = pool.convert("shared-3", "--to", "kubernetes", "--deadline", "2s", code=1)
    assert late["phase"] == "stopped"
    assert f"job {job}" in late["text"]
    assert pool.job(job).state is JobState.RUNNING
    assert pool.nodes()["shared-3"].state.is_draining is False


def test_by_force_its_jobs_are_requeued_and_it_goes_at_once(pool: PoolCluster) -> None:
    job = pool.submit("sleep 300", work_dir="/tmp", more=("--nodelist=shared-3", "--requeue"))
    pool.until_job(job, JobState.RUNNING)
    (done,) = pool.convert("shared-3", "--to", "kubernetes", "--force")
    assert done["phase"] == "done"
    assert [(work["name"], work["fate"]) for work in done["work"]] == [(str(job), "requeued")]
    assert pool.job(job).state is JobState.PENDING
    assert pool.role_of("shared-3") == "kubernetes"


def test_cancelled_while_it_waits_it_is_what_it_was(pool: PoolCluster) -> None:
    job = pool.submit("sleep 300", work_dir="/tmp", more=("--nodelist=shared-3",))
    pool.until_job(job, JobState.RUNNING)
    with pool.converting("shared-3", "--to", "kubernetes") as child:
        pool.until_phase("shared-3", "emptying")
        said = pool.tidepool("convert", "shared-3", "--cancel")
        assert "stopped" in said
        assert child.wait(60) == 1
    assert pool.job(job).state is JobState.RUNNING
    assert pool.nodes()["shared-3"].state.is_draining is False


def test_ctrl_c_ends_the_watching_and_not_the_conversion(pool: PoolCluster) -> None:
    job = pool.submit("sleep 300", work_dir="/tmp", more=("--nodelist=shared-3",))
    pool.until_job(job, JobState.RUNNING)
    with pool.converting("shared-3", "--to", "kubernetes") as child:
        pool.until_phase("shared-3", "emptying")
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
    with pool.slurm() as slurm:
        slurm.cancel(job)
    pool.until_phase("shared-3", "done")
    assert pool.role_of("shared-3") == "kubernetes"


def test_a_member_of_kubernetes_control_plane_stays_where_the_others_would_be_no_majority(
    pool: PoolCluster,
) -> None:
    """By the label that is on members: of a Kubernetes whose control plane its site runs on machines of the pool."""
    pool.convert("shared-[2-3]", "--to", "kubernetes")
    member(pool, "shared-3", True)
    try:
        _stays_for(pool, "without it 0 of 0 would be well, and 1 must be")
        # With two that are not there beside it, the others are one of three.
        for name in ("gone-1", "gone-2"):
            member(pool, name, True)
        member(pool, "shared-2", True)
        _stays_for(pool, "without it 1 of 3 would be well, and 2 must be")
        # Where they can do without it, it goes.
        for name in ("gone-1", "gone-2"):
            member(pool, name, False)
        (goes,) = pool.convert("shared-3", "--to", "slurm")
        assert (goes["phase"], pool.role_of("shared-3")) == ("done", "slurm")
    finally:
        for name in ("gone-1", "gone-2", "shared-2", "shared-3"):
            member(pool, name, False)


# Killed


@pytest.mark.parametrize(
    ("phase", "to"),
    [
        ("holding", "kubernetes"),
        ("emptying", "slurm"),
        ("leaving", "kubernetes"),
        ("leaving", "slurm"),
        ("joining", "kubernetes"),
        ("joining", "slurm"),
    ],
)
def test_killed_in_any_phase_an_up_goes_on(pool: PoolCluster, phase: str, to: str) -> None:
    for _ in range(_TRIES):
        pool.to("kubernetes" if to == "slurm" else "slurm", "shared-3")
        before = _newest(pool)
        with pool.converting("shared-3", "--to", to):
            going = until(partial(_at, pool, phase, before), f"it is {phase}", 30, 0.002)
            # It may be done before the last of its processes was.
            if kill_driver(going) and pool.last("shared-3").is_under_way:
                break
    else:
        pytest.fail(f"{_TRIES} conversions were over before they could be killed")
    left = pool.last("shared-3")
    assert left.id == going.id
    assert left.is_under_way
    pool.up()
    assert pool.last("shared-3").phase == "done"
    until(lambda: pool.role_of("shared-3") == to or None, f"it serves {to}", 20)


@pytest.mark.parametrize("role", ["slurm", "kubernetes"])
def test_a_machine_that_boots_again_takes_its_role_again(pool: PoolCluster, role: str) -> None:
    from tidepool.infrastructures.local.kernel import read_machine

    pool.to(role, "shared-3")
    machine = read_machine(pool.data, pool.stack, "shared-3")
    assert machine is not None
    assert machine.pid is not None
    os.kill(machine.pid, signal.SIGKILL)
    until(lambda: (read_machine(pool.data, pool.stack, "shared-3") or machine).pid is None or None, "it died")
    pool.up()
    wanted = SLURMS if role == "slurm" else KUBERNETES
    until(lambda: wanted <= pool.processes("shared-3") or None, "its services run", 30)
    assert pool.processes("shared-3") & (SLURMS | KUBERNETES) == wanted
    until(lambda: pool.role_of("shared-3") == role or None, f"it serves {role}", 30)


# Down


def test_down_is_refused_while_pods_run_that_nobody_would_make_again(pool: PoolCluster) -> None:
    pool.convert("shared-3", "--to", "kubernetes")
    pool.pod("alone")
    pool.until_pod("alone", "Running")
    said = pool.refused("down", "--yes")
    assert "default/alone" in said
    assert pool.role_of("shared-3") == "kubernetes"


def _held(said: str, *words: str) -> None:
    """It says what holds the conversion, until when, with the year, and what comes then."""
    for word in (*words, f"until {datetime.now(UTC).astimezone():%Y-}", "given up"):
        assert word in said, said


def member(pool: PoolCluster, name: str, is_one: bool) -> None:
    """Label a Node as one of the control plane, or no more. One that is no machine's is there for that alone."""
    with pool.pods() as pods:
        requests, path = pods.requests, f"/api/v1/nodes/{name}"
        if not name.startswith(POOL):
            labels = {MEMBER_LABEL: ""}
            thing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            requests.post("/api/v1/nodes", thing, ANY) if is_one else requests.delete(path, ANY)
        elif requests.find(path, ANY, "Node") is not None:
            requests.patch(path, {"metadata": {"labels": {MEMBER_LABEL: "" if is_one else None}}}, ANY)


def _stays_for(pool: PoolCluster, why: str) -> None:
    """shared-3 does not leave Kubernetes, says why, and takes pods again."""
    (stays,) = pool.convert("shared-3", "--to", "slurm", code=1)
    assert stays["phase"] == "stopped"
    for said in (stays["text"], pool.tidepool("why", "node", "shared-3")):
        assert why in " ".join(said.split()), said
    assert pool.role_of("shared-3") == "kubernetes"
    with closing(pool.kubernetes()) as kubernetes:
        node = kubernetes.node("shared-3")
        assert node is not None
        assert node.takes_pods


def _newest(pool: PoolCluster) -> int:
    """The number of the newest conversion; 0 where there was none."""
    with pool.journal() as journal:
        return max((each.id for each in journal.conversions(node="shared-3", limit=1)), default=0)


def _at(pool: PoolCluster, phase: str, before: int) -> Conversion | None:
    """A conversion after ``before`` that is in that phase, or past it: some are over sooner than one can look."""
    with pool.journal() as journal:
        found = journal.conversions(node="shared-3", limit=1)
    return found[0] if found and found[0].id > before and phase in found[0].began else None
