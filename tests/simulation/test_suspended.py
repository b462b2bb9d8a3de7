"""Fleets that keep machines suspended: they go on before others boot, and whatever becomes of them, no job is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tests.simulation.scene import SPEC, Scene
from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures import MachineKey
from tidepool.scaling.decision import Phase
from tidepool.simulation.cluster import Speeds

#: A boot is long, and a machine that goes on is there at once.
BOOT_S = 25.0


def scene(suspended: int = 2, nodes: int = 0, **more: Any) -> Scene:
    """A cluster whose fleet `cpu` keeps so many machines suspended, once it has them."""
    made = begun(suspended, nodes, **more)
    made.until(lambda: len(seen(made)) == suspended, 600)
    return made


def begun(suspended: int, nodes: int = 0, **more: Any) -> Scene:
    """The same, before it has any."""
    fleets = [{**fleet, "infrastructures": ["libvirt"]} for fleet in SPEC["fleets"]]
    policies = ["queue", {"name": "warm", "fleet": "cpu", "nodes": nodes, "suspended": suspended}]
    return Scene(
        speeds=Speeds(boot=BOOT_S),
        fleets=fleets,
        controller={"infrastructure": "libvirt"},
        scaling={"boot_timeout_s": 60, "policies": policies},
        **more,
    )


def seen(scene: Scene) -> list[str]:
    """The same, as the daemon has seen it."""
    return [name for name in kept(scene) if scene.phase(name) is Phase.SUSPENDED]


def kept(scene: Scene) -> list[str]:
    """The nodes whose machines are suspended, in truth."""
    machines = scene.cluster.machines.list("simulated")
    return [each.key.node for each in machines if each.state == "suspended"]


def key(node: str) -> MachineKey:
    return MachineKey("simulated", node)


def test_machines_are_prepared_and_cost_nothing_while_they_are_suspended() -> None:
    one = scene(2)
    assert kept(one) == ["cpu-1", "cpu-2"]
    assert {one.phase(name) for name in kept(one)} == {Phase.SUSPENDED}
    assert one.desired() == []
    assert one.cluster.stack.read().suspended == {"cpu": HostSet("cpu-[1-2]")}
    one.cluster.machines.settle()
    made, seconds = one.made(), one.cluster.machines.bills["cpu"].node_s
    one.pass_time(86_400)
    one.cluster.machines.settle()
    assert (kept(one), one.made()) == (["cpu-1", "cpu-2"], made), "and are left alone"
    assert one.cluster.machines.bills["cpu"].node_s == seconds
    kept_of = one.cluster.journal.kept().memory.spent
    assert kept_of is not None
    assert all(where in ("", "cpu") for times in kept_of.machines.values() for where in times)


def test_a_job_has_a_machine_that_goes_on_and_another_is_prepared() -> None:
    one = scene(2)
    began = one.cluster.clock.true
    jobs = one.submit(1)
    one.until_running(jobs, BOOT_S - 5)
    (job,) = one.cluster.slurm.queue.records(jobs[0])
    assert job.start_time is not None
    assert (job.start_time - began).total_seconds() < BOOT_S / 4
    assert one.cluster.machines.resumed == 1
    assert one.desired()[0] == "cpu-1"
    one.until(lambda: len(kept(one)) == 2, 300)
    # More at once than there are: the others boot.
    more = one.submit(4)
    one.until_running(more, 300)
    assert one.cluster.machines.resumed >= 3
    one.until(lambda: not one.cluster.slurm.queue.running, 1200)
    one.until(lambda: len(kept(one)) == 2 and one.desired() == [], 1200)


def test_nodes_to_spare_stay_beside_those_that_are_suspended() -> None:
    one = scene(1, nodes=2)
    one.until(lambda: sum(one.phase(f"cpu-{n}") is Phase.IDLE for n in range(1, 9)) == 2, 300)
    assert len(kept(one)) == 1
    made = one.made()
    one.pass_time(7200)
    assert (one.made(), len(kept(one)), len(one.desired())) == (made, 1, 2)


def test_an_image_that_changes_has_them_made_anew() -> None:
    one = scene(2)
    old = {each.machine_id for each in one.cluster.machines.list("simulated")}
    one.cluster.stack.images["cpu"] = "sha256:2"
    one.cluster.stack._version += 1
    one.until(lambda: len(kept(one)) == 2 and not old & ids(one), 900)
    one.submit(1)
    one.until(lambda: one.running(one.jobs), 20)


def ids(scene: Scene) -> set[str]:
    return {each.machine_id for each in scene.cluster.machines.list("simulated")}


def test_memory_that_is_lost_a_machine_that_is_gone_and_one_that_somebody_started() -> None:
    one = scene(3)
    one.cluster.machines.lose_memory(key("cpu-1"))
    one.cluster.machines.vanish(key("cpu-2"))
    one.cluster.machines.resume(key("cpu-3"))
    one.cluster.wake()
    jobs = one.submit(1)
    one.until_running(jobs, 300)
    one.until(lambda: len(kept(one)) == 3, 1200)


def test_a_disk_that_is_full_is_asked_less_and_less() -> None:
    one = scene(1)
    jobs = one.submit(1, seconds=100)
    one.until_running(jobs, 60)
    one.cluster.machines.fake.is_full = True
    made = one.made()
    one.pass_time(4 * 3600)
    assert kept(one) == []
    assert one.made() - made < 12, "it backs off"
    assert one.cluster.machines.running() == [], "and what could not be suspended is gone"
    one.cluster.machines.fake.is_full = False
    one.until(lambda: len(kept(one)) == 1, 2 * 3600)


def test_a_limit_that_is_lowered_and_a_policy_that_is_gone_have_them_go() -> None:
    one = scene(3)
    for left in (1, 0):
        policies = [
            "queue",
            *([{"name": "warm", "fleet": "cpu", "nodes": 0, "suspended": left}] if left else []),
        ]
        spec = one.cluster.spec
        scaling = {**spec.scaling.model_dump(), "policies": policies}
        one.cluster.bring_up(type(spec)(**{**spec.model_dump(), "scaling": scaling}))
        one.until(lambda left=left: len(ids(one)) == left, 300)  # type: ignore[misc]
        assert len(kept(one)) == left


def test_an_engine_that_is_killed_between_the_memory_and_the_state_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = begun(1)
    suspend = one.cluster.machines.suspend

    def saves_and_dies(key: MachineKey) -> None:
        suspend(key)
        one.cluster.stack.cut()

    with monkeypatch.context() as patch:
        patch.setattr(one.cluster.machines, "suspend", saves_and_dies)
        one.until(lambda: bool(kept(one)), 600)
    was = ids(one)
    assert one.cluster.stack.recorded["cpu-1"].pending, "its memory is there, and nobody wrote that down"
    one.until(lambda: len(seen(one)) == len(ids(one)) == 1 and not one.desired(), 900)
    assert was & ids(one) == set()


@given(
    st.lists(st.sampled_from(["daemon", "engine", "wait", "job", "lose", "vanish"]), max_size=8), st.data()
)
@runs(25)
def test_whoever_is_killed_whenever_they_are_kept_and_jobs_run(story: list[str], data: st.DataObject) -> None:
    """The daemon or the engine dies in the middle of anything; afterwards all is as it should be."""
    one = scene(2)
    for what in story:
        one.pass_time(data.draw(st.floats(0.1, 40)))
        names = kept(one)
        if what == "daemon":
            one.daemon.kill()
            one.daemon = one.start("other")
        elif what == "engine":
            one.cluster.stack.cut()
        elif what == "job":
            one.submit(1, seconds=data.draw(st.floats(1, 300)))
        elif what == "lose" and names:
            one.cluster.machines.lose_memory(key(names[0]))
        elif what == "vanish" and names:
            one.cluster.machines.vanish(key(names[0]))
    one.until(lambda: not one.cluster.slurm.queue.waiting and not one.cluster.slurm.queue.running, 3600)
    one.until(lambda: len(kept(one)) == 2 and one.desired() == [] and len(ids(one)) == 2, 7200)
    one.laws.judge_end(one.jobs)
