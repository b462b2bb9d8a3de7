"""Why a job waits, a node is where it is, a fleet has what it has: plain calls, read as text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cli.explain.records import NOW, ago, intent, job, launch, node, nodes, record, spec
from tests.cluster.specs import spec_mapping
from tidepool.cli.explain.lines import Line
from tidepool.cli.explain.record import Record
from tidepool.cli.explain.watch_view import watching
from tidepool.cli.explain.why_job import Fit, asks, find_job, job_lines, why_job
from tidepool.cli.explain.why_node import fleet_lines, node_lines, why_fleet, why_node
from tidepool.cli.show import document
from tidepool.clients.slurm import JobState
from tidepool.clients.slurm.scontrol import Reason
from tidepool.infrastructures import Machine, MachineKey
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.decision import Drain, Phase, Remove, Undrain, Waiting
from tidepool.scaling.memory import Backoff, Drained, Launch, Memory
from tidepool.scaling.ports import JobRecord


def said(lines: Any) -> str:
    read: list[Line] = list(lines)
    return "\n".join(" ".join("".join(cell.text for cell in line).split()) for line in read)


# Jobs


def test_a_job_for_which_nodes_are_made() -> None:
    waiting = Waiting(41, "coming", "cpu-[1-2] are being made for it", ("cpu-1", "cpu-2"))
    began, deadline = ago(4), NOW + timedelta(seconds=56)
    seen = record(
        jobs=(job(41, submit_time=ago(5)),),
        waiting=(waiting,),
        views=nodes(cpu_1=Phase.LAUNCHING, cpu_2=Phase.LAUNCHING),
        memory=Memory(launches={name: Launch(began, deadline, (41,)) for name in ("cpu-1", "cpu-2")}),
    )
    mine, other = intent(7, launch("cpu-1", "cpu-2", jobs=(41,)), began), intent(8, launch("gpu-1"), began)
    why = why_job(
        seen,
        job(41, submit_time=ago(5)),
        None,
        (other, mine),
        [Fit("cpu", True, ""), Fit("gpu", False, "not in main")],
    )
    told = said(job_lines(why))
    for words in (
        "job 41 (sim) of ada",
        "It waits, for 5.0 s: nodes are coming for it.",
        "cpu-[1-2] are being made for it",
        "Slurm says Resources",
        "launching for 4.0 s, up within 56 s or replaced",
        "cpu fits",
        "gpu does not fit: not in main",
        "launch cpu-[1-2]: 2 jobs wait for 4 CPUs [under way for 4.0 s]",
        "as the daemon saw it 0.5 s ago",
    ):
        assert words in told, (words, told)
    assert "gpu-1" not in told
    assert json.loads(json.dumps(document(why)))["coming"] == [
        {
            "nodes": "cpu-[1-2]",
            "phase": "launching",
            "since": "2026-11-21T19:59:56.000Z",
            "deadline": "2026-11-21T20:00:56.000Z",
        }
    ]


def test_a_job_that_runs_tells_how_long_it_waited_and_on_what() -> None:
    runs = job(41, JobState.RUNNING, nodelist="cpu-1", submit_time=ago(60), start_time=ago(57), reason="None")
    made = intent(7, launch("cpu-1", jobs=(41,)), ago(59.5), "done", took_s=2.1)
    why = why_job(record(jobs=(runs,)), runs, None, (made,), [])
    told = said(job_lines(why))
    assert "It is RUNNING on cpu-1, since 57 s ago." in told
    assert (why.times.submitted, why.times.launched, why.times.up, why.times.started) == (
        ago(60),
        ago(59.5),
        ago(57.4),
        ago(57),
    )
    assert "nodes launched 19:59:00, 0.5 s later" in told
    assert "nodes up 19:59:02, 2.1 s later" in told
    assert "waited 3.0 s" in told
    assert "Slurm says" not in told


def test_a_job_that_found_room_needed_no_launch() -> None:
    runs = job(41, JobState.RUNNING, nodelist="cpu-1", submit_time=ago(60), start_time=ago(59))
    assert "no node had to be made" in said(job_lines(why_job(record(), runs, None, (), [])))


def test_a_launch_in_the_second_in_which_it_began_is_what_it_waited_for() -> None:
    """Slurm says 19:59:03 of all that second."""
    runs = job(41, JobState.RUNNING, nodelist="cpu-1", submit_time=ago(60), start_time=ago(57))
    made = intent(7, launch("cpu-1", jobs=(41,)), ago(56.7), "done", took_s=0.4)
    times = why_job(record(), runs, None, (made,), []).times
    assert (times.launched, times.up) == (ago(56.7), ago(56.3))


def test_launches_after_it_began_are_not_what_it_waited_for() -> None:
    runs = job(41, JobState.RUNNING, nodelist="cpu-1", submit_time=ago(60), start_time=ago(57))
    after = intent(7, launch("cpu-2", jobs=(41,)), ago(10), "done")
    assert why_job(record(), runs, None, (after,), []).times.launched is None


def test_a_job_that_can_never_run() -> None:
    limit = "it asks for 512 CPUs, and no node has more than 8"
    seen = record(waiting=(Waiting(41, "never", limit),))
    told = said(job_lines(why_job(seen, job(41), None, (), [])))
    assert "it can never run" in told
    assert limit in told


def test_a_job_that_nobody_has_decided_about() -> None:
    told = said(job_lines(why_job(Record("dev", NOW), job(41), None, (), [])))
    assert "nobody has decided about it yet" in told
    assert "no daemon has run" in told


def test_a_job_that_slurm_has_forgotten_is_told_of_by_the_journal() -> None:
    seen = JobRecord(41, ago(60), ago(57), ago(20), {"name": "sim", "user": "ada"})
    why = why_job(record(), None, seen, (), [])
    told = said(job_lines(why))
    assert "job 41 (sim) of ada" in told
    assert "It ended 20 s ago." in told
    assert "waited" in told


def test_a_job_that_was_killed_for_memory_is_told_so_with_the_remedy() -> None:
    ended = job(41, JobState.OUT_OF_MEMORY, nodelist="cpu-1", min_memory_mib=80, end_time=ago(20))
    why = why_job(record(), ended, None, (), [], peak_mib=68)
    told = said(job_lines(why))
    assert "It ended 20 s ago: OUT_OF_MEMORY." in told
    assert "it took more memory than the 80 MiB on each node that it asked for" in told
    assert "68 MiB when it was last looked at (MaxRSS)" in told
    assert "sbatch --mem=160M" in told
    told = document(why)["killed"]
    assert (told["askedMib"], told["peakMib"]) == (80, 68)


def test_what_to_do_about_memory_is_what_the_cluster_can() -> None:
    def told(asked_mib: int, **more: Any) -> str:
        of = spec(**more)
        seen = record()
        assert seen.look is not None
        ended = job(41, JobState.OUT_OF_MEMORY, nodelist="cpu-1", min_memory_mib=asked_mib, end_time=ago(20))
        return said(job_lines(why_job(replace(seen, look=replace(seen.look, spec=of)), ended, None, (), [])))

    most = max(each.shape.memory_mib for each in spec().fleets)
    assert f"sbatch --mem={most}M" in told(most - 1)
    assert "no node has more memory" in told(most)
    assert "`controller: {accounting: {}}` keeps it" in told(80)
    assert "slurmdbd has none of it" in told(80, controller={"accounting": {}})


def test_what_a_job_asks_for() -> None:
    words = asks(
        job(
            41,
            nodes=2,
            cpus=4,
            array_tasks="0-7",
            features="himem&ssd",
            tres_per_node={"gres/gpu": "2"},
            oversubscribe="NO",
            contiguous=True,
            licenses={"ansys": "1"},
            reservation="maint",
            dependency="afterok:3",
            partitions=("main", "gpu"),
            time_limit_s=120,
        )
    )
    for each in (
        "8 tasks",
        "2 nodes",
        "4 CPUs",
        "2 gpu on each node",
        "with himem&ssd",
        "nodes to itself",
        "in a row",
        "licences ansys:1",
        "in the reservation maint",
        "after afterok:3",
        "in main, gpu",
        "at most 2 min",
    ):
        assert each in words, (each, words)


def test_a_task_of_an_array_is_found_by_its_number() -> None:
    waits, runs = (
        job(50, array_job_id=50, array_tasks="4-9:2%2"),
        job(51, JobState.RUNNING, array_job_id=50, array_tasks="3"),
    )
    jobs = (runs, waits)
    assert find_job(jobs, "50") == (waits, runs)
    assert find_job(jobs, "50_3") == (runs,)
    assert find_job(jobs, "50_6") == (waits,)
    assert find_job(jobs, "50_5") == ()
    assert find_job(jobs, "51") == (runs,)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 9), st.integers(0, 120))
def test_tasks_are_found_as_slurm_writes_them(first: int, length: int, step: int, task: int) -> None:
    jobs = (job(50, array_job_id=50, array_tasks=f"{first}-{first + length}:{step}%4"),)
    assert bool(find_job(jobs, f"50_{task}")) == (task in range(first, first + length + 1, step))


# Nodes


def test_a_node_with_its_history() -> None:
    seen = record(
        slurm_nodes=(node("cpu-1", "IDLE+DRAIN", reason=Reason("tidepool: idle for 5 min", "root")),),
        views=nodes(cpu_1=Phase.DRAINED),
        wish={"cpu": "cpu-1"},
        memory=Memory(
            drains={"cpu-1": Drained(ago(2), "tidepool: idle for 5 min")}, idle_since={"cpu-1": ago(302)}
        ),
    )
    history = (
        intent(9, Drain("cpu", ("cpu-1",), "idle for 5 min"), ago(2), "done", took_s=0.1),
        intent(8, Undrain("cpu", ("cpu-1",), "job 44 wants it"), ago(400), "overtaken", text="it had gone"),
        intent(7, launch("cpu-1", jobs=(41,)), ago(600), "failed", text="no memory"),
    )
    why = why_node(seen, "cpu-1", history)
    told = said(node_lines(why))
    for words in (
        "node cpu-1 of fleet cpu",
        "It is drained: it is drained.",
        "drained by the scaler since 19:59:58, for 2.0 s",
        "since 19:54:58, for 5 min 2 s",
        "IDLE+DRAIN: tidepool: idle for 5 min, by root",
        "made for job 41",
        "[done after 0.1 s]",
        "[overtaken after 2.0 s: it had gone]",
        "[failed after 2.0 s: no memory]",
    ):
        assert words in told, (words, told)
    assert (why.machine, why.recorded, why.is_wished) == ("could not be asked for", "could not be read", True)


def test_a_node_in_quarantine_of_a_fleet_that_backs_off() -> None:
    until = NOW + timedelta(seconds=90)
    memory = Memory(
        node_backoffs={"cpu-1": Backoff("boot", 3, until, "no slurmd")},
        fleet_backoffs={"cpu": Backoff("capacity", 1, until, "sold out")},
    )
    why = why_node(record(memory=memory), "cpu-1", ())
    assert why.phase is Phase.ABSENT
    assert (
        why.quarantine
        == "left alone until 20:01:30 (for 1 min 30 s) after 3 failures in a row: it never came up: no slurmd"
    )
    assert "no such machine is to be had: sold out" in why.fleet_setback


def test_a_node_with_a_job_and_all_three_records() -> None:
    base = record(views=nodes(cpu_1=Phase.BUSY), jobs=(job(41, JobState.RUNNING, nodelist="cpu-[1-2]"),))
    assert base.look is not None
    assert base.look.state is not None
    from dataclasses import replace
    from ipaddress import IPv4Address

    context = replace(
        base.look.state,
        machines=(Machine(MachineKey("dev", "cpu-1", "m"), IPv4Address("10.0.0.1"), "running"),),
        recorded={"cpu-1": Recorded(machine=True, membership=True, pending=True)},
        nodes=(),
    )
    why = why_node(replace(base, look=replace(base.look, state=context)), "cpu-1", ())
    assert (why.jobs, why.machine, why.slurm) == ((41,), "running", "does not know it")
    assert why.recorded == "has its machine and its membership; an operation on it was cut off"


def test_without_a_look_nothing_is_claimed_of_a_node() -> None:
    why = why_node(Record("dev", NOW), "cpu-1", ())
    assert (why.phase, why.reason, why.slurm) == (Phase.UNKNOWN, "", "")


# Fleets


def test_a_fleet_with_its_floors_and_limits() -> None:
    mapping = spec_mapping(
        limits={"max_nodes": 40, "price_usd_per_hour": 9, "budget_usd_per_month": 500},
        scaling={
            "policies": [
                "queue",
                {"name": "warm", "fleet": "cpu", "nodes": 2},
                {"name": "warm", "fleet": "gpu", "nodes": 7},
                {
                    "name": "schedule",
                    "fleet": "cpu",
                    "nodes": 4,
                    "begin": "08:00",
                    "end": "18:00",
                    "days": ["mon"],
                },
                {"name": "account", "account": "astro", "max_nodes": 3},
            ]
        },
    )
    mapping["fleets"][0] |= {
        "min_nodes": 1,
        "infrastructures": [{"name": "local", "price_usd_per_hour": 0.25}],
    }
    of = spec(**mapping)
    until = NOW + timedelta(seconds=30)
    seen = record(
        of=of,
        views=nodes(cpu_1=Phase.BUSY, cpu_2=Phase.BUSY, cpu_3=Phase.LAUNCHING, gpu_1=Phase.IDLE),
        wish={"cpu": "cpu-[1-3]"},
        memory=Memory(
            fleet_backoffs={"cpu": Backoff("transient", 2, until, "time-out")},
            node_backoffs={
                "cpu-9": Backoff("boot", 1, until, "dead"),
                "cpu-8": Backoff("boot", 1, ago(1), "was dead"),
            },
        ),
    )
    removed = intent(3, Remove("cpu", ("cpu-9",), "it is dead"), ago(20), "done")
    why = why_fleet(seen, of, of.fleets[0], (removed,))
    told = said(fleet_lines(why))
    for words in (
        "The scaler wants 3 nodes: cpu-[1-3].",
        "busy cpu-[1-2]",
        "launching cpu-3",
        "left alone until 20:00:30 (for 30 s) after 2 failures in a row",
        "min_nodes is 1; 2 are kept warm; 4 will be scheduled from 08:00 to 18:00 UTC on mon",
        "max_nodes 16; all fleets together 40 nodes; all together $9.00 an hour; $500.00 a month; account astro 3 nodes",
        "$0.25 an hour each, $0.75 for the 3 nodes there",
        "remove cpu-9: it is dead",
    ):
        assert words in told, (words, told)
    assert [*why.quarantined] == ["cpu-9"]


def test_a_fleet_without_a_price_is_not_free() -> None:
    of = spec()
    told = said(fleet_lines(why_fleet(Record("dev", NOW), of, of.fleets[0], ())))
    assert "its price is not set" in told
    assert "Nobody has decided about it yet." in told
    assert "none: it may be empty" in told


def test_a_fleet_says_which_offerings_its_machines_are_and_what_each_costs() -> None:
    mapping = spec_mapping()
    mapping["offerings"] = [
        {
            "name": "here",
            "shape": mapping["fleets"][0].pop("shape"),
            "infrastructures": ["local"],
            "price_usd_per_hour": 0.1,
        },
        {"name": "spot", "extends": "here", "infrastructures": ["aws"], "price_usd_per_hour": 0.5},
    ]
    mapping["fleets"][0]["offering"] = ["here", "spot"]
    of = spec(**mapping)
    why = why_fleet(record(of=of), of, of.fleets[0], ())
    assert why.offerings == ("here", "spot")
    told = said(fleet_lines(why))
    assert "offerings here, spot" in told
    assert "$0.10 an hour on local/here; $0.50 an hour on aws/spot" in told
    assert why_fleet(record(of=of), of, of.fleets[1], ()).offerings == ()


def test_a_fleet_on_several_infrastructures_says_where_its_nodes_are_and_which_is_closed() -> None:
    mapping = spec_mapping()
    mapping["fleets"][0]["infrastructures"] = [
        {"name": "local", "max_nodes": 2},
        {"name": "aws", "offering": "spot", "price_usd_per_hour": 0.5},
    ]
    of = spec(fleets=mapping["fleets"])
    until = NOW + timedelta(seconds=30)
    seen = record(
        of=of,
        views=nodes(cpu_1=Phase.BUSY, cpu_2=Phase.LAUNCHING),
        wish={"cpu": "cpu-[1-2]"},
        memory=Memory(
            fleet_backoffs={"cpu@local": Backoff("capacity", 1, until, "sold out")},
            locations={"cpu-1": "local", "cpu-2": "aws/spot"},
        ),
    )
    told = said(fleet_lines(why_fleet(seen, of, of.fleets[0], ())))
    for words in (
        "on local cpu-1",
        "on aws/spot cpu-2",
        "local: left alone until 20:00:30 (for 30 s) after 1 failure in a row: no such machine is to be had: sold out",
        "2 of them on local",
        "$0.00 an hour on local; $0.50 an hour on aws/spot",
    ):
        assert words in told, (words, told)
    why = why_node(seen, "cpu-2", ())
    assert why.place == "aws/spot"
    assert why.fleet_setback.startswith("local: left alone")
    cpu, _ = watching(seen).fleets
    assert cpu.trouble == "local backs off (capacity): sold out"
