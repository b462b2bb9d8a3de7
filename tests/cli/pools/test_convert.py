"""`convert`: what is looked at first, what is ordered, what is told meanwhile and at the end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.pools.standins import NODE, PoolPerson, outputs
from tidepool.cli import errors
from tidepool.cli.pools.converting import Progress
from tidepool.cli.pools.driver import Moves, carry_out_moves
from tidepool.cli.stack import find_stack
from tidepool.clients.kubernetes.objects import Right
from tidepool.cluster.hostlist import HostSet
from tidepool.conversion.record import Conversion, Order, Work
from tidepool.scaling.stack.turn import person_turn

JOB = Work("job", "4711", "ada", "runs", "runs until 2026-12-24 18:00:00")


def ordered(ada: PoolPerson) -> list[Conversion]:
    return list(ada.journal.conversions())


def started(ada: PoolPerson, node: str = "shared-3", **order: object) -> Conversion:
    """A conversion to Kubernetes that somebody else ordered."""
    made = Order(node, "shared", "kubernetes", datetime.now(UTC), "scaler", "pods wait", **order)  # type: ignore[arg-type]
    return ada.journal.order(made, "slurm")


# What speaks against it


def test_all_mistakes_are_told_at_once_and_nothing_is_changed(ada: PoolPerson) -> None:
    going = started(ada, "shared-4")
    assert ada.journal.take_over(going.id, "x/y/z/1", datetime.now(UTC), 60)
    ada.serving("shared-2")
    ada.kubernetes.denied = {Right("create", "pods/eviction"), Right("delete", "nodes")}
    ada.kubernetes.add_node("shared-3")
    said = ada.runs("convert", "cpu-1", "shared-[1,3-4]", "--to", "kubernetes")
    assert said.exit_code == errors.USAGE, said.output
    for words in (
        "cpu-1 is in no pool",
        "shared-[1-4]",
        "0 machines would serve slurm, and slurm_min is 1",
        "create pods/eviction",
        "delete nodes",
        "nothing was changed",
    ):
        assert words in said.output, f"{words} is not in\n{said.output}"
    assert [each.order.node for each in ordered(ada)] == ["shared-4"]
    assert ada.engine.ran == []


def test_what_is_on_its_way_counts_where_it_goes(ada: PoolPerson) -> None:
    for node in ("shared-1", "shared-2", "shared-3"):
        started(ada, node)
    said = ada.runs("convert", "shared-4", "--to", "kubernetes", "--no-wait")
    assert said.exit_code == errors.USAGE, said.output
    assert "0 machines would serve slurm, and slurm_min is 1; shared-4 cannot all go" in said.output
    assert len(ordered(ada)) == 3
    # One that is to go back is where it was; and the same order again asks for no machine more.
    ada.journal.cancel("shared-3", "ada")
    assert ada.runs("convert", "shared-2", "shared-4", "--to", "kubernetes", "--no-wait").exit_code == 0


def test_a_node_of_another_cluster_is_not_taken_for_ours(ada: PoolPerson) -> None:
    ada.kubernetes.add_node("shared-3")
    said = ada.runs("convert", "shared-3", "--to", "kubernetes")
    assert said.exit_code == errors.USAGE
    assert "a Node shared-3 already, of another cluster" in said.output
    assert ordered(ada) == []


def test_one_on_its_way_elsewhere_is_refused_with_how_to_cancel_it(ada: PoolPerson) -> None:
    going = started(ada)
    assert ada.journal.take_over(going.id, "x/y/z/1", datetime.now(UTC), 60)
    said = ada.runs("convert", "shared-3", "--to", "slurm")
    assert said.exit_code == errors.USAGE
    assert "convert shared-3 --cancel" in said.output


def test_where_kubernetes_does_not_answer_nothing_moves(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    ada.kubernetes.api = "down"
    for to, node in (("kubernetes", "shared-3"), ("slurm", "shared-2")):
        said = ada.runs("convert", node, "--to", to)
        assert said.exit_code == errors.NOT_THERE, said.output
        assert "no machine moves" in said.output
    assert ordered(ada) == []
    assert ada.engine.ran == []


def test_a_role_that_the_image_does_not_hold_is_refused(
    ada: PoolPerson, tmp_path_factory: pytest.TempPathFactory
) -> None:
    image = ada.context.data / "images" / ("a" * 64)
    image.mkdir(parents=True)
    manifest = {
        "digest": image.name, "name": "debian-12-converged", "release": "bookworm", "architecture": "amd64", "epoch": 0,
        "size_mib": 1, "root_bytes": 1, "packages": [["slurmd", "1", "amd64"], ["munge", "1", "amd64"]],
    }  # fmt: skip
    (image / "manifest.json").write_text(json.dumps(manifest))
    env = {**ada.context.env, "TIDEPOOL_IMAGES": str(image.parent)}
    said = ada.runs("convert", "shared-3", "--to", "kubernetes", env=env)
    assert said.exit_code == errors.USAGE
    assert "debian-12-converged does not hold the role kubernetes" in said.output
    assert ordered(ada) == []


def test_without_pools_and_without_a_cluster_it_says_so(ada: PoolPerson) -> None:
    ada.engine.outputs = {**outputs(), "pools": {}}
    said = ada.runs("convert", "shared-3", "--to", "kubernetes")
    assert (said.exit_code, "has no pool" in said.output) == (errors.NOT_THERE, True)
    ada.engine.outputs = None
    said = ada.runs("convert", "shared-3", "--to", "kubernetes")
    assert (said.exit_code, "tidepool up" in said.output) == (errors.NOT_THERE, True)


@pytest.mark.parametrize(
    "words",
    [
        ("shared-3",),
        ("shared-3", "--to", "kubernetes", "--cancel"),
        ("shared-3", "--cancel", "--deadline", "10m"),
        ("shared-3", "--to", "slurm", "--force", "--deadline", "10m"),
        ("shared-3", "--to", "slurm", "--deadline", "soon"),
        ("shared-3", "--to", "slurm", "--deadline", "0"),
        ("--to", "slurm"),
        ("shared-[", "--to", "slurm"),
    ],
)
def test_a_command_line_that_cannot_be_is_refused(ada: PoolPerson, words: tuple[str, ...]) -> None:
    said = ada.runs("convert", *words)
    assert said.exit_code == errors.USAGE, said.output
    assert "Traceback" not in said.output
    assert ada.engine.ran == []


# What is done


def test_an_order_is_written_down_and_one_up_of_those_roles_carries_it_out(ada: PoolPerson) -> None:
    ada.serving("shared-1")
    words = ("--to", "kubernetes", "--deadline", "10m", "--at-deadline", "force", "-r", "a talk")
    said = ada.runs("convert", "shared-[2-3]", *words)
    assert said.exit_code == 0, said.output
    assert [(each.order.node, each.phase, each.leaves) for each in reversed(ordered(ada))] == [
        ("shared-2", "done", "slurm"),
        ("shared-3", "done", "slurm"),
    ]
    order = ordered(ada)[0].order
    assert (order.by, order.reason, order.deadline_s, order.at_deadline) == ("person", "a talk", 600, "force")
    (ran,) = ada.engine.ran
    assert [word for word in ran if word.startswith("**")] == [
        "**tidepool:pool:Role::shared-2",
        "**tidepool:pool:Role::shared-3",
    ]
    (wish,) = ada.engine.wishes
    assert wish is not None
    assert wish.kubernetes == {"shared": HostSet("shared-[1-3]")}
    assert wish.only == HostSet("shared-[2-3]")


def test_what_another_moved_before_its_turn_stays_moved(ada: PoolPerson) -> None:
    """The wish names all machines of the pool: it is made when the stack's turn has come, and not before."""
    ada.engine.outputs = outputs("shared-1")
    real = ada.engine.ask
    answers = iter(["shared-1", "shared-1,shared-4"])

    def ask(words, folder, env):  # type: ignore[no-untyped-def]
        if tuple(words[:2]) == ("stack", "output"):
            ada.engine.outputs = outputs(next(answers))
        return real(words, folder, env)

    ada.engine.ask = ask  # type: ignore[method-assign]
    assert ada.runs("convert", "shared-3", "--to", "kubernetes").exit_code == 0
    (wish,) = ada.engine.wishes
    assert wish is not None
    assert wish.kubernetes == {"shared": HostSet("shared-1,shared-3,shared-4")}


