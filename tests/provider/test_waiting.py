"""Many threads wait, one looks, and what they ask for is done at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidepool.clients.slurm import ControllerDown, Node, NodeBase, NodeState, SlurmError
from tidepool.provider.node_watch import Batches, NodeWatch, SharedLook


class World:
    """Nodes that come up when they are told to, and how often they were looked at."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.looks = 0
        self.error: SlurmError | None = None
        self.looked = threading.Event()

    def up(self, name: str) -> None:
        self.nodes[name] = Node(name, NodeState(NodeBase.IDLE))

    def look(self) -> Mapping[str, Node]:
        self.looks += 1
        self.looked.set()
        if self.error is not None:
            raise self.error
        return dict(self.nodes)


def _is_idle(node: Node) -> bool:
    return node.state.base is NodeBase.IDLE


def _soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


def test_hundreds_wait_and_one_looks() -> None:
    world = World()
    watch = NodeWatch(world.look)
    with ThreadPoolExecutor(256) as threads:
        waiting = [threads.submit(watch.wait, f"cpu-{n}", _is_idle, _soon()) for n in range(256)]
        assert world.looked.wait(20)
        for n in range(256):
            world.up(f"cpu-{n}")
        assert all(each.result().is_there for each in waiting)
    assert world.looks < 64
    seen = world.looks
    assert not any(thread.name == "node-watch" for thread in _settled("node-watch"))
    assert world.looks == seen


def _settled(name: str) -> list[threading.Thread]:
    deadline = _soon()
    while time.monotonic() < deadline:
        found = [thread for thread in threading.enumerate() if thread.name == name]
        if not found:
            return found
        found[0].join(1)
    return found


def test_who_waits_in_vain_is_told_what_was_seen_last() -> None:
    world = World()
    world.nodes["cpu-1"] = Node("cpu-1", NodeState(NodeBase.DOWN))
    watch = NodeWatch(world.look)
    sight = watch.wait("cpu-1", _is_idle, _soon(0.2))
    assert (sight.is_there, sight.node) == (False, world.nodes["cpu-1"])
    world.error = ControllerDown("it is down", where="here", remedy="wait")
    sight = watch.wait("cpu-1", _is_idle, _soon(0.2))
    assert (sight.is_there, sight.node, sight.error) == (False, None, world.error)


def test_a_controller_that_starts_is_waited_for() -> None:
    world = World()
    world.error = ControllerDown("it is down", where="here", remedy="wait")
    watch = NodeWatch(world.look)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(watch.wait, "cpu-1", _is_idle, _soon())
        assert world.looked.wait(20)
        world.up("cpu-1")
        world.error = None
        assert waiting.result().is_there


def test_a_fault_of_ours_is_raised_to_who_waits() -> None:
    def look() -> Mapping[str, Node]:
        raise ZeroDivisionError("a fault")

    watch = NodeWatch(look)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            watch.wait("cpu-1", _is_idle, _soon())


def test_what_is_asked_at_the_same_time_is_looked_at_once_and_never_too_early() -> None:
    begun, may_end, looks = threading.Event(), threading.Event(), [0]

    def look() -> int:
        looks[0] += 1
        begun.set()
        assert may_end.wait(20)
        return looks[0]

    shared = SharedLook(look)
    with ThreadPoolExecutor(33) as threads:
        first = threads.submit(shared)
        assert begun.wait(20)
        others = [threads.submit(shared) for _ in range(32)]
        may_end.set()
        assert first.result() == 1
        # They asked when the first look was under way: what it saw may be older than their question.
        assert min(each.result() for each in others) >= 2
    assert looks[0] < 33


def test_who_shares_a_look_that_fails_is_told() -> None:
    world = World()
    world.error = ControllerDown("it is down", where="here", remedy="wait")
    with pytest.raises(ControllerDown):
        SharedLook(world.look)()


def _batches(work: Callable[[Sequence[int]], Mapping[int, int]]) -> tuple[Batches[int, int], list[int]]:
    sizes: list[int] = []

    def counted(items: Sequence[int]) -> Mapping[int, int]:
        sizes.append(len(items))
        return work(items)

    return Batches(counted), sizes


def test_what_comes_while_something_is_done_is_done_together() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def double(items: Sequence[int]) -> Mapping[int, int]:
        begun.set()
        assert may_end.wait(20)
        return {item: 2 * item for item in items}

    batches, sizes = _batches(double)
    with ThreadPoolExecutor(100) as threads:
        first = threads.submit(batches, 0)
        assert begun.wait(20)
        others = [threads.submit(batches, number) for number in range(1, 100)]
        while len(batches._asked) < 99:
            time.sleep(0.001)
        may_end.set()
        assert first.result() == 0
        assert [each.result() for each in others] == [2 * number for number in range(1, 100)]
    assert sizes == [1, 99]


def test_what_fails_fails_for_all_who_asked_and_the_next_are_served() -> None:
    def fail_once(items: Sequence[int]) -> Mapping[int, int]:
        if len(sizes) == 1:
            raise ValueError("once")
        return {item: item for item in items}

    batches, sizes = _batches(fail_once)
    with pytest.raises(ValueError, match="once"):
        batches(1)
    assert batches(2) == 2
