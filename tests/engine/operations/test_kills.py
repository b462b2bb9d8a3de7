"""kill -9 of the engine, at every kind of moment: what the provider holds is what the state comes to hold."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import children

from .recovered import check_nothing_forgotten, recovered
from .stacks import CHAIN, Stack, await_line, ended, world_in

pytestmark = pytest.mark.slow

DYING = str(Path(__file__).with_name("dying.py"))
KILLED = -9


def dies(stack: Stack, point: str, number: int, **env: str) -> None:
    """Run an ``up`` that is killed at a point of :mod:`.dying`."""
    when, _, what = point.partition(" ")
    ran = ended(stack.start_script((DYING, when, what, str(number)), "up", **env))
    assert ran.code == KILLED, f"{point} {number} never came: {ran.text}"


@pytest.fixture(scope="module")
def five(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stack with five resources, whose operation ended well."""
    root = tmp_path_factory.mktemp("five") / "stack"
    shutil.copytree(template, root)
    Stack(root).make().up(COUNT="5")
    return root


@pytest.fixture
def of_five(five: Path, tmp_path: Path) -> Stack:
    """A copy of it."""
    root = tmp_path / "stack"
    shutil.copytree(five, root)
    return Stack(root)


POINTS = [
    ("before write lock", 1),
    ("after rename lock", 1),
    ("torn write journal", 1),  # its first line
    ("before write journal", 2),  # the first record
    ("torn write journal", 3),
    ("before sync journal", 4),
    ("after sync journal", 5),
    ("before copy old checkpoint", 1),
    ("before rename old checkpoint", 1),
    ("torn write checkpoint", 1),
    ("before rename checkpoint", 1),  # its journal says that it is there
    ("after rename checkpoint", 1),  # its journal is there still
    ("after remove journal", 2),  # the first time there was none
    ("torn write history", 1),
    ("before remove lock", 1),
]


@pytest.mark.parametrize(("point", "number"), POINTS, ids=lambda p: str(p).replace(" ", "-"))
def test_killed_while_writing(of_five: Stack, point: str, number: int) -> None:
    dies(of_five, point, number, COUNT="9")
    check_nothing_forgotten(recovered(of_five.backend), of_five.world())
    of_five.up(COUNT="9")
    of_five.check_exact(9)


RECOVERING = [
    "after sync journal",
    "before rename checkpoint",
    "after rename checkpoint",
    "before remove journal",
]


@pytest.mark.parametrize("point", RECOVERING, ids=lambda p: p.replace(" ", "-"))
def test_killed_while_recovering(of_five: Stack, point: str) -> None:
    ran = of_five.run("up", COUNT="9", FAKE_SIGNAL="create:3:after:KILL")
    assert ran.code == KILLED
    dies(of_five, point, 1, COUNT="9")
    check_nothing_forgotten(recovered(of_five.backend), of_five.world())
    of_five.up(COUNT="9")
    of_five.check_exact(9)


def test_killed_before_any_access_to_the_backend(of_five: Stack, tmp_path: Path) -> None:
    images = tmp_path / "images"
    ran = ended(of_five.start_script((DYING, "watch", str(images), "0"), "up", COUNT="9"))
    assert ran.code == 0, ran.text
    found = sorted(images.iterdir())
    assert len(found) > 9  # how many there are depends on how much is written at once
    for image in found:
        check_nothing_forgotten(recovered(image / "backend"), world_in(image / "world"))


def test_killed_in_the_middle_of_any_line(of_five: Stack) -> None:
    of_five.write(CHAIN)  # the one before it is on disk when the third is made
    ran = of_five.run("up", COUNT="9", FAKE_SIGNAL="create:3:after:KILL")
    assert ran.code == KILLED
    lines = of_five.journal.read_bytes().splitlines(keepends=True)
    assert lines[-1].endswith(b"\n")
    # The last line that says what became of something.
    at = max(n for n, line in enumerate(lines) if b'"puts"' in line)
    before, last = b"".join(lines[:at]), lines[at]
    of_five.journal.write_bytes(before)
    without = recovered(of_five.backend)
    for length in range(len(last)):
        of_five.journal.write_bytes(before + last[:length])
        assert recovered(of_five.backend) == without
    of_five.journal.write_bytes(before + last)
    assert recovered(of_five.backend) != without


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_again_and_again(stack: Stack, when: str) -> None:
    for number in (1, 2, 5, 9):
        ran = stack.run("up", COUNT="30", FAKE_SIGNAL=f"create:{number}:{when}:KILL")
        assert ran.code == KILLED
        check_nothing_forgotten(recovered(stack.backend), stack.world())
    last = stack.up(COUNT="30")
    assert "took over a lock whose process is gone" in last.text
    assert "the last up of this stack was cut off" in last.text
    stack.check_exact(30)


