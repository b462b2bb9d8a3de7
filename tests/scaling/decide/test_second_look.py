"""Who decides again before anything has happened finds that all is as it was decided."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tests.scaling.decide.cluster_states import AT, fleet, job, node, running, seconds, spec
from tests.scaling.decide.queues import CLUSTER, Enough, Look, after, launched, looks
from tidepool.clients.slurm import Job
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.grow import grow
from tidepool.scaling.decide.packing.launch_limits import Grant
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Drained, Launch, Memory


def check(look: Look, most: int | None, horizon_s: int | None) -> None:
    """A second look does nothing more, and says the same of every job."""
    allowed = Enough() if most is None else Enough(most)
    first = grow(look.cluster_state, look.memory, look.phases, allowed, horizon_s=horizon_s)
    # What was launched counts by now, so that nothing is left of the allowance.
    left = Enough() if most is None else Enough(most - sum(launched(first).values()))
    then = after(look, first)
    second = grow(then.cluster_state, then.memory, then.phases, left, horizon_s=horizon_s)
    assert second.launches == ()
    assert second.undrains == first.undrains
    assert second.has_room_since == first.has_room_since
    assert {id: told.nodes for id, told in second.waiting.items()} == {
        id: told.nodes for id, told in first.waiting.items()
    }


@given(looks(), st.sampled_from([None, 0, 3]), st.sampled_from([None, 7200]))
@runs(80)
def test_a_second_look_does_nothing_more(look: Look, most: int | None, horizon_s: int | None) -> None:
    check(look, most, horizon_s)


# Found by the property above, and told shortly.


def waits(job_id: int, nodes: int, each: int, memory_mib: int, **changes: object) -> Job:
    """A job of so many nodes, with so many CPUs and so much memory (0: all) on each."""
    tres = {"cpu": str(nodes * each), "node": str(nodes), "mem": f"{(memory_mib or 4000) * nodes}M"}
    about = {"nodes": nodes, "cpus": nodes * each, "tasks": nodes * each, "min_memory_mib": memory_mib}
    return job(job_id, **{**about, "tres": tres, "reason": "Priority", **changes})


def seen(queue: tuple[Job, ...], *, used: int = 0, **phases: Phase) -> Look:
    """Nodes in these phases (``large_2`` is large-2), no other slots, and ``used`` CPUs of those that are busy."""
    held = {f"{each.name}-{n}": Phase.HELD for each in CLUSTER.fleets for n in range(1, each.max_nodes + 1)}
    named = held | {name.replace("_", "-"): phase for name, phase in phases.items()}
    there = {name: phase for name, phase in named.items() if phase is not Phase.ABSENT}
    busy = {Phase.BUSY, Phase.DRAINING}
    nodes = []
    for name, phase in there.items():
        shape = CLUSTER.fleet(name.rpartition("-")[0]).shape
        cpus_alloc = used if phase in busy else 0
        nodes.append(
            node(
                name,
                "MIXED" if phase in busy else "IDLE",
                cpus=shape.cpus,
                memory_mib=shape.memory_mib,
                threads_per_core=shape.threads_per_core,
                cpus_alloc=cpus_alloc,
                memory_alloc_mib=cpus_alloc * 100,
            )
        )
    run = [running(1000 + n, name, cpus=used) for n, name in enumerate(there) if there[name] in busy]
    made = {
        name: Launch(AT - seconds(1), AT + seconds(59)) for name in there if there[name] is Phase.LAUNCHING
    }
    ours = {Phase.DRAINED, Phase.DRAINING}
    drains = {name: Drained(AT, "tidepool: idle") for name in there if there[name] in ours}
    return Look(
        ClusterState(AT, CLUSTER, tuple(nodes), (*run, *queue)), Memory(launches=made, drains=drains), there
    )


IDLE, DRAINED, DRAINING, LAUNCHING, ABSENT = (
    Phase.IDLE,
    Phase.DRAINED,
    Phase.DRAINING,
    Phase.LAUNCHING,
    Phase.ABSENT,
)
STORIES: dict[str, tuple[Look, int | None, int | None]] = {
    # One of three was placed beside what had just been opened, before nodes were opened for the other two.
    "nodes of this decision are one step": (
        seen(
            (
                waits(1, 1, 8, 100),
                waits(2, 2, 1, 0),
                *(waits(id, 3, 3, 100, partitions=("some",)) for id in (3, 4, 5)),
            ),
            used=9,
            small_1=IDLE,
            small_2=IDLE,
            small_3=DRAINED,
            small_12=ABSENT,
            large_1=ABSENT,
            large_2=DRAINING,
            large_5=ABSENT,
        ),
        None,
        7200,
    ),
    # By priority not all had room; on what was opened so there was room for all, the largest first.
    "what priority opened is enough for all": (
        seen(
            (waits(1, 2, 1, 100), *(waits(id, 2, 4, 100, features="[small|large]") for id in (2, 3, 4))),
            small_2=DRAINED,
            small_3=DRAINED,
            small_7=DRAINED,
            small_10=ABSENT,
            small_11=ABSENT,
            small_12=ABSENT,
            large_6=IDLE,
            large_5=ABSENT,
        ),
        3,
        None,
    ),
    # Job 4 was refused all of its nodes, and job 8 was given one after it that would have done for job 4.
    "what is opened after a refusal": (
        seen(
            (
                *(waits(id, 2, 1, 3000, priority=2) for id in (1, 2, 3, 4)),
                *(waits(id, 1, 1, 0) for id in (5, 6, 7)),
                waits(8, 1, 1, 0, partitions=("some",), priority=2),
                waits(9, 2, 1, 0, features="large", priority=3),
            ),
            small_5=LAUNCHING,
            small_6=IDLE,
            small_11=IDLE,
            small_10=ABSENT,
            small_12=ABSENT,
            large_6=IDLE,
            large_4=ABSENT,
            large_5=ABSENT,
            gpu_3=DRAINED,
        ),
        3,
        None,
    ),
    # By priority all had room where the largest first had not.
    "by priority there was enough": (
        seen(
            (
                waits(1, 1, 1, 3000),
                waits(2, 1, 1, 3000),
                waits(3, 2, 1, 0, features="large"),
                waits(4, 1, 1, 0),
                waits(5, 1, 1, 0),
            ),
            small_10=ABSENT,
            small_12=ABSENT,
            large_6=IDLE,
            large_4=ABSENT,
            large_5=ABSENT,
            gpu_3=DRAINED,
        ),
        3,
        None,
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_second_look_in_stories(story: str) -> None:
    check(*STORIES[story])


class Short(Enough):
    """A budget that is enough for jobs of up to an hour."""

    def more(self, fleet: str, nodes: int, launched: Mapping[str, int], **asked: object) -> Grant:
        limit_s = asked["time_limit_s"]
        short = isinstance(limit_s, int) and limit_s <= 3600
        return Grant(nodes) if short else Grant(0, "the budget is not enough for it")


@pytest.mark.parametrize("horizon_s", [None, 7200])
def test_a_node_that_a_budget_allowed_for_one_job_is_not_made_again_for_another(
    horizon_s: int | None,
) -> None:
    cluster = spec(fleet("cpu", 1, max_nodes=8), limits={"budget_usd_per_month": 100})
    queue = (
        job(1, cpus=4, priority=9, time_limit_s=7200),
        job(2, cpus=4, priority=1, time_limit_s=600),
    )
    cluster_state = ClusterState(AT, cluster, (), queue)
    first = grow(cluster_state, Memory(), {}, Short(), horizon_s=horizon_s)
    assert [(launch.nodes, launch.jobs) for launch in first.launches] == [(("cpu-1",), (2,))]
    made = Memory(launches={"cpu-1": Launch(AT, AT + seconds(60), (2,), 600)})
    second = grow(cluster_state, made, {"cpu-1": Phase.LAUNCHING}, Short(), horizon_s=horizon_s)
    assert second.launches == ()
    assert second.waiting == first.waiting
