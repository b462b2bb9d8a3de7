"""The pool in `pool show`, `status`, `why` and `down`: from both sides, with what is under way."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.pools.standins import PoolPerson, outputs
from tidepool.cli import down, errors, stack_spec
from tidepool.clients.slurm import JobRequest
from tidepool.conversion.record import Order, Work
from tidepool.infrastructures.local import kernel
from tidepool.journals.processes import new_driver

BUDGET = Work("pod", "default/web-0", "ReplicaSet/web", "runs", "budget web allows no eviction")


@pytest.fixture(autouse=True)
def _no_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this machine's own is looked at."""
    monkeypatch.setattr(kernel, "list_machines", lambda _data, _stack: ())
    # It has a name of its own for it, which is taken when the verb is imported: by whichever test is the first.
    monkeypatch.setattr(down, "list_machines", lambda _data, _stack: ())


def waiting(ada: PoolPerson, work: Work = BUDGET, node: str = "shared-2") -> None:
    """A conversion to Slurm that ``work`` holds up."""
    order = Order(node, "shared", "slurm", datetime.now(UTC), "person", "a deadline is near", deadline_s=7200)
    made = ada.journal.order(order, "kubernetes")
    assert ada.journal.take_over(made.id, "d", datetime.now(UTC), 60)
    ada.engine._enter(ada.journal.conversion(made.id), "holding")
    ada.engine._enter(ada.journal.conversion(made.id), "emptying", work=(work,), text="waits")