def test_killed_among_a_thousand_creates(stack: Stack) -> None:
    first = stack.run("up", COUNT="1000", FAKE_SIGNAL="create:300:after:KILL")
    assert first.code == KILLED
    assert len(stack.world()) >= 300
    check_nothing_forgotten(recovered(stack.backend), stack.world())
    second = stack.run("up", COUNT="1000", FAKE_SIGNAL="create:400:before:KILL")
    assert second.code == KILLED
    assert 700 > len(stack.world()) > 600
    check_nothing_forgotten(recovered(stack.backend), stack.world())
    stack.up(COUNT="1000")
    stack.check_exact(1000)


@pytest.mark.parametrize("method", ["update", "delete"])
def test_killed_while_changing_and_deleting(of_five: Stack, method: str) -> None:
    if method == "update":
        of_five.write((of_five.project / "__main__.py").read_text().replace("value=i", "value=i + 1"))
    ran = of_five.run("up", COUNT="5" if method == "update" else "2", FAKE_SIGNAL=f"{method}:2:after:KILL")
    assert ran.code == KILLED
    snapshot = recovered(of_five.backend)
    pending = {op.type for op in snapshot.pending_operations}
    assert pending == {"updating" if method == "update" else "deleting"}
    of_five.up(COUNT="5" if method == "update" else "2")
    world, states = of_five.world(), of_five.states()
    assert world.keys() == states.keys()
    assert {id: s["inputs"]["value"] for id, s in states.items()} == {
        id: t["props"]["value"] for id, t in world.items()
    }
    assert of_five.pending() == []


def test_what_was_made_without_an_answer_stays_listed(stack: Stack) -> None:
    """Where the provider makes another one when asked again, the first is never silently forgotten."""
    ran = stack.run("up", COUNT="20", FAKE_SIGNAL="create:7:after:KILL", FAKE_IDEMPOTENT="0")
    assert ran.code == KILLED
    lost = {op.resource.urn.rpartition("::")[2] for op in recovered(stack.backend).pending_operations}
    again = stack.up(COUNT="20", FAKE_IDEMPOTENT="0")
    assert set(stack.pending()) == {(name, "creating") for name in lost}
    for name in lost:
        assert f"::{name}, interrupted while creating" in again.text
    world, states = stack.world(), stack.states()
    assert {s["urn"].rpartition("::")[2] for s in states.values()} == {f"r{i}" for i in range(20)}
    assert states.keys() <= world.keys()
    twice = {world[id]["name"] for id in world.keys() - states.keys()}
    assert twice
    assert twice <= lost
    # They stay until a person says that they were looked after.
    stack.up(COUNT="20")
    assert {name for name, _ in stack.pending()} == lost
    cleared = stack.run("refresh", "--clear-pending-creates")
    assert cleared.code == 0, cleared.text
    assert stack.pending() == []


def test_a_killed_engine_leaves_no_provider_behind(stack: Stack) -> None:
    process = stack.start(
        "up", COUNT="1", FAKE_FAULTS=json.dumps({"create:r0": "hang:600"}), FAKE_LOG=str(stack.root / "log")
    )
    try:
        await_line(process, process.stdout, "r0 creating")
        of_its_own = children(process.pid)
        assert of_its_own
    finally:
        process.kill()
        ended(process)
    for pid in of_its_own:
        # A watchdog ends them; how fast is the system's business.
        subprocess.run(["tail", f"--pid={pid}", "-s", "0.02", "-f", "/dev/null"], timeout=30, check=True)
