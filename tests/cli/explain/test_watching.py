"""What `watch` shows: plain calls on frozen values."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import get_args

from tests.cli.explain.records import NOW, ago, intent, job, launch, nodes, record, spec
from tests.cluster.specs import spec_mapping
from tidepool.cli.explain.facts import action_view
from tidepool.cli.explain.record import Record
from tidepool.cli.explain.watch_view import watching
from tidepool.cli.show import document
from tidepool.clients.slurm import JobState
from tidepool.infrastructures import MachineKey
from tidepool.scaling.decision import Action, Convert, Cost, DeleteOrphan, Drain, Phase, Remove, Waiting
from tidepool.scaling.memory import Backoff, Drained, Launch, Memory
from tidepool.scaling.ports import Sample


def test_where_nobody_looked_there_is_nothing_to_show() -> None:
    view = watching(Record("dev", NOW))
    assert (view.queue, view.cost, view.fleets, view.waiting, view.decisions) == (None, None, (), (), ())
    assert view.health.state == "never"


def test_the_queue_counts_tasks_by_standing() -> None:
    view = watching(
        record(
            jobs=(
                job(1, array_tasks="0-9"),
                job(2),
                job(3),
                job(4, JobState.RUNNING),
                job(5, JobState.COMPLETING),
            ),
            waiting=(Waiting(1, "coming", "a"), Waiting(2, "never", "b"), Waiting(3, "coming", "c")),
        )
    )
    assert view.queue is not None
    assert dict(view.queue.waiting) == {"coming": 11, "never": 1}
    assert (view.queue.waits, view.queue.running) == (12, 2)


def test_of_a_large_world_what_runs_is_the_newest_samples() -> None:
    at = ago(1)
    view = watching(record(is_large=True, waiting=(Waiting(1, "room", "a"),), sample=Sample(at, 9, 7, {})))
    assert view.queue is not None
    assert (view.queue.waits, view.queue.running) == (1, 7)
    unknown = watching(record(is_large=True)).queue
    assert unknown is not None
    assert unknown.running is None


def test_jobs_that_wait_for_one_reason_are_one_line_the_most_pressing_first() -> None:
    view = watching(
        record(
            jobs=(job(1, priority=5), job(2, priority=9), job(3, priority=7), job(4, priority=99)),
            waiting=(
                Waiting(1, "coming", "nodes are being made"),
                Waiting(2, "limit", "max_nodes is 2"),
                Waiting(3, "coming", "nodes are being made"),
                Waiting(4, "held", "held by a person"),
            ),
        )
    )
    assert [(w.standing, w.jobs) for w in view.waiting] == [
        ("limit", (2,)),
        ("coming", (3, 1)),
        ("held", (4,)),
    ]
    assert view.never == ()


def test_a_job_that_can_never_run_is_named_once_with_the_limit_it_breaks() -> None:
    limit = "it asks for 512 CPUs, and no fleet's node has more than 8"
    waiting = tuple(Waiting(n, "never", limit) for n in range(1, 7))
    view = watching(record(jobs=tuple(map(job, range(1, 7))), waiting=waiting))
    (group,) = view.never
    assert group.reason == limit
    assert group.ids == "1, 2, 3 and 3 more"
    assert view.waiting == ()


def test_fleets_are_counted_by_phase() -> None:
    view = watching(
        record(
            views=nodes(
                cpu_1=Phase.BUSY, cpu_2=Phase.BUSY, cpu_3=Phase.IDLE, cpu_4=Phase.ABSENT, old_1=Phase.LEAVING
            ),
            wish={"cpu": "cpu-[1-3]"},
        )
    )
    cpu, gpu, old = view.fleets
    assert (cpu.name, dict(cpu.phases), cpu.there) == ("cpu", {Phase.BUSY: 2, Phase.IDLE: 1}, 3)
    assert (cpu.wish, cpu.max_nodes) == (3, 16)
    assert (gpu.name, gpu.there, gpu.max_nodes) == ("gpu", 0, 300)
    # A fleet that is in the file no more.
    assert (old.name, dict(old.phases), old.max_nodes) == ("old", {Phase.LEAVING: 1}, 0)


def test_a_price_of_zero_is_no_price() -> None:
    free = watching(record()).cost
    assert free is not None
    assert not free.is_priced
    mapping = spec_mapping(limits={"budget_usd_per_month": 500})
    mapping["fleets"][0]["infrastructures"] = [{"name": "local", "price_usd_per_hour": 0.25}]
    view = watching(
        record(
            of=spec(**mapping),
            views=nodes(cpu_1=Phase.BUSY, cpu_2=Phase.LAUNCHING),
            cost=Cost(0.5, 310.2, 480),
        )
    )
    assert view.cost is not None
    assert (view.cost.is_priced, view.cost.unpriced, view.cost.budget_usd) == (True, ("gpu",), 500)
    assert [fleet.usd_per_hour for fleet in view.fleets] == [0.5, None]


def test_a_fleet_that_backs_off_and_nodes_in_quarantine() -> None:
    until = NOW + timedelta(seconds=30)
    back = Backoff("capacity", 2, until, "sold out")
    over = Backoff("boot", 1, ago(1), "long ago")
    memory = Memory(
        fleet_backoffs={"cpu": back},
        node_backoffs={"gpu-4": Backoff("boot", 1, until, "dead"), "gpu-5": over},
    )
    cpu, gpu = watching(record(memory=memory)).fleets
    assert cpu.trouble == "backs off (capacity): sold out"
    assert gpu.trouble == "quarantined: gpu-4"


def test_what_is_under_way_with_age_and_deadline() -> None:
    began, deadline = ago(12), NOW + timedelta(seconds=48)
    view = watching(
        record(
            views=nodes(cpu_1=Phase.LAUNCHING, cpu_2=Phase.LAUNCHING, cpu_3=Phase.DRAINING, cpu_4=Phase.IDLE),
            memory=Memory(
                launches={name: Launch(began, deadline, (41,)) for name in ("cpu-1", "cpu-2")},
                # Of cpu-4 it is remembered, and is over.
                drains={name: Drained(ago(4), "tidepool: idle for 5 min") for name in ("cpu-3", "cpu-4")},
            ),
            open_intents=(
                intent(8, launch("cpu-1", "cpu-2"), began),
                intent(9, Remove("cpu", ("cpu-7", "cpu-8"), "idle"), ago(2)),
            ),
        )
    )
    assert [(u.what, u.nodes, u.number, u.since, u.deadline, u.why) for u in view.under_way] == [
        ("launch", "cpu-[1-2]", 2, began, deadline, "for job 41"),
        ("draining", "cpu-3", 1, ago(4), None, "idle for 5 min"),
        ("remove", "cpu-[7-8]", 2, ago(2), None, "idle"),
    ]


def test_the_last_decisions_are_told_with_what_came_of_them() -> None:
    view = watching(
        record(
            intents=(
                intent(
                    3, Drain("cpu", ("cpu-1",), "idle for 5 min"), ago(5), "failed", text="slurmctld is down"
                ),
                intent(2, launch("gpu-1"), ago(9), "done"),
            )
        )
    )
    assert [(d.at, [(a.what, a.nodes, a.result, a.text) for a in d.actions]) for d in view.decisions] == [
        (ago(5), [("drain", "cpu-1", "failed", "slurmctld is down")]),
        (ago(9), [("launch", "gpu-1", "done", "")]),
    ]


def test_the_document_is_json_with_times_and_hostlists_as_text() -> None:
    view = watching(
        record(
            views=nodes(cpu_1=Phase.BUSY),
            wish={"cpu": "cpu-1"},
            intents=(intent(1, launch("cpu-1"), ago(1)),),
        )
    )
    told = json.loads(json.dumps(document(view)))
    assert told["now"] == "2026-11-21T20:00:00.000Z"
    assert told["health"]["state"] == "runs"
    assert told["fleets"][0]["phases"] == {"busy": 1}
    assert told["fleets"][0]["maxNodes"] == 16
    assert told["decisions"][0]["actions"][0]["nodes"] == "cpu-1"


def test_every_action_has_its_word() -> None:
    for kind in get_args(Action):
        if kind is DeleteOrphan:
            action: Action = DeleteOrphan(MachineKey("physics", "cpu-9"), "no record knows it")
        elif kind is Convert:
            action = Convert("shared", ("shared-1",), "kubernetes", "pods wait")
        else:
            action = kind("cpu", ("cpu-1",), "why")
        assert action_view(action).what
    assert (
        action_view(Convert("shared", ("shared-1",), "slurm", "job 4 needs it", (4,))).what
        == "convert to slurm"
    )
