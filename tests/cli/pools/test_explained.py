"""What `watch` and `why` say of pools, machines and pods: worked out of records, by plain calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.explain.records import NOW, ago, intent, record, spec
from tests.cluster.specs import spec_mapping
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.cli.explain.lines import UNICODE, Line, deadline, holds, phases, what_comes
from tidepool.cli.explain.record import Record
from tidepool.cli.explain.watch import frame
from tidepool.cli.explain.watch_view import watching
from tidepool.cli.explain.why_pool import (
    in_the_way,
    in_the_way_lines,
    machine_lines,
    pod_lines,
    why_machine,
    why_pod,
)
from tidepool.cli.pools.converting import Progress
from tidepool.cli.pools.view import Known
from tidepool.cli.pools.view import MachineView as PoolMachine
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.cluster.spec import ClusterSpec
from tidepool.conversion.record import Conversion, Order, Work
from tidepool.scaling.cluster_state import PoolsState
from tidepool.scaling.decision import Convert, MachineView, WaitingPod
from tidepool.scaling.memory import Backoff, Memory, PoolMemory

POD = Work("pod", "default/web-0", "ReplicaSet/web", "runs", "budget web allows no eviction")


def text(lines: Iterable[Line]) -> str:
    return "\n".join("".join(cell.text for cell in line) for line in lines)


def conversion(**changes: Any) -> Conversion:
    """Of shared-2 to Slurm, which has waited for a minute for a pod that a budget keeps."""
    order = Order("shared-2", "shared", "slurm", ago(60), "person", "a deadline is near", deadline_s=3600)
    began = FrozenDict({"asked": ago(60), "asked/driven": ago(59), "holding": ago(59), "emptying": ago(58)})
    made = Conversion(
        7, order, "kubernetes", "emptying", began, text="waits for pod default/web-0", work=(POD,)
    )
    return replace(made, **changes)


def pooled(conversions: tuple[Conversion, ...] = (), **changes: Any) -> Record:
    """A record of a pool of four, two of which serve each side; ``changes`` are of the decision."""
    pool = {
        "name": "shared",
        "subnet": "10.77.200.0/24",
        "machines": 4,
        "shape": {"cpus": 2, "memory": "1GiB"},
    }
    of = ClusterSpec.model_validate({**spec_mapping(), "pools": [pool], "kubernetes": {}})
    made = record(of=of)
    assert made.look is not None
    assert made.look.state is not None
    machines = {
        "shared-1": MachineView("shared", "kubernetes", "busy", "it has pods: default/a", since=ago(600)),
        "shared-2": MachineView("shared", "kubernetes", "moving", "it is on its way to Slurm", "slurm"),
        "shared-3": MachineView("shared", "slurm", "idle", "no job wants it", since=ago(30)),
        "shared-4": MachineView("shared", "slurm", "idle", "it stays 60 s at least", since=ago(30)),
    }
    decision = replace(made.look.decision, machines=machines, **changes)
    context = replace(made.look.state, pools=PoolsState(conversions=conversions))
    return replace(made, look=replace(made.look, decision=decision, state=context))


def test_the_pool_is_in_the_frame_with_what_is_on_its_way_and_what_holds_it() -> None:
    setback = Backoff("boot", 1, NOW + timedelta(minutes=5), "the kubelet did not start")
    memory = Memory(pools=PoolMemory(backoffs={"shared-4": setback}))
    waiting = {
        "default/b": WaitingPod("default/b", "coming", "shared-3 will serve Kubernetes", ("shared-3",))
    }
    view = watching(pooled((conversion(),), memory=memory, waiting_pods=waiting))
    said = text(frame(view, 200, None, UNICODE))
    for words in (
        "shared SSK>",
        "2 Slurm, 1 Kubernetes, 1 on their way of 4",
        "shared-2 -> slurm waits for its work to end",
        "pod default/web-0 of ReplicaSet/web: budget web allows no eviction",
        "until 2026-11-21 20:59:01; then it is given up",
        "shared-4: the kubelet did not start",
        "default/b: shared-3 will serve Kubernetes",
    ):
        assert words in said, f"{words} is not in\n{said}"


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("lines", [10, 24, 60])
def test_it_fits_every_terminal(columns: int, lines: int) -> None:
    drawn = frame(watching(pooled((conversion(),))), columns, lines, UNICODE)
    assert len(drawn) <= lines
    assert all(sum(len(cell.text) for cell in line) <= columns for line in drawn)


def test_a_conversion_of_the_scalers_is_an_action_with_its_reason() -> None:
    action = Convert(
        "shared", ("shared-3", "shared-4"), "kubernetes", "2 pods wait for a node", pods=("default/b",)
    )
    made = replace(
        pooled(), intents=(intent(1, action, ago(3), "done"),), open_intents=(intent(2, action, ago(1)),)
    )
    said = text(frame(watching(made), 200, None, UNICODE))
    assert "convert to kubernetes shared-[3-4]: 2 pods wait for a node" in said
    assert "2 pods wait for a node" in said.partition("under way")[2]


def test_a_stack_without_pools_is_shown_as_ever() -> None:
    view = watching(record())
    assert (view.pools, view.waiting_pods) == ((), ())
    assert "pools" not in text(frame(view, 120, None, UNICODE))
    assert spec().pools == ()


def test_why_a_machine_waits_names_the_budget_the_deadline_with_its_year_and_what_comes() -> None:
    going, past = conversion(), conversion(id=3, phase="stopped", ended=ago(100), text="cancelled by ada")
    known: dict[Role, Known] = {"slurm": "absent", "kubernetes": "present"}
    machine = PoolMachine(
        "shared-2", "kubernetes", ago(600), "no node", "ready, cordoned", (POD,), None, known
    )
    from tidepool.cli.pools.view import conversion_view

    seen = replace(machine, conversion=conversion_view(going))
    why = why_machine(pooled((going,)), "shared", seen, [going, past])
    said = text(machine_lines(why))
    for words in (
        "machine shared-2 of pool shared",
        "It serves kubernetes, since 2026-11-21 19:50:00.",
        "budget web allows no eviction",
        "until 2026-11-21 20:59:01; then it is given up",
        "moving: it is on its way to Slurm",
        "kubernetes -> slurm by person: a deadline is near  [stopped",
        "cancelled by ada",
    ):
        assert words in said, f"{words} is not in\n{said}"


def test_a_job_is_told_which_machine_waits_for_it() -> None:
    job = Work("job", "4711", "ada", "runs", "runs until 2026-11-22 14:00:00")
    going = conversion(work=(job,))
    assert in_the_way([going], "job", "4712") == ()
    assert in_the_way([replace(going, phase="done")], "job", "4711") == ()
    said = text(in_the_way_lines(in_the_way([going], "job", "4711"), NOW))
    assert "shared-2, where it runs, is to serve slurm" in said
    assert "runs until 2026-11-22 14:00:00" in said
    assert "until 2026-11-21 20:59:01" in said


def test_why_a_pod_waits_is_the_scalers_reason_and_the_schedulers() -> None:
    kubernetes = FakeKubernetes(now=lambda: NOW)
    pod = kubernetes.add_pod("b", cpu_milli=1500, memory_mib=100, node_selector=FrozenDict({"gpu": "yes"}))
    waiting = {
        "default/b": WaitingPod("default/b", "coming", "shared-3 will serve Kubernetes", ("shared-3",))
    }
    said = text(pod_lines(why_pod(pooled(waiting_pods=waiting), pod, ())))
    for words in (
        "pod default/b, which nobody would make again",
        "on no node",
        "coming: shared-3 will serve",
        "1.5 CPUs, 100 MiB, gpu=yes",
    ):
        assert words in said, f"{words} is not in\n{said}"


def test_the_deadline_counts_from_when_it_began_and_ends_with_its_waiting() -> None:
    going = conversion()
    assert deadline(going) == ago(59) + timedelta(hours=1)
    assert deadline(replace(going, phase="leaving")) is None
    assert what_comes(replace(going, phase="joining"), NOW) == ""
    forced = replace(going, order=replace(going.order, is_forced=True))
    assert deadline(forced) is None
    assert "killed" in what_comes(replace(going, order=replace(going.order, at_deadline="force")), NOW)


def test_what_it_says_itself_counts_where_no_work_holds_it() -> None:
    assert list(holds(conversion(work=(replace(POD, fate="ended"),), text="Slurm cannot be asked"))) == [
        "Slurm cannot be asked"
    ]


def test_seconds_of_phases_leave_out_the_present_one_and_marks() -> None:
    assert phases(conversion()) == {"asked": 1.0, "holding": 1.0}
    ended = conversion(phase="done", ended=NOW, began=FrozenDict({**conversion().began, "done": NOW}))
    assert phases(ended) == {"asked": 1.0, "holding": 1.0, "emptying": 58.0}


def test_progress_tells_each_change_once_and_machines_alike_together() -> None:
    progress = Progress(NOW)
    first, second = conversion(), conversion(id=8, order=replace(conversion().order, node="shared-3"))
    told = list(progress.lines([first, second], NOW + timedelta(seconds=1)))
    assert told[0] == "  1.0 s  shared-[2-3]: waits for its work to end"
    assert list(progress.lines([first, second], NOW + timedelta(seconds=2))) == []
    later = list(progress.lines([first, replace(second, phase="leaving")], NOW + timedelta(seconds=3)))
    assert later[0] == "  3.0 s  shared-3: leaves its role"
    assert datetime.now(UTC) > NOW
