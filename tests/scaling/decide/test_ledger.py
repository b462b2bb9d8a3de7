"""The ledger: its table, gone through completely; and how what is seen becomes a combination of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.scaling.decide.cluster_states import (
    AT,
    cluster_state,
    machine,
    node,
    reservation,
    running,
    seconds,
    spec,
    unseen,
)
from tidepool.clients.slurm import NodeFlag
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.decide.observed import seen
from tidepool.scaling.decide.reconcile import ledger
from tidepool.scaling.decide.reconcile_page import ledger_page
from tidepool.scaling.decide.reconcile_table import ROWS, row
from tidepool.scaling.decide.reconcile_words import Cell, Order, Power, Record, Seen, Todo
from tidepool.scaling.memory import Backoff, Drained, Launch, Memory
from tidepool.scaling.phase import Phase

PAGE = Path(__file__).parents[3] / "docs/ledger.md"
CELLS = [Cell(*each) for each in product(Seen, (True, False), Power, Record, (True, False), Order)]
#: What takes a machine or a record away.
TAKES = {Todo.REMOVE, Todo.REPLACE, Todo.DELETE_ORPHAN, Todo.RELEASE_SLOT}


def test_every_combination_has_one_row_and_every_row_a_combination() -> None:
    found = [next(i for i, each in enumerate(ROWS) if each.fits(cell)) for cell in CELLS]
    assert set(found) == set(range(len(ROWS)))
    assert len(CELLS) == 11 * 2 * 4 * 5 * 2 * 7


def test_what_is_unknown_takes_nothing_away() -> None:
    for cell in CELLS:
        if cell.power is Power.UNKNOWN or cell.record is Record.UNKNOWN or cell.seen is Seen.STRANGE:
            assert row(cell).todo not in TAKES, cell


def test_what_has_jobs_is_taken_only_where_its_machine_stopped() -> None:
    for cell in CELLS:
        if cell.jobs and row(cell).todo in TAKES:
            assert cell.power is Power.STOPPED, cell


def test_what_is_up_and_takes_jobs_is_never_taken_while_its_machine_may_run() -> None:
    for cell in CELLS:
        if cell.seen is Seen.UP and cell.power is not Power.STOPPED:
            assert row(cell).todo not in TAKES, cell


def test_what_is_somebodys_is_not_touched() -> None:
    for cell in CELLS:
        if cell.seen is Seen.THEIRS:
            assert row(cell).phase is Phase.HELD
            assert row(cell).todo in (Todo.NOTHING, Todo.ADOPT)


def test_nothing_is_asked_for_while_an_up_is_at_work_on_it() -> None:
    for cell in CELLS:
        if cell.order is Order.UNDER_WAY:
            assert row(cell).todo not in TAKES | {Todo.REPAIR, Todo.MAKE, Todo.LEAVE}, cell


def test_what_is_wished_and_not_there_does_not_stay_so() -> None:
    """Where all can be seen, and nothing is asked for, something is done about it."""
    for cell in CELLS:
        known = cell.power is not Power.UNKNOWN and cell.record is not Record.UNKNOWN
        idle = cell.order in (Order.NONE, Order.LATE_LAUNCH, Order.LATE_UP, Order.FAILED)
        if cell.desired and known and idle and not cell.jobs and cell.seen in (Seen.SLOT, Seen.UNLISTED):
            assert row(cell).todo in {Todo.MAKE, Todo.REPLACE, Todo.REMOVE, Todo.DROP}, cell


def test_a_machine_that_no_record_knows_is_swept_or_waited_for() -> None:
    for cell in CELLS:
        stray = (
            cell.record is Record.NONE and not cell.desired and cell.power in (Power.RUNNING, Power.STOPPED)
        )
        if stray and cell.seen not in (Seen.THEIRS, Seen.STRANGE):
            assert row(cell).todo in {Todo.DELETE_ORPHAN, Todo.WAIT, Todo.DRAIN}, cell


def test_the_page_is_what_the_table_says() -> None:
    command = "python -c 'from tidepool.scaling.decide.reconcile_page import ledger_page; print(ledger_page(), end=\"\")'"
    assert PAGE.read_text() == ledger_page(), f"write it anew: {command} >docs/ledger.md"


@pytest.mark.parametrize(
    ("state", "reason", "user", "word"),
    [
        ("IDLE", "", "", Seen.UP),
        ("IDLE+DYNAMIC_NORM+PLANNED", "", "", Seen.UP),
        ("MIXED+COMPLETING", "", "", Seen.UP),
        ("FUTURE", "", "", Seen.SLOT),
        ("FUTURE+DRAIN", "broken fan", "ada", Seen.SLOT),
        ("IDLE+DRAIN", "tidepool: idle for 300 s", "root", Seen.OURS),
        ("ALLOCATED+DRAIN", "tidepool: idle for 300 s", "root", Seen.OURS),
        ("IDLE+DRAIN", "broken fan", "root", Seen.THEIRS),
        ("IDLE+DRAIN", "", "", Seen.THEIRS),
        ("DOWN+DRAIN", "broken fan", "ada", Seen.THEIRS),
        ("IDLE+MAINTENANCE", "", "", Seen.THEIRS),
        ("IDLE+FAIL", "", "", Seen.THEIRS),
        ("IDLE+REBOOT_REQUESTED", "", "", Seen.THEIRS),
        ("DOWN+REBOOT_ISSUED", "Not responding", "slurm", Seen.THEIRS),
        ("IDLE+RESERVED", "", "", Seen.THEIRS),
        ("DOWN", "", "", Seen.DOWN),
        ("DOWN+NOT_RESPONDING", "Not responding", "slurm", Seen.DOWN),
        ("DOWN", "Node unexpectedly rebooted", "root", Seen.DOWN),
        ("DOWN", "tidepool: its machine booted again", "root", Seen.DOWN),
        ("DOWN", "smells of smoke", "root", Seen.THEIRS),
        ("DOWN", "something of a new release", "slurm", Seen.DOWN),
        ("DOWN+DRAIN", "tidepool: idle for 300 s", "root", Seen.DOWN),
        ("IDLE+NOT_RESPONDING", "", "", Seen.SILENT),
        ("ALLOCATED+NOT_RESPONDING", "", "", Seen.SILENT),
        ("IDLE+DRAIN+NOT_RESPONDING", "tidepool: idle for 300 s", "root", Seen.SILENT),
        ("IDLE+DRAIN", "Low RealMemory (reported:10 < 100.00% of configured:4000)", "slurm", Seen.UNFIT),
        (
            "IDLE+DRAIN+INVALID_REG",
            "gres/gpu count reported lower than configured (0 < 2)",
            "root",
            Seen.UNFIT,
        ),
        # slurmctld was killed before it had saved a job, and gave its number to another.
        ("IDLE+DRAIN", "Duplicate jobid", "root", Seen.UNFIT),
        ("IDLE+DRAIN", "Kill task failed", "slurm", Seen.UNFIT),
        ("IDLE+DRAIN", "Kill task failed, I look into it", "ada", Seen.THEIRS),
        # AWS takes a spot machine back: it drained itself, and after two minutes it is gone.
        ("MIXED+DRAIN", "spot: AWS takes it back at 2026-01-02T03:04:05Z", "root", Seen.UNFIT),
        ("DOWN+DRAIN+NOT_RESPONDING", "spot: AWS takes it back at 2026-01-02T03:04:05Z", "root", Seen.UNFIT),
        ("IDLE+DRAIN", "spot: a stain on the case", "ada", Seen.THEIRS),
        ("IDLE+CLOUD+POWERED_DOWN", "", "", Seen.OFF),
        ("IDLE+CLOUD+POWERING_DOWN", "", "", Seen.OFF),
        ("MIXED+CLOUD+POWERING_UP", "", "", Seen.BOOTING),
        ("UNKNOWN", "", "", Seen.STRANGE),
        ("ERROR", "", "", Seen.STRANGE),
        ("IDLE+A_WORD_OF_A_NEW_RELEASE", "", "", Seen.STRANGE),
    ],
)
def test_how_slurm_has_a_node(state: str, reason: str, user: str, word: Seen) -> None:
    assert seen(node("cpu-1", state, reason, user)) is word


def test_a_node_that_is_not_listed() -> None:
    assert seen(None) is Seen.UNLISTED


def test_every_flag_alone_leaves_a_node_in_some_row() -> None:
    words = {seen(node("cpu-1", f"IDLE+{flag}")) for flag in NodeFlag}
    assert words == {Seen.UP, Seen.THEIRS, Seen.SILENT, Seen.OFF, Seen.BOOTING, Seen.UNFIT}


def test_slots_are_left_out() -> None:
    book = ledger(cluster_state(node("cpu-3")), Memory())
    assert [(entry.name, entry.phase) for entry in book.entries.values()] == [("cpu-3", Phase.IDLE)]


def test_a_state_of_allocated_can_lie_and_processors_do_not() -> None:
    """22.05 says ALLOCATED after a reconfigure where nothing runs."""
    lies = node("cpu-1", "ALLOCATED", cpus_alloc=0)
    works = node("cpu-2", "IDLE+COMPLETING", cpus_alloc=0)
    book = ledger(cluster_state(lies, works), Memory())
    assert book.entries["cpu-1"].phase is Phase.IDLE
    assert book.entries["cpu-2"].phase is Phase.BUSY


def test_a_job_that_slurm_lists_there_counts_whatever_the_node_says() -> None:
    book = ledger(cluster_state(node("cpu-1"), jobs=(running(7, "cpu-[1-2]"),)), Memory())
    assert book.entries["cpu-1"].phase is Phase.BUSY
    assert [job.job_id for job in book.running["cpu-2"]] == [7]


def test_a_fleet_of_which_slurm_lists_nothing_is_left_alone() -> None:
    made = cluster_state(node("cpu-1"))
    book = ledger(replace(made, nodes=()), Memory())
    assert book.blind == {"cpu"}
    assert book.entries["cpu-1"].todo is Todo.NOTHING
    assert "Slurm lists no node" in book.entries["cpu-1"].why


def test_nodes_of_others_are_none_of_ours() -> None:
    guest = node("guest-1")
    book = ledger(replace(cluster_state(), nodes=(*cluster_state().nodes, guest)), Memory())
    assert book.entries == {}


def test_reserved_nodes_are_somebodys_and_soon_to_be_reserved_ones_too() -> None:
    made = cluster_state(
        node("cpu-1"),
        node("cpu-2"),
        node("cpu-3"),
        reservations=(
            reservation("now", "cpu-1", -60),
            reservation("soon", "cpu-2", 30),
            reservation("later", "cpu-3", 3600),
            reservation("over", "cpu-3", -7200),
        ),
    )
    entries = ledger(made, Memory()).entries
    assert [entries[f"cpu-{n}"].phase for n in (1, 2, 3)] == [Phase.HELD, Phase.HELD, Phase.IDLE]
    assert "reserved: soon, which begins at 12:00:30 UTC" in entries["cpu-2"].why


def test_what_was_asked_for_has_its_time() -> None:
    made = cluster_state(
        node("cpu-1", "FUTURE"), desired={"cpu": cluster_state(node("cpu-1")).desired["cpu"]}, recorded={}
    )
    launch = Launch(AT - seconds(59), AT + seconds(1))
    entry = ledger(made, Memory(launches={"cpu-1": launch})).entries["cpu-1"]
    assert (entry.phase, entry.order) == (Phase.LAUNCHING, Order.LAUNCH)
    late = Launch(AT - seconds(60), AT)
    assert ledger(made, Memory(launches={"cpu-1": late})).entries["cpu-1"].order is Order.LATE_LAUNCH
    failed = Backoff("boot", 1, AT + seconds(1), "no luck")
    entry = ledger(made, Memory(node_backoffs={"cpu-1": failed})).entries["cpu-1"]
    assert (entry.order, entry.why) == (Order.FAILED, "it could not be made: no luck")
    busy = replace(made, under_way=frozenset({"cpu-1"}))
    assert ledger(busy, Memory(launches={"cpu-1": late})).entries["cpu-1"].order is Order.UNDER_WAY


def test_a_drain_that_does_not_show_yet_is_not_given_again() -> None:
    drain = Drained(AT - seconds(1), "tidepool: idle for 300 s")
    assert (
        ledger(cluster_state(node("cpu-1")), Memory(drains={"cpu-1": drain})).entries["cpu-1"].phase
        is Phase.DRAINING
    )
    old = Drained(AT - seconds(60), "tidepool: idle for 300 s")
    assert (
        ledger(cluster_state(node("cpu-1")), Memory(drains={"cpu-1": old})).entries["cpu-1"].phase
        is Phase.IDLE
    )


def test_an_undrain_that_does_not_show_yet_holds() -> None:
    drained = node("cpu-1", "IDLE+DRAIN", "tidepool: idle for 300 s")
    entry = ledger(cluster_state(drained), Memory(undrained={"cpu-1": AT - seconds(1)})).entries["cpu-1"]
    assert (entry.phase, entry.todo) == (Phase.IDLE, Todo.KEEP)


def test_of_several_machines_of_a_name_those_that_are_not_recorded_are_strays() -> None:
    back = machine("cpu-1", number=1)
    known = {"cpu-1": Recorded(machine=True, membership=True, machine_id="m-2")}
    made = cluster_state(node("cpu-1"), machines=(machine("cpu-1", number=2), back), recorded=known)
    book = ledger(made, Memory())
    assert book.strays == (back,)
    assert book.entries["cpu-1"].phase is Phase.IDLE
    assert ledger(unseen(made, "recorded"), Memory()).strays == ()
    assert ledger(replace(made, jobs=(running(1, "cpu-1"),)), Memory()).strays == ()
    unknown = {"cpu-1": Recorded(machine=True, membership=True)}
    assert ledger(replace(made, recorded=unknown), Memory()).strays == (), "nobody knows which it is"
    unlisted = {"cpu-1": Recorded(machine=True, membership=True, machine_id="m-3")}
    assert ledger(replace(made, recorded=unlisted), Memory()).strays == (), "not seen is not gone"


def test_names_that_are_no_slots_are_passed_over() -> None:
    made = cluster_state(
        of=spec(), machines=(machine("ctl"), machine("cpu-99999999999")), recorded={"x": Recorded(True)}
    )
    assert ledger(made, Memory()).entries == {}