def test_who_has_the_role_already_is_left_alone(ada: PoolPerson) -> None:
    ada.serving("shared-2")
    said = ada.runs("convert", "shared-2", "--to", "kubernetes")
    assert (said.exit_code, "serves kubernetes already" in said.output) == (0, True)
    assert ada.engine.ran == []
    assert ordered(ada) == []


def test_after_one_that_failed_it_is_looked_at_first_and_done(ada: PoolPerson) -> None:
    ada.engine.ends, ada.engine.text = "failed", "the kubelet did not start"
    said = ada.runs("convert", "shared-3", "--to", "kubernetes")
    assert said.exit_code == errors.FAILED
    assert "the kubelet did not start" in said.output
    ada.engine.ends = "done"
    assert ada.runs("convert", "shared-3", "--to", "slurm").exit_code == 0
    assert "--refresh" in ada.engine.ran[-1]
    assert ordered(ada)[0].leaves is None


def test_an_order_that_meets_one_under_way_is_told_whose_terms_hold(ada: PoolPerson) -> None:
    started(ada, deadline_s=15, at_deadline="stop")
    said = ada.runs("convert", "shared-3", "--to", "kubernetes", "--deadline", "2h", "--at-deadline", "force")
    assert said.exit_code == 0, said.output
    assert (
        "shared-3: under way already, ordered by scaler for 15 s, after which it is given up; that holds"
        in said.output
    )
    (only,) = ordered(ada)
    assert (only.order.by, only.order.deadline_s) == ("scaler", 15)