def test_each_machine_is_shown_as_both_sides_have_it(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    ada.slurm.drain("shared-2", "a conversion")
    ada.slurm.to_future("shared-2")
    job = ada.slurm.submit(JobRequest("#!/bin/sh\n", name="sim")).job_id
    ada.kubernetes.add_pod("web-0", owner="ReplicaSet/web")
    ada.kubernetes.settle()
    waiting(ada)
    said = ada.runs("pool", "show")
    assert said.exit_code == 0, said.output
    for words in (
        "pool shared: 3 serve slurm (1 to 4), 1 serves kubernetes (0 to 3)",
        f"job {job}",
        "pod default/web-0 of ReplicaSet/web",
        "-> slurm waits for its work to end",
        "pod default/web-0 of ReplicaSet/web: budget web allows no eviction",
        f"until {datetime.now(UTC).astimezone():%Y-}",
        "then it is given up",
        "a deadline is near",
    ):
        assert words in said.output, f"{words} is not in\n{said.output}"
    (pool,) = json.loads(ada.runs("pool", "show", "shared", "--json").stdout)["pools"]
    machine = pool["machines"][1]
    assert (machine["node"], machine["role"], machine["kubernetes"]) == ("shared-2", "kubernetes", "ready")
    assert machine["known"] == {"slurm": "absent", "kubernetes": "ready"}
    assert pool["machines"][0]["known"] == {"slurm": "present", "kubernetes": "absent"}
    assert machine["conversion"]["phase"] == "emptying"
    assert machine["conversion"]["deadline"]


def test_a_side_that_does_not_answer_is_said_and_nothing_is_made_up(ada: PoolPerson) -> None:
    ada.kubernetes.api = "down"
    said = ada.runs("pool", "show")
    assert said.exit_code == errors.NOT_THERE
    assert "no machine moves" in said.output
    assert "Kubernetes: not known" in said.output
    machines = json.loads(ada.runs("pool", "show", "--json").stdout)["pools"][0]["machines"]
    assert {machine["known"]["kubernetes"] for machine in machines} == {"unknown"}


def test_a_pool_that_is_not_there(ada: PoolPerson) -> None:
    said = ada.runs("pool", "show", "sharde")
    assert (said.exit_code, "the pools are shared" in said.output) == (errors.NOT_THERE, True)


def test_one_that_both_have_is_told_of_as_a_fault(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    assert "shared-2 is a node of Slurm's and of Kubernetes'" in ada.runs("pool", "show").output
    assert "machine shared-2 has two roles" in ada.runs("status").output


def test_one_that_its_side_has_forgotten_is_told_of_with_who_mends_it(ada: PoolPerson) -> None:
    ada.slurm.to_future("shared-1")
    told = json.loads(ada.runs("status", "--json").stdout)
    (problem,) = [each for each in told["problems"] if "shared-1" in each["what"]]
    assert problem["what"] == "machine shared-1 serves Slurm, which has no such node"
    assert "`tidepool up` does" in problem["remedy"]
    assert "shared-1 serves Slurm, which" in ada.runs("status").output


def test_status_has_the_pool_and_what_waits(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    waiting(ada)
    said = ada.runs("status")
    assert said.exit_code == 0, said.output
    assert "shared-2 waits to serve slurm" in said.output
    assert "convert shared-2 --cancel" in said.output
    told = json.loads(ada.runs("status", "--json").stdout)
    assert told["pools"][0]["count"] == {"slurm": 3, "kubernetes": 1}


def test_who_serves_kubernetes_is_no_lost_node(ada: PoolPerson, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.test_overview import machine

    machines = tuple(machine(name) for name in ("ctl", "kube", "shared-1", "shared-2"))
    monkeypatch.setattr(kernel, "list_machines", lambda _data, _stack: machines)
    ada.engine.outputs = outputs("shared-2")
    ada.slurm.drain("shared-2", "a conversion")
    ada.slurm.to_future("shared-2")
    assert "is no node of Slurm's" not in ada.runs("status").output


def test_a_machine_that_serves_kubernetes_cannot_be_drained_in_slurm_and_it_says_why(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    ada.slurm.drain("shared-2", "a conversion")
    ada.slurm.to_future("shared-2")
    for verb in ("drain", "resume"):
        said = ada.runs(verb, "shared-2")
        assert said.exit_code == errors.NOT_THERE
        assert "shared-2: it serves Kubernetes now" in said.output
        assert "convert shared-2 --to slurm" in said.output
    assert ada.runs("drain", "shared-1").exit_code == 0


# The report


def test_the_report_tells_how_long_phases_took_and_writes_table_and_plots(
    ada: PoolPerson, tmp_path: Path
) -> None:
    assert ada.runs("pool", "report").exit_code == 0
    for to in ("kubernetes", "slurm"):
        assert ada.runs("convert", "shared-[2-3]", "--to", to).exit_code == 0
        ada.engine.outputs = outputs("shared-2,shared-3")
    csv, svg, png = (tmp_path / f"report.{kind}" for kind in ("csv", "svg", "png"))
    said = ada.runs("pool", "report", "--csv", str(csv), "--svg", str(svg), "--png", str(png))
    assert said.exit_code == 0, said.output
    assert "Kubernetes to Slurm" in said.output
    assert "183.91 s" in said.output
    assert len(csv.read_text().splitlines()) == 5
    assert svg.read_text().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")
    told = json.loads(ada.runs("pool", "report", "--json").stdout)
    assert {(each["direction"], each["count"]) for each in told if each["phase"] == "total"} == {
        ("slurm -> kubernetes", 2),
        ("kubernetes -> slurm", 2),
    }


def test_a_report_that_cannot_be_written_is_told(ada: PoolPerson, tmp_path: Path) -> None:
    ada.runs("convert", "shared-2", "--to", "kubernetes")
    said = ada.runs("pool", "report", "--svg", str(tmp_path / "no" / "where.svg"))
    assert (said.exit_code, "Traceback" in said.output) == (errors.FAILED, False)
    assert "where.svg" in said.output


# Down


def test_down_is_refused_with_the_names_of_pods_that_nobody_would_make_again(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    ada.kubernetes.add_pod("alone")
    ada.kubernetes.add_pod("web-0", owner="ReplicaSet/web")
    ada.kubernetes.settle()
    said = ada.runs("down", "--yes")
    assert said.exit_code == errors.JOBS, said.output
    assert "default/alone" in said.output
    assert "web-0" not in said.output
    assert ada.engine.ran == []
    said = ada.runs("down", "--yes", "--force")
    assert said.exit_code == 0, said.output
    assert "default/alone" in [name for _, name in ada.kubernetes.log] + [
        name for name, _ in ada.kubernetes.log
    ]
    assert any(told.pod == "default/alone" for told in ada.kubernetes.told)
    assert ada.engine.ran[-1][0] == "destroy"


def test_with_a_kubernetes_of_its_own_all_pods_would_be_lost(
    ada: PoolPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.cli.test_overview import machine

    monkeypatch.setattr(kernel, "list_machines", lambda _data, _stack: (machine("kube"),))
    ada.serving("shared-2")
    ada.kubernetes.add_pod("web-0", owner="ReplicaSet/web")
    ada.kubernetes.add_pod("log-0", owner="DaemonSet/log")
    ada.kubernetes.settle()
    said = ada.runs("down", "--yes")
    assert said.exit_code == errors.JOBS, said.output
    assert "default/web-0" in said.output
    assert "log-0" not in said.output


def test_down_asks_kubernetes_and_takes_no_answer_for_no_pods(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    ada.kubernetes.api = "down"
    said = ada.runs("down", "--yes")
    assert said.exit_code == errors.NOT_THERE
    assert ada.engine.ran == []
    said = ada.runs("down", "--yes", "--force")
    assert said.exit_code == 0, said.output


def test_down_waits_for_no_conversion_and_takes_no_machine_from_under_one(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    order = Order("shared-2", "shared", "slurm", datetime.now(UTC), "person", "a deadline is near")
    made = ada.journal.order(order, "kubernetes")
    driver = new_driver()
    assert ada.journal.take_over(made.id, driver, datetime.now(UTC), 60)
    ada.engine._enter(ada.journal.conversion(made.id), "emptying")
    said = ada.runs("down", "--yes")
    assert said.exit_code == errors.JOBS, said.output
    assert "shared-2 to slurm" in said.output
    assert "convert shared-2 --cancel" in said.output
    assert ada.engine.ran == []

    def goes_back() -> None:
        while not ada.journal.conversion(made.id).cancel_by:
            time.sleep(0.01)
        ada.engine._enter(ada.journal.conversion(made.id), "stopped")

    thread = threading.Thread(target=goes_back)
    thread.start()
    said = ada.runs("down", "--yes", "--force")
    assert said.exit_code == 0, said.output
    thread.join()
    assert ada.engine.ran[-1][0] == "destroy"


# The spec


def test_a_pool_that_goes_with_its_jobs_or_pods_is_refused(
    ada: PoolPerson, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(stack_spec, "preflight", lambda _data, _plans: ())
    ada.serving("shared-2")
    ada.kubernetes.add_pod("alone")
    ada.kubernetes.settle()
    ada.write()
    said = ada.runs("up", "--yes")
    assert said.exit_code == errors.JOBS, said.output
    assert "default/alone" in said.output
    job = ada.slurm.submit(JobRequest("#!/bin/sh\n")).job_id
    said = ada.runs("up", "--yes")
    assert said.exit_code == errors.JOBS
    assert f"pool shared is not in the spec any more, and has the jobs {job}" in said.output
    assert not any(words[0] == "up" for words in ada.engine.ran)


def test_a_kubeconfigs_cluster_is_looked_at_before_anything_changes(
    ada: PoolPerson, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:

    monkeypatch.setattr(stack_spec, "preflight", lambda _data, _plans: ())
    monkeypatch.setattr(stack_spec, "toolchain_lack", lambda _spec, _env: ())
    kubernetes = ada.kubernetes

    def runs(*words: str) -> Result:
        return ada.runs(*words, open_kubernetes=lambda _connection, _data: kubernetes)

    ada.engine.outputs = None
    ada.write(pools=[{"name": "shared", "subnet": "10.99.2.0/24", "machines": 4, "shape": {"cpus": 1, "memory": "64MiB"}}],
              kubernetes={"kubeconfig": str(tmp_path / "config")})  # fmt: skip
    kubernetes.add_node("shared-4")
    kubernetes.api = "down"
    for verb in (("up", "--yes"), ("preview",)):
        said = runs(*verb)
        assert said.exit_code == errors.NOT_THERE, said.output
        assert "no machine moves" in said.output
    kubernetes.api = "up"
    said = runs("preview")
    assert said.exit_code == errors.USAGE
    assert "a Node shared-4 already" in said.output
    assert ada.engine.ran == []
