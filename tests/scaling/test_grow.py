"""What holds of growing, whatever waits and whatever is there."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scaling.queues import (
    CLUSTER,
    Enough,
    Look,
    after,
    check_all_told,
    check_fits,
    launched,
    looks,
    queues,
    share,
)
from tests.scaling.worlds import AT, fleet, job, node, running, seconds, spec
from tidepool.scaling.demand.fit import empty
from tidepool.scaling.demand.offer import offers
from tidepool.scaling.grow import GIVEN_UP_AFTER, Growth, grow
from tidepool.scaling.memory import Launch, Memory, Setback
from tidepool.scaling.phase import Phase
from tidepool.scaling.world import World
from tidepool.slurm import Job

ROOMY = spec(fleet("large", 1, max_nodes=200, shape={"cpus": 16, "memory": 32_000}))
_RUNS = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def grown(look: Look, allowance: Enough | None = None, horizon_s: int | None = None) -> Growth:
    return grow(look.world, look.memory, look.phases, allowance or Enough(), horizon_s=horizon_s)


@given(looks())
@_RUNS
def test_jobs_fit_where_they_are_put_and_all_are_told_of(look: Look) -> None:
    growth = grown(look)
    check_all_told(look, growth)
    check_fits(look, growth)


@given(looks(), st.integers(0, 6))
@_RUNS
def test_never_more_than_is_allowed(look: Look, most: int) -> None:
    growth = grown(look, Enough(most))
    check_all_told(look, growth)
    check_fits(look, growth)
    assert sum(launched(growth).values()) <= most


@given(looks(), st.sampled_from([None, 0, 3]), st.sampled_from([None, 7200]))
@_RUNS
def test_a_second_look_does_nothing_more(look: Look, most: int | None, horizon_s: int | None) -> None:
    first = grown(look, None if most is None else Enough(most), horizon_s)
    # What was launched counts by now, so that nothing is left of the allowance.
    left = None if most is None else Enough(most - sum(launched(first).values()))
    second = grown(after(look, first), left, horizon_s)
    assert second.launches == ()
    assert second.undrains == first.undrains
    assert second.has_room_since == first.has_room_since
    assert {id: told.nodes for id, told in second.waiting.items()} == {
        id: told.nodes for id, told in first.waiting.items()
    }


@given(looks(), st.randoms(use_true_random=False), st.integers(0, 20), st.sampled_from([None, 7200]))
@_RUNS
def test_the_order_of_what_is_seen_does_not_matter(
    look: Look, chance: random.Random, most: int, horizon_s: int | None
) -> None:
    world = look.world
    other = replace(
        look,
        world=replace(
            world,
            nodes=tuple(chance.sample(world.nodes, len(world.nodes))),
            jobs=tuple(chance.sample(world.jobs, len(world.jobs))),
        ),
        phases=dict(chance.sample(list(look.phases.items()), len(look.phases))),
    )
    assert grown(look, Enough(most), horizon_s) == grown(other, Enough(most), horizon_s)


@given(queues(most=60))
@_RUNS
def test_little_more_than_the_least_possible_is_launched(queue: tuple[Job, ...]) -> None:
    plain = tuple(each._replace(features="", partitions=("main",), tres_per_node={}) for each in queue)
    growth = grow(World(AT, ROOMY, (), plain), Memory(), {}, Enough())
    assert launched(growth)["large"] <= 1.2 * least(plain) + 1


def least(queue: tuple[Job, ...]) -> int:
    """Fewer nodes would not do: for the sums of who may share, for what is more than half a node, for the widest."""
    offer = offers(ROOMY)["large"]
    room = empty(offer)
    nodes = widest = 0
    for sharing in ("OK", "USER", "NO"):
        asked = [
            (share(each, offer), each.nodes)
            for each in queue
            if each.oversubscribe == sharing and each.reason != "Dependency"
        ]
        cpus = sum(need.cpus * count for need, count in asked)
        memory_mib = sum(need.memory_mib * count for need, count in asked)
        halves = sum(
            count
            for need, count in asked
            if sharing == "NO" or need.cpus * 2 > room.cpus or need.memory_mib * 2 > room.memory_mib
        )
        nodes += max(-(-cpus // room.cpus), -(-memory_mib // room.memory_mib), halves)
        widest = max([widest, *(count for _, count in asked)])
    return max(nodes, widest)
