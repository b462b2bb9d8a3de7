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
from tests.scaling.decide.reconcile_page import reconcile_page
from tidepool.clients.slurm import NodeFlag
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.decide.node_status import (
    Cell,
    NodeAction,
    Power,
    Record,
    RequestStatus,
    SlurmStatus,
    slurm_status,
)
from tidepool.scaling.decide.reconcile import reconcile
from tidepool.scaling.decide.reconcile_table import ROWS, row
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Backoff, Drained, Launch, Memory

PAGE = Path(__file__).parents[3] / "docs/reconcile.md"
CELLS = [
    Cell(*each) for each in product(SlurmStatus, (True, False), Power, Record, (True, False), RequestStatus)
]
#: What takes a machine or a record away.
TAKES = {NodeAction.REMOVE, NodeAction.REPLACE, NodeAction.DELETE_ORPHAN, NodeAction.RELEASE_SLOT}


def test_every_combination_has_one_row_and_every_row_a_combination() -> None:
    found = [next(i for i, each in enumerate(ROWS) if each.fits(cell)) for cell in CELLS]
    assert set(found) == set(range(len(ROWS)))
    assert len(CELLS) == 11 * 2 * 4 * 5 * 2 * 7


def test_what_is_unknown_takes_nothing_away() -> None:
    for cell in CELLS:
        if cell.power is Power.UNKNOWN or cell.record is Record.UNKNOWN or cell.slurm is SlurmStatus.STRANGE:
            assert row(cell).action not in TAKES, cell


def test_what_has_jobs_is_taken_only_where_its_machine_stopped() -> None:
    for cell in CELLS:
        if cell.jobs and row(cell).action in TAKES:
            assert cell.power is Power.STOPPED, cell


def test_what_is_up_and_takes_jobs_is_never_taken_while_its_machine_may_run() -> None:
    for cell in CELLS:
        if cell.slurm is SlurmStatus.UP and cell.power is not Power.STOPPED:
            assert row(cell).action not in TAKES, cell


def test_what_is_somebodys_is_not_touched() -> None:
    for cell in CELLS:
        if cell.slurm is SlurmStatus.THEIRS:
            assert row(cell).phase is Phase.HELD
            assert row(cell).action in (NodeAction.NOTHING, NodeAction.ADOPT)


def test_nothing_is_asked_for_while_an_up_is_at_work_on_it() -> None:
    for cell in CELLS:
        if cell.request is RequestStatus.UNDER_WAY:
            assert row(cell).action not in TAKES | {NodeAction.REPAIR, NodeAction.MAKE, NodeAction.LEAVE}, (
                cell
            )


def test_what_is_wished_and_not_there_does_not_stay_so() -> None:
    """Where all can be seen, and nothing is asked for, something is done about it."""
    for cell in CELLS:
        known = cell.power is not Power.UNKNOWN and cell.record is not Record.UNKNOWN
        idle = cell.request in (
            RequestStatus.NONE,
            RequestStatus.LATE_LAUNCH,
            RequestStatus.LATE_UP,
            RequestStatus.FAILED,
        )
        if (
            cell.desired
            and known
            and idle
            and not cell.jobs
            and cell.slurm in (SlurmStatus.SLOT, SlurmStatus.UNLISTED)
        ):
            assert row(cell).action in {
                NodeAction.MAKE,
                NodeAction.REPLACE,
                NodeAction.REMOVE,
                NodeAction.DROP,
            }, cell


def test_a_machine_that_no_record_knows_is_swept_or_waited_for() -> None:
    for cell in CELLS:
        stray = (
            cell.record is Record.NONE and not cell.desired and cell.power in (Power.RUNNING, Power.STOPPED)
        )
        if stray and cell.slurm not in (SlurmStatus.THEIRS, SlurmStatus.STRANGE):
            assert row(cell).action in {NodeAction.DELETE_ORPHAN, NodeAction.WAIT, NodeAction.DRAIN}, cell


def test_the_page_is_what_the_table_says() -> None:
    command = "python -c 'from tests.scaling.decide.reconcile_page import reconcile_page; print(reconcile_page(), end=\"\")'"
    assert PAGE.read_text() == reconcile_page(), f"write it anew: {command} >docs/reconcile.md"


