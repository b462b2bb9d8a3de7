"""Random programs and edits, with faults: the state is what exists, at every moment."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tidepool.engine.resource import Snapshot

from .play import Order, changes, differences, lost, play, unprotected
from .programs import Program, edited, programs
from .world import Faults, World


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in memory: journals are synced to disk for each record."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


METHODS = {
    "check": ("fail", "refuse", "die"),
    "diff": ("fail",),
    "create": ("fail", "init", "die", "die-after", "cancel"),
    "update": ("fail", "init", "die", "die-after", "cancel"),
    "delete": ("fail", "die", "die-after", "cancel"),
    "read": ("fail",),
}
_FAULTS = st.sampled_from([(m, f) for m, kinds in METHODS.items() for f in kinds])


@st.composite
def faults(draw: st.DrawFn, names: list[str]) -> Faults:
    found: dict[tuple[str, str], str] = {}
    for _ in range(draw(st.integers(0, 2))):
        method, fault = draw(_FAULTS)
        found[method, draw(st.sampled_from(names))] = fault
    return found


@settings(max_examples=int(os.environ.get("N", "200")), deadline=None, report_multiple_bugs=False, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_state_is_what_exists(data: st.DataObject, folder: Path) -> None:
    world = World()
    state = Snapshot()
    program = data.draw(programs())
    for _ in range(data.draw(st.integers(1, 3))):
        names = sorted({*(n.name for n in program.nodes), *(r.urn.rsplit("::", 1)[-1] for r in state.resources)})
        kind = data.draw(st.sampled_from(["update", "update", "update", "refresh", "destroy"]))
        order = Order(
            kind,
            faults=data.draw(faults(names)) if names else {},
            continue_on_error=data.draw(st.booleans()),
            parallel=data.draw(st.sampled_from([1, 8])),
            refresh=not data.draw(st.integers(0, 4)),
            seed=data.draw(st.integers(0, 9)),
        )
        played = play(order, program, state, world, folder)
        state = played.snapshot
        if played.moments and not data.draw(st.integers(0, 2)):
            moment = played.moments[data.draw(st.integers(0, len(played.moments) - 1))]
            state = played.at(moment.records)
            world = moment.world
        world = lost(state, world)
        program = data.draw(edited(program))
    state = unprotected(state)
    program = Program(tuple(n for n in program.nodes))
    from dataclasses import replace
    program = Program(tuple(replace(n, protect=False) for n in program.nodes))
    second = play(Order(refresh=bool(world.unsure)), program, state, world, folder)
    assert second.errors == []
    third = play(Order(), program, second.snapshot, world, folder)
    assert third.errors == []
    assert (changes(third), third.effects) == ({}, [])
    assert differences(second.snapshot, third.snapshot) == []
    end = play(Order("destroy"), program, unprotected(third.snapshot), world, folder)
    assert end.errors == []
    assert end.snapshot.resources == ()