def test_json_is_the_conversions_with_the_seconds_of_their_phases(ada: PoolPerson) -> None:
    said = ada.runs("convert", "shared-3", "--to", "kubernetes", "--json")
    (told,) = json.loads(said.stdout)
    assert (told["order"]["node"], told["phase"], told["leaves"]) == ("shared-3", "done", "slurm")
    assert set(told["phases"]) == {"asked", "emptying"}
    assert told["tookS"] >= 0


def test_what_holds_it_and_until_when_is_told_while_it_runs(
    ada: PoolPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada.engine.work = (JOB,)
    lines = Progress.lines

    def goes_on_when_told(self: Progress, seen: Sequence[Conversion], now: datetime) -> Iterator[str]:
        told = list(lines(self, seen, now))
        yield from told
        if any("waits for its work to end" in line for line in told):
            ada.engine.may_go_on.set()

    monkeypatch.setattr(Progress, "lines", goes_on_when_told)
    said = ada.runs("convert", "shared-3", "--to", "kubernetes", "--deadline", "2h")
    assert said.exit_code == 0, said.output
    assert "shared-3: waits for its work to end" in said.output
    assert "job 4711 of ada: runs until 2026-12-24 18:00:00" in said.output
    assert f"until {(datetime.now(UTC).astimezone() + timedelta(hours=2)):%Y-}" in said.output
    assert "then it is given up" in said.output


def test_one_that_is_given_up_is_a_failure_with_its_reason(ada: PoolPerson) -> None:
    ada.engine.ends, ada.engine.text = "stopped", "its work did not end within 600 s: waits for job 4711"
    said = ada.runs("convert", "shared-3", "--to", "kubernetes")
    assert said.exit_code == errors.FAILED
    assert "did not end within 600 s: waits for job 4711" in said.output
    assert "Traceback" not in said.output


def test_an_up_that_dies_is_told_and_the_next_goes_on(ada: PoolPerson) -> None:
    def dies() -> None:
        raise OSError("no space left on device")

    ada.engine.before = dies
    said = ada.runs("convert", "shared-3", "--to", "kubernetes")
    assert said.exit_code == errors.FAILED
    assert "nobody goes on with it" in said.output
    assert "no space left on device" in said.output
    ada.engine.before = lambda: None
    assert ada.runs("convert", "shared-3", "--to", "kubernetes").exit_code == 0
    assert [each.phase for each in ordered(ada)] == ["done"]


def test_an_up_that_fails_when_it_is_done_is_told_and_the_way_back_is_no_nothing(ada: PoolPerson) -> None:
    """Done, and not written into the graph: that has it still for a machine of Slurm."""
    ada.engine.after = 255
    said = ada.runs("convert", "shared-3", "--to", "kubernetes")
    assert said.exit_code == errors.FAILED
    assert "shared-3: done; and then the `up` that had it done failed" in said.output
    ada.engine.after = 0
    said = ada.runs("convert", "shared-3", "--to", "slurm")
    assert (said.exit_code, "serves slurm already" in said.output) == (0, False)
    assert [(each.leaves, each.order.to) for each in ordered(ada)] == [
        ("kubernetes", "slurm"),
        ("slurm", "kubernetes"),
    ]


def test_a_persons_operation_is_waited_for(ada: PoolPerson) -> None:
    """Pulumi's own lock would fail the `up`; and what had been emptied for an hour was left to nobody."""
    has, may_end, free_then = threading.Event(), threading.Event(), list[bool]()

    def somebodys_up() -> None:
        with person_turn(ada.context.data / "dev", lambda: None):
            has.set()
            assert may_end.wait(20)

    def lets_go() -> None:
        while not list(ada.journal.conversions()):
            time.sleep(0.01)
        time.sleep(0.2)
        may_end.set()

    ada.engine.before = lambda: free_then.append(may_end.is_set())
    threads = [threading.Thread(target=each) for each in (somebodys_up, lets_go)]
    threads[0].start()
    assert has.wait(20)
    threads[1].start()
    assert ada.runs("convert", "shared-3", "--to", "kubernetes").exit_code == 0
    for thread in threads:
        thread.join(20)
    assert free_then == [True]


def test_without_waiting_it_ends_at_once_and_goes_on(ada: PoolPerson) -> None:
    ada.engine.work = (JOB,)
    said = ada.runs("convert", "shared-3", "--to", "kubernetes", "--no-wait")
    assert said.exit_code == 0
    assert "shared-3: under way" in said.output
    assert ada.engine.emptying.wait(10)
    ada.engine.may_go_on.set()


def test_force_makes_one_that_is_under_way_a_forced_one(ada: PoolPerson) -> None:
    ada.engine.work = (JOB,)
    ada.runs("convert", "shared-3", "--to", "kubernetes", "--no-wait")
    assert ada.engine.emptying.wait(10)
    assert ada.runs("convert", "shared-3", "--to", "kubernetes", "--force", "--no-wait").exit_code == 0
    (only,) = ordered(ada)
    assert only.order.is_forced
    ada.engine.may_go_on.set()


# Cancel


def test_cancel_is_written_down_and_waited_for(ada: PoolPerson) -> None:
    ada.engine.work = (JOB,)
    ada.runs("convert", "shared-3", "--to", "kubernetes", "--no-wait")
    assert ada.engine.emptying.wait(10)
    said = ada.runs("convert", "shared-3", "--cancel")
    assert said.exit_code == 0, said.output
    (only,) = ordered(ada)
    assert (only.phase, only.cancel_by) == ("stopped", "ada")
    assert len(ada.engine.ran) == 1


def test_one_that_nobody_drives_is_taken_back_by_an_up(ada: PoolPerson) -> None:
    going = started(ada)
    assert ada.journal.take_over(going.id, "x/y/z/1", datetime.now(UTC) - timedelta(minutes=5), 60)
    ada.engine._enter(ada.journal.conversion(going.id), "emptying")
    ada.engine.work = (JOB,)
    said = ada.runs("convert", "shared-3", "--cancel")
    assert said.exit_code == 0, said.output
    assert ordered(ada)[0].phase == "stopped"
    assert "--refresh" in ada.engine.ran[0]
    (wish,) = ada.engine.wishes
    assert wish is not None
    assert wish.kubernetes == {"shared": HostSet("")}


def test_what_was_never_begun_is_cancelled_at_once(ada: PoolPerson) -> None:
    started(ada)
    assert ada.runs("convert", "shared-3", "--cancel").exit_code == 0
    assert ordered(ada)[0].phase == "stopped"
    assert ada.engine.ran == []


def test_what_was_cancelled_before_its_turn_came_gets_no_up(ada: PoolPerson) -> None:
    started(ada, "shared-3")
    ada.journal.cancel("shared-3", "bob")
    stack = find_stack(ada.context, "dev", None)
    assert carry_out_moves(stack, Moves({"shared-3": "kubernetes"})).code == 0
    assert ada.engine.ran == []
    started(ada, "shared-2")
    assert carry_out_moves(stack, Moves({"shared-2": "kubernetes", "shared-3": "kubernetes"})).code == 0
    (wish,) = ada.engine.wishes
    assert wish is not None
    assert wish.only == HostSet("shared-2")


def test_there_is_nothing_to_cancel_or_it_is_too_late(ada: PoolPerson) -> None:
    going = started(ada)
    assert ada.journal.take_over(going.id, "d", datetime.now(UTC), 60)
    ada.engine._enter(ada.journal.conversion(going.id), "joining")
    said = ada.runs("convert", "shared-[2-3]", "--cancel")
    assert said.exit_code == errors.USAGE
    assert "shared-2: no conversion of it is under way" in said.output
    assert "past the point of no return" in said.output
    assert ordered(ada)[0].cancel_by == ""


def test_it_is_roots(ada: PoolPerson) -> None:
    for words in (("convert", "shared-3", "--to", "slurm"), ("pool", "show")):
        said = ada.runs(*words, root=False)
        assert (said.exit_code, "sudo" in said.output) == (errors.LACKS, True), words


def test_a_node_of_this_stacks_own_is_no_stranger(ada: PoolPerson) -> None:
    ada.kubernetes.add_node("shared-3", labels=NODE)
    assert ada.runs("convert", "shared-3", "--to", "kubernetes").exit_code == 0