@pytest.mark.parametrize(
    ("state", "reason", "user", "word"),
    [
        ("IDLE", "", "", SlurmStatus.UP),
        ("IDLE+DYNAMIC_NORM+PLANNED", "", "", SlurmStatus.UP),
        ("MIXED+COMPLETING", "", "", SlurmStatus.UP),
        ("FUTURE", "", "", SlurmStatus.SLOT),
        ("FUTURE+DRAIN", "broken fan", "ada", SlurmStatus.SLOT),
        ("IDLE+DRAIN", "tidepool: idle for 300 s", "root", SlurmStatus.OURS),
        ("ALLOCATED+DRAIN", "tidepool: idle for 300 s", "root", SlurmStatus.OURS),
        ("IDLE+DRAIN", "broken fan", "root", SlurmStatus.THEIRS),
        ("IDLE+DRAIN", "", "", SlurmStatus.THEIRS),
        ("DOWN+DRAIN", "broken fan", "ada", SlurmStatus.THEIRS),
        ("IDLE+MAINTENANCE", "", "", SlurmStatus.THEIRS),
        ("IDLE+FAIL", "", "", SlurmStatus.THEIRS),
        ("IDLE+REBOOT_REQUESTED", "", "", SlurmStatus.THEIRS),
        ("DOWN+REBOOT_ISSUED", "Not responding", "slurm", SlurmStatus.THEIRS),
        ("IDLE+RESERVED", "", "", SlurmStatus.THEIRS),
        ("DOWN", "", "", SlurmStatus.DOWN),
        ("DOWN+NOT_RESPONDING", "Not responding", "slurm", SlurmStatus.DOWN),
        ("DOWN", "Node unexpectedly rebooted", "root", SlurmStatus.DOWN),
        ("DOWN", "tidepool: its machine booted again", "root", SlurmStatus.DOWN),
        ("DOWN", "smells of smoke", "root", SlurmStatus.THEIRS),
        ("DOWN", "something of a new release", "slurm", SlurmStatus.DOWN),
        ("DOWN+DRAIN", "tidepool: idle for 300 s", "root", SlurmStatus.DOWN),
        ("IDLE+NOT_RESPONDING", "", "", SlurmStatus.SILENT),
        ("ALLOCATED+NOT_RESPONDING", "", "", SlurmStatus.SILENT),
        ("IDLE+DRAIN+NOT_RESPONDING", "tidepool: idle for 300 s", "root", SlurmStatus.SILENT),
        (
            "IDLE+DRAIN",
            "Low RealMemory (reported:10 < 100.00% of configured:4000)",
            "slurm",
            SlurmStatus.UNFIT,
        ),
        (
            "IDLE+DRAIN+INVALID_REG",
            "gres/gpu count reported lower than configured (0 < 2)",
            "root",
            SlurmStatus.UNFIT,
        ),
        # slurmctld was killed before it had saved a job, and gave its number to another.
        ("IDLE+DRAIN", "Duplicate jobid", "root", SlurmStatus.UNFIT),
        ("IDLE+DRAIN", "Kill task failed", "slurm", SlurmStatus.UNFIT),
        ("IDLE+DRAIN", "Kill task failed, I look into it", "ada", SlurmStatus.THEIRS),
        # AWS takes a spot machine back: it drained itself, and after two minutes it is gone.
        ("MIXED+DRAIN", "spot: AWS takes it back at 2026-01-02T03:04:05Z", "root", SlurmStatus.UNFIT),
        (
            "DOWN+DRAIN+NOT_RESPONDING",
            "spot: AWS takes it back at 2026-01-02T03:04:05Z",
            "root",
            SlurmStatus.UNFIT,
        ),
        ("IDLE+DRAIN", "spot: a stain on the case", "ada", SlurmStatus.THEIRS),
        ("IDLE+CLOUD+POWERED_DOWN", "", "", SlurmStatus.OFF),
        ("IDLE+CLOUD+POWERING_DOWN", "", "", SlurmStatus.OFF),
        ("MIXED+CLOUD+POWERING_UP", "", "", SlurmStatus.BOOTING),
        ("UNKNOWN", "", "", SlurmStatus.STRANGE),
        ("ERROR", "", "", SlurmStatus.STRANGE),
        ("IDLE+A_WORD_OF_A_NEW_RELEASE", "", "", SlurmStatus.STRANGE),
    ],
)
def test_how_slurm_has_a_node(state: str, reason: str, user: str, word: SlurmStatus) -> None:
    assert slurm_status(node("cpu-1", state, reason, user)) is word


def test_a_node_that_is_not_listed() -> None:
    assert slurm_status(None) is SlurmStatus.UNLISTED


def test_every_flag_alone_leaves_a_node_in_some_row() -> None:
    words = {slurm_status(node("cpu-1", f"IDLE+{flag}")) for flag in NodeFlag}
    assert words == {
        SlurmStatus.UP,
        SlurmStatus.THEIRS,
        SlurmStatus.SILENT,
        SlurmStatus.OFF,
        SlurmStatus.BOOTING,
        SlurmStatus.UNFIT,
    }


def test_slots_are_left_out() -> None:
    book = reconcile(cluster_state(node("cpu-3")), Memory())
    assert [(entry.name, entry.phase) for entry in book.entries.values()] == [("cpu-3", Phase.IDLE)]


def test_a_state_of_allocated_can_lie_and_processors_do_not() -> None:
    """22.05 says ALLOCATED after a reconfigure where nothing runs."""
    lies = node("cpu-1", "ALLOCATED", cpus_alloc=0)
    works = node("cpu-2", "IDLE+COMPLETING", cpus_alloc=0)
    book = reconcile(cluster_state(lies, works), Memory())
    assert book.entries["cpu-1"].phase is Phase.IDLE
    assert book.entries["cpu-2"].phase is Phase.BUSY


