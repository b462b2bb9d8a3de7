"""Random programs and edits, with faults and crashes: the state is what exists, at every moment.

What holds for each operation by itself is checked by :func:`.play.verify`.

The examples are the same each time: what fails here, a change broke. ``HUNT=5000`` in the environment looks for so
many new ones; what it finds becomes a story in :mod:`.test_stories`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tidepool.engine import urn as urns
from tidepool.engine.resource import Snapshot

from .play import Order, States, changes, differences, lost, play, unprotected
from .programs import edited, programs
from .world import Faults, World

pytestmark = pytest.mark.slow

HUNT = int(os.environ.get("HUNT", "0"))
EXAMPLES = settings(
    max_examples=HUNT or 150,
    derandomize=not HUNT,
    deadline=None,
    # The explaining phase runs each found case many times more.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

FAULTS = [
    (method, fault)
    for method, faults in {
        "check": ("fail", "refuse", "die"),
        "diff": ("fail",),
        "configure": ("fail",),
        "create": ("fail", "init", "die", "die-after", "cancel"),
        "update": ("fail", "init", "die", "die-after", "cancel"),
        "delete": ("fail", "die", "die-after", "cancel"),
        "read": ("fail", "init"),
    }.items()
    for fault in faults
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: journals are synced for each record."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


class Story:
    """A stack through its operations."""

    def __init__(self, data: st.DataObject, folder: Path) -> None:
        self._draw = data.draw
        self.folder = folder
        self.world = World()
        self.state = Snapshot()
        self.program = self._draw(programs(), label="program")

    def go_on(self) -> None:
        """One operation, which may fail or be killed; what it goes on from and to is drawn."""
        self._drift()
        order = self._order()
        played = play(order, self.program, self.state, self.world, self.folder)
        self.state = played.snapshot
        killed = bool(played.moments) and not self._draw(st.integers(0, 2), label="killed where 0")
        if killed:
            moment = played.moments[self._draw(st.integers(0, len(played.moments) - 1), label="moment")]
            self.state, self.world = played.at(moment.records), moment.world
        elif played.result.result == "succeeded" and order.refreshes and not order.targets:
            # Everything was looked at.
            self.world.unsure.clear()
            States(self.state).agree(self.state, self.world)
        self.world = lost(self.state, self.world)
        self.program = self._draw(edited(self.program), label="program")

    def _drift(self) -> None:
        if self.world.things and not self._draw(st.integers(0, 5), label="drift where 0"):
            thing = self.world.things[self._draw(st.sampled_from(sorted(self.world.things)))]
            changed = (
                {**thing.inputs, "value": 7} if self._draw(st.booleans(), label="is there still") else None
            )
            if thing.id not in self.world.let_go | set(self.world.unanswered.values()):
                self.world.drift(thing.id, changed)

    def _order(self) -> Order:
        names = sorted({*self.program.by_name(), *(urns.name_of(r.urn) for r in self.state.resources)})
        some = st.lists(st.sampled_from(names), max_size=2, unique=True).map(tuple) if names else st.just(())
        return Order(
            self._draw(st.sampled_from(["update", "update", "update", "refresh", "destroy"]), label="kind"),
            faults=self._draw(_faults(names), label="faults") if names else {},
            continue_on_error=self._draw(st.booleans(), label="continue on error"),
            parallel=self._draw(st.sampled_from([1, 8]), label="parallel"),
            refresh=not self._draw(st.integers(0, 4), label="refresh where 0"),
            run_program=not self._draw(st.integers(0, 4), label="run program where 0"),
            targets=() if self._draw(st.integers(0, 4), label="targets where 0") else self._draw(some),
            target_dependents=self._draw(st.booleans(), label="target dependents"),
            seed=self._draw(st.integers(0, 9), label="seed"),
        )


@st.composite
def _faults(draw: st.DrawFn, names: list[str]) -> Faults:
    found: dict[tuple[str, str], str] = {}
    for _ in range(draw(st.integers(0, 2))):
        method, fault = draw(st.sampled_from(FAULTS))
        found[method, draw(st.sampled_from(names))] = fault
    return found


@EXAMPLES
@given(data=st.data())
def test_after_any_faults_the_next_update_makes_it_right(data: st.DataObject, folder: Path) -> None:
    story = Story(data, folder)
    for _ in range(data.draw(st.integers(1, 3), label="operations")):
        story.go_on()
    # The person takes away what keeps the engine from doing what it should.
    state, world = unprotected(story.state), story.world
    program = story.program.cooperative()
    second = play(Order(refresh=bool(world.unsure)), program, state, world, folder)
    assert second.errors == []
    live = {urns.name_of(r.urn) for r in second.snapshot.resources}
    assert live >= set(program.by_name())
    assert not any(r.delete or r.pending_replacement for r in second.snapshot.resources)
    # Nothing is left to do.
    third = play(Order(), program, second.snapshot, world, folder)
    assert third.errors == []
    assert (changes(third), third.effects) == ({}, [])
    assert differences(second.snapshot, third.snapshot) == []
    # And nothing is left behind.
    end = play(Order("destroy"), program, third.snapshot, world, folder)
    assert end.errors == []
    assert end.snapshot.resources == ()
    # But for what was made without an answer and dropped from the program: a person has to look for it.
    listed = {op.resource.urn for op in end.snapshot.pending_operations if op.type == "creating"}
    assert {id for id, t in world.things.items() if t.urn not in listed} <= world.let_go


@EXAMPLES
@given(data=st.data())
def test_a_preview_changes_nothing_and_says_what_the_update_will_do(
    data: st.DataObject, folder: Path
) -> None:
    world = World()
    first = data.draw(programs())
    program = data.draw(edited(first)).cooperative()
    base = play(Order(), first, Snapshot(), world, folder).snapshot
    base = unprotected(base)
    preview = play(Order(preview=True), program, base, world, folder)
    assert preview.effects == []
    assert preview.snapshot == base
    update = play(Order(), program, base, world, folder)
    assert changes(preview) == changes(update)
