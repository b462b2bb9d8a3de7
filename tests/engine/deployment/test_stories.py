"""Stories that went wrong once, kept as they were found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidepool.engine.deployment.options import Kind
from tidepool.engine.events import Op
from tidepool.engine.resource import Snapshot

from .play import Order, changes, lost, play, saved
from .programs import Alias, Node, Program
from .world import World

SEEDS = pytest.mark.parametrize("seed", range(10))


def stays(program: Program, state: Snapshot, world: World, folder: Path) -> None:
    """Nothing is left to do."""
    again = play(Order(), program, state, world, folder)
    assert (again.errors, changes(again), again.effects) == ([], {}, [])


@SEEDS
def test_a_resource_that_went_for_another_comes_back_when_it_is_gone(seed: int, tmp_path: Path) -> None:
    """``d`` does not wait for ``c`` any more, which takes it down: it must not be made before it is down."""
    first = Program(
        (Node("a"), Node("b", depends_on=("a",)), Node("c"), Node("d", depends_on=("a",), replace_with="c"))
    )
    second = Program(
        (
            Node("a"),
            Node("b", depends_on=("a",)),
            Node("d", depends_on=("a",)),
            Node("c", early=1, replace_with="a"),
        )
    )
    world = World()
    base = play(Order(seed=seed), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order(seed=seed), second, base, world, tmp_path)
    assert played.errors == []
    stays(second, played.snapshot, world, tmp_path)


def test_resources_go_before_a_provider_that_goes_with_another(tmp_path: Path) -> None:
    first = Program((Node("a"), Node("p", kind="provider", replace_with="a"), Node("d", provider="p")))
    second = Program((replace(first.nodes[0], early=1), *first.nodes[1:]))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order(), second, base, world, tmp_path)
    assert played.errors == []
    assert changes(played) == {Op.REPLACE: 3}
    assert played.effects == ["delete d-2", "delete a-1", "create a-3", "create d-4"]
    stays(second, played.snapshot, world, tmp_path)


def test_what_depends_on_a_renamed_resource_follows_it_after_a_crash(tmp_path: Path) -> None:
    """The journal names what was renamed by both names; what is recovered by its new one alone."""
    first = Program((Node("a"), Node("b", depends_on=("a",))))
    second = Program((Node("ax", aliases=(Alias(name="a"),)), Node("b", depends_on=("ax",))))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order(), second, base, world, tmp_path)
    assert changes(played) == {}
    for records in range(len(played.records) + 1):
        recovered = played.at(records)
        (b,) = [r for r in recovered.resources if r.urn.endswith("::b")]
        (a,) = b.dependencies
        assert a in {r.urn for r in recovered.resources}
        assert saved(recovered) == recovered
        stays(second, recovered, lost(recovered, world), tmp_path)


@SEEDS
def test_a_failure_leaves_what_is_under_way_to_come_to_its_end(seed: int, tmp_path: Path) -> None:
    names = "abcdefgh"
    program = Program(tuple(Node(n) for n in names))
    world = World()
    played = play(Order(faults={("create", "d"): "fail"}, seed=seed), program, Snapshot(), world, tmp_path)
    assert played.result.result == "failed"
    assert played.snapshot.pending_operations == ()
    state = lost(played.snapshot, world)
    second = play(Order(seed=seed), program, played.snapshot, state, tmp_path)
    assert second.errors == []
    assert len(state.things) == len(names)


@SEEDS
@pytest.mark.parametrize("fault", ["", "create", "update"])
def test_a_provider_stays_as_long_as_there_are_resources_of_it(fault: str, seed: int, tmp_path: Path) -> None:
    """``c`` has left ``p``, which is deleted before it is replaced; what ``c`` was goes through ``p`` at the end."""
    first = Program((Node("p", kind="provider", delete_before_replace=True), Node("c", provider="p")))
    second = Program((Node("c", value=1), Node("p", kind="provider", key=1, delete_before_replace=True)))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    order = Order(faults={(fault, "c"): "fail"}, continue_on_error=True, seed=seed)
    played = play(order, second, base, world, tmp_path)
    assert bool(played.errors) == (fault == "create")
    again = play(Order(), second, played.snapshot, lost(played.snapshot, world), tmp_path)
    assert again.errors == []
    assert not any(r.delete or r.pending_replacement for r in again.snapshot.resources)


def test_what_was_deleted_before_it_is_replaced_is_not_deleted_again(tmp_path: Path) -> None:
    """The second time there is nothing that asks for the deletion to come first."""
    first, second = (Program((Node("a", early=early),)) for early in (0, 1))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    failed = play(Order(faults={("create", "a"): "fail"}), second, base, world, tmp_path)
    assert failed.effects == ["delete a-1"]
    back = play(Order(), first, failed.snapshot, world, tmp_path)
    assert (back.errors, back.effects) == ([], ["create a-2"])
    stays(first, back.snapshot, world, tmp_path)


@SEEDS
@pytest.mark.parametrize("kind", ["refresh", "update", "destroy"])
def test_a_resource_that_is_gone_leaves_nothing_behind_where_the_program_runs(
    kind: Kind, seed: int, tmp_path: Path
) -> None:
    """``b`` is registered, ``c`` and ``d`` are not: those refer to ``b`` no longer, too."""
    first = Program((Node("a"), *(Node(n, depends_on=("a",)) for n in "bcd"), Node("e", refs=("b",))))
    first = replace(
        first, nodes=(*first.nodes[:2], *(replace(n, depends_on=("b",)) for n in first.nodes[2:]))
    )
    second = Program((*first.nodes[:2], first.nodes[4]))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    world.drift("b-2", None)
    played = play(Order(kind, refresh=True, run_program=True, seed=seed), second, base, world, tmp_path)
    assert played.errors == []
    left = {r.urn.rpartition("::")[2]: r for r in played.snapshot.resources if r.id in world.things}
    assert sorted(left) == {"refresh": ["a", "c", "d", "e"], "update": ["a", "b", "e"], "destroy": []}[kind]
    if kind == "refresh":
        assert all(left[n].dependencies == () for n in "cde")
        assert left["e"].property_dependencies == {}


def test_a_refresh_forgets_which_properties_come_from_nothing(tmp_path: Path) -> None:
    """As the CLI does, for all resources; what comes from something stays."""
    program = Program((Node("a"), Node("b", refs=("a",)), Node("c")))
    world = World()
    base = play(Order(), program, Snapshot(), world, tmp_path).snapshot
    empty = replace(
        base,
        resources=tuple(
            replace(r, property_dependencies={**r.property_dependencies, "value": ()}) for r in base.resources
        ),
    )
    played = play(Order("refresh"), program, empty, world, tmp_path)
    assert played.errors == []
    found = {r.urn.rpartition("::")[2]: set(r.property_dependencies) for r in played.snapshot.resources}
    assert (found["a"], found["b"], found["c"]) == (set(), {"refs"}, set())
    stays(program, played.snapshot, world, tmp_path)


def test_a_destroy_that_runs_the_program_deletes_what_the_program_cannot_come_to(tmp_path: Path) -> None:
    """``c`` depends on ``b``, which is not there and not made; outputs of the stack come too late to count."""
    first = Program((Node("a"), Node("c", depends_on=("a",))))
    second = Program((Node("a"), Node("b"), Node("c", depends_on=("b",))))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order("destroy", run_program=True), second, base, world, tmp_path)
    assert (played.errors, played.effects) == ([], ["delete c-2", "delete a-1"])
    assert played.snapshot.resources == ()


def test_a_destroy_of_targets_leaves_nothing_that_refers_to_them(tmp_path: Path) -> None:
    """``b`` is made for the destroy, and ``c`` is said to depend on ``a`` only now."""
    first = Program((Node("a"), Node("c")))
    second = Program((Node("a"), Node("b", kind="provider", depends_on=("a",)), Node("c", depends_on=("a",))))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order("destroy", run_program=True, targets=("a",)), second, base, world, tmp_path)
    assert (played.errors, [e[:-2] for e in played.effects]) == ([], ["delete a"])
    assert [r.dependencies for r in played.snapshot.resources if r.urn[-1] in "bc"] == [(), ()]


def test_what_goes_for_a_target_comes_back_as_the_program_has_it(tmp_path: Path) -> None:
    """``c`` is no target, but it is inside of ``b``: it must not ask for the ``b`` that went."""
    first = Program((Node("b"), Node("c", deleted_with="b")))
    second = Program((Node("b", early=1), first.nodes[1]))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order(targets=("b",)), second, base, world, tmp_path)
    assert played.errors == []
    assert [t.inputs.get("inside") for t in world.things.values()] == [None, "b-3"]
    stays(second, played.snapshot, world, tmp_path)


def test_what_an_untargeted_resource_refers_to_may_turn_out_to_be_gone(tmp_path: Path) -> None:
    """``c`` stands as it was before ``b`` is looked at; ``b`` cannot be made again."""
    first = Program((Node("b"), Node("c", deleted_with="b")))
    second = Program((Node("b"), Node("c")))
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    world.drift("b-1", None)
    faults = {("create", "b"): "fail"}
    for seed in range(10):
        order = Order(faults=faults, refresh=True, run_program=True, targets=("b",), seed=seed)
        played = play(order, second, base, world.copy(), tmp_path)
        assert [r.deleted_with for r in played.snapshot.resources if r.urn.endswith("::c")] == [""]


def test_what_a_left_out_resource_needs_stays(tmp_path: Path) -> None:
    """``c`` is left out as ``b`` failed, so it still depends on ``a``, which the program dropped."""
    first = Program((Node("a"), Node("b"), Node("c", refs=("a",), depends_on=("b",))))
    second = Program((Node("b", value=1), Node("c", depends_on=("b",))), persistent=True)
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    order = Order(faults={("update", "b"): "fail"}, continue_on_error=True)
    played = play(order, second, base, world, tmp_path)
    assert played.result.result == "failed"
    assert played.effects == []
    again = play(Order(), second, played.snapshot, world, tmp_path)
    assert again.errors == []
    assert sorted(e.split("-")[0] for e in again.effects) == ["delete a", "update b", "update c"]


def test_a_destroy_of_a_target_is_refused_for_what_depends_on_it_under_a_new_name(tmp_path: Path) -> None:
    first = Program((Node("a"), Node("c", refs=("a",))))
    second = Program((Node("a"), Node("cx", refs=("a",), aliases=(Alias(name="c"),))))
    base = play(Order(), first, Snapshot(), world := World(), tmp_path).snapshot
    played = play(Order("destroy", run_program=True, targets=("a",)), second, base, world, tmp_path)
    assert played.effects == []
    assert "::cx' will be destroyed but was not specified in --target list" in played.errors[0]


@SEEDS
@pytest.mark.parametrize(
    "second",
    [
        Program((Node("a"), Node("b"))),
        Program((Node("b"), Node("a", depends_on=("b",)))),
        Program((Node("b"), Node("ax", aliases=(Alias(name="a"),)))),
        Program((Node("ax", aliases=(Alias(name="a"),)), Node("bx", aliases=(Alias(name="b"),)))),
        Program((Node("bx", aliases=(Alias(name="b"),)),)),
    ],
)
def test_a_destroy_that_runs_the_program_knows_what_a_resource_needs_as_it_is(
    second: Program, seed: int, tmp_path: Path
) -> None:
    """``b`` was made with the id of ``a``, of which the program says nothing any more."""
    first = Program((Node("a"), Node("b", refs=("a",))))
    base = play(Order(), first, Snapshot(), world := World(), tmp_path).snapshot
    played = play(Order("destroy", run_program=True, seed=seed), second, base, world, tmp_path)
    assert (played.errors, played.effects) == ([], ["delete b-2", "delete a-1"])


@SEEDS
def test_a_destroy_that_runs_the_program_knows_what_a_resource_is_said_to_need(
    seed: int, tmp_path: Path
) -> None:
    """As with the CLI: a person may mend the order of deletion in the program."""
    first = Program((Node("b"), Node("a")))
    second = Program((Node("a"), Node("b", depends_on=("a",))))
    base = play(Order(), first, Snapshot(), world := World(), tmp_path).snapshot
    played = play(Order("destroy", run_program=True, seed=seed), second, base, world, tmp_path)
    assert (played.errors, [e[:-2] for e in played.effects]) == ([], ["delete b", "delete a"])


@pytest.mark.parametrize("target", ["a", "d"])
def test_a_destroy_of_targets_lets_a_renamed_component_keep_its_name(target: str, tmp_path: Path) -> None:
    """Where ``ax`` is no target, it is recorded as ``a``: what depends on it, or is below it, must say so, too."""
    first = Program((Node("a", kind="group"), Node("b", parent="a"), Node("c", depends_on=("a",)), Node("d")))
    ax = Node("ax", kind="group", aliases=(Alias(name="a"),))
    below, after, free = replace(first.nodes[1], parent="ax"), Node("c", depends_on=("ax",)), Node("d")
    base = play(Order(), first, Snapshot(), world := World(), tmp_path).snapshot
    order = Order("destroy", run_program=True, targets=(target,))
    played = play(order, Program((ax, below, after, free)), base, world, tmp_path)
    assert bool(played.errors) == (target == "a")
    assert [e[:-2] for e in played.effects] == ([] if target == "a" else ["delete d"])


def test_a_destroy_that_runs_the_program_believes_it_what_is_retained_or_goes_with_another(
    tmp_path: Path,
) -> None:
    first = Program((Node("a"), Node("b"), Node("c", refs=("a",))))
    second = Program((Node("a"), Node("b", deleted_with="a"), Node("c", refs=("a",), retain=True)))
    base = play(Order(), first, Snapshot(), world := World(), tmp_path).snapshot
    played = play(Order("destroy", run_program=True), second, base, world, tmp_path)
    assert (played.errors, [e[:-2] for e in played.effects]) == ([], ["delete a"])


@pytest.mark.parametrize("kind", ["refresh", "destroy"])
def test_what_the_program_turned_round_may_need_each_other_for_a_while(kind: Kind, tmp_path: Path) -> None:
    """Components and providers are recorded anew, resources stay: ``b`` depends on ``g`` and is one of ``p``."""
    first = Program(
        (Node("p", kind="provider"), Node("g", kind="group"), Node("b", depends_on=("g",), provider="p"))
    )
    second = Program(
        (Node("b"), Node("g", kind="group", depends_on=("b",)), Node("p", kind="provider", depends_on=("b",)))
    )
    base = play(Order(), first, Snapshot(), world := World(), tmp_path).snapshot
    order = Order(kind, refresh=kind == "refresh", run_program=True)
    played = play(order, second, base, world, tmp_path)
    assert played.errors == []
    if kind == "refresh":
        left = {r.urn[-1]: r for r in played.snapshot.resources}
        assert left["g"].dependencies == left["p"].dependencies == ()
        assert left["b"].dependencies == (left["g"].urn,)
        assert left["b"].provider.startswith(left["p"].urn)


@pytest.mark.parametrize("early", [None, True])
def test_a_destroy_deletes_the_provider_that_it_replaced(early: bool | None, tmp_path: Path) -> None:
    first, second = (
        Program((Node("p", kind="provider", key=key, delete_before_replace=early), Node("c", provider="p")))
        for key in (0, 1)
    )
    world = World()
    base = play(Order(), first, Snapshot(), world, tmp_path).snapshot
    played = play(Order("destroy", run_program=True), second, base, world, tmp_path)
    assert (played.errors, played.effects) == ([], ["delete c-1"])
    assert played.snapshot.resources == ()