def test_a_job_that_slurm_lists_there_counts_whatever_the_node_says() -> None:
    book = reconcile(cluster_state(node("cpu-1"), jobs=(running(7, "cpu-[1-2]"),)), Memory())
    assert book.entries["cpu-1"].phase is Phase.BUSY
    assert [job.job_id for job in book.running["cpu-2"]] == [7]


def test_a_fleet_of_which_slurm_lists_nothing_is_left_alone() -> None:
    made = cluster_state(node("cpu-1"))
    book = reconcile(replace(made, nodes=()), Memory())
    assert book.blind == {"cpu"}
    assert book.entries["cpu-1"].action is NodeAction.NOTHING
    assert "Slurm lists no node" in book.entries["cpu-1"].why


def test_nodes_of_others_are_none_of_ours() -> None:
    guest = node("guest-1")
    book = reconcile(replace(cluster_state(), nodes=(*cluster_state().nodes, guest)), Memory())
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
    entries = reconcile(made, Memory()).entries
    assert [entries[f"cpu-{n}"].phase for n in (1, 2, 3)] == [Phase.HELD, Phase.HELD, Phase.IDLE]
    assert "reserved: soon, which begins at 12:00:30 UTC" in entries["cpu-2"].why


def test_what_was_asked_for_has_its_time() -> None:
    made = cluster_state(
        node("cpu-1", "FUTURE"), desired={"cpu": cluster_state(node("cpu-1")).desired["cpu"]}, recorded={}
    )
    launch = Launch(AT - seconds(59), AT + seconds(1))
    entry = reconcile(made, Memory(launches={"cpu-1": launch})).entries["cpu-1"]
    assert (entry.phase, entry.request) == (Phase.LAUNCHING, RequestStatus.LAUNCH)
    late = Launch(AT - seconds(60), AT)
    assert (
        reconcile(made, Memory(launches={"cpu-1": late})).entries["cpu-1"].request
        is RequestStatus.LATE_LAUNCH
    )
    failed = Backoff("boot", 1, AT + seconds(1), "no luck")
    entry = reconcile(made, Memory(node_backoffs={"cpu-1": failed})).entries["cpu-1"]
    assert (entry.request, entry.why) == (RequestStatus.FAILED, "it could not be made: no luck")
    busy = replace(made, under_way=frozenset({"cpu-1"}))
    assert (
        reconcile(busy, Memory(launches={"cpu-1": late})).entries["cpu-1"].request is RequestStatus.UNDER_WAY
    )


def test_a_drain_that_does_not_show_yet_is_not_given_again() -> None:
    drain = Drained(AT - seconds(1), "tidepool: idle for 300 s")
    assert (
        reconcile(cluster_state(node("cpu-1")), Memory(drains={"cpu-1": drain})).entries["cpu-1"].phase
        is Phase.DRAINING
    )
    old = Drained(AT - seconds(60), "tidepool: idle for 300 s")
    assert (
        reconcile(cluster_state(node("cpu-1")), Memory(drains={"cpu-1": old})).entries["cpu-1"].phase
        is Phase.IDLE
    )


def test_an_undrain_that_does_not_show_yet_holds() -> None:
    drained = node("cpu-1", "IDLE+DRAIN", "tidepool: idle for 300 s")
    entry = reconcile(cluster_state(drained), Memory(undrained={"cpu-1": AT - seconds(1)})).entries["cpu-1"]
    assert (entry.phase, entry.action) == (Phase.IDLE, NodeAction.KEEP)


def test_of_several_machines_of_a_name_those_that_are_not_recorded_are_strays() -> None:
    back = machine("cpu-1", number=1)
    known = {"cpu-1": Recorded(machine=True, membership=True, machine_id="m-2")}
    made = cluster_state(node("cpu-1"), machines=(machine("cpu-1", number=2), back), recorded=known)
    book = reconcile(made, Memory())
    assert book.strays == (back,)
    assert book.entries["cpu-1"].phase is Phase.IDLE
    assert reconcile(unseen(made, "recorded"), Memory()).strays == ()
    assert reconcile(replace(made, jobs=(running(1, "cpu-1"),)), Memory()).strays == ()
    unknown = {"cpu-1": Recorded(machine=True, membership=True)}
    assert reconcile(replace(made, recorded=unknown), Memory()).strays == (), "nobody knows which it is"
    unlisted = {"cpu-1": Recorded(machine=True, membership=True, machine_id="m-3")}
    assert reconcile(replace(made, recorded=unlisted), Memory()).strays == (), "not seen is not gone"


def test_names_that_are_no_slots_are_passed_over() -> None:
    made = cluster_state(
        of=spec(), machines=(machine("ctl"), machine("cpu-99999999999")), recorded={"x": Recorded(True)}
    )
    assert reconcile(made, Memory()).entries == {}
