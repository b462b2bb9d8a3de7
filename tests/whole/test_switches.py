"""Random switches of a pool under load, with fixed seeds: no work lost, no machine in two roles, nothing left behind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.breathing import Daemon
from tests.whole.pool_load import Load
from tests.whole.pool_watch import Watch
from tests.whole.pools import PoolCluster, a_pool_cluster
from tests.whole.switching import Switching, switches

#: `bench/switches.py` does 500, of other seeds.
SWITCHES = 10
SEED = 1


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    images = golden_store("debian-12", CONVERGED)
    with a_pool_cluster(tmp_path_factory.mktemp("switches"), images, 3, minimum_stay_s=100_000) as it:
        yield it


@pytest.mark.slow
@needs_kubernetes
def test_nothing_is_lost_and_nothing_is_left(pool: PoolCluster) -> None:
    load, watch = Load(pool, random.Random(SEED), prefix=f"s{SEED}"), Watch(pool)
    load.begin()
    run = Switching(pool, load, watch, Daemon.start(pool), print)
    try:
        with watch.watching():
            for number, switch in enumerate(islice(switches(SEED, pool.names), SWITCHES)):
                run.step(number, switch)
            run.check_all()
    finally:
        if run.daemon is not None:
            run.daemon.kill()
    watch.check(looks=SWITCHES)
    assert run.ended["done"] > 0
    assert run.struck.total() > 0


@given(st.integers(), st.integers(min_value=1, max_value=9))
def test_the_same_seed_gives_the_same_switches_and_all_kinds_come_up(seed: int, machines: int) -> None:
    names = [f"shared-{n}" for n in range(1, machines + 1)]
    first, second = (list(islice(switches(seed, names), 300)) for _ in range(2))
    assert first == second
    assert {switch.node for switch in first} <= set(names)
    assert len(Counter(switch.blow for switch in first)) == 8
    assert {switch.is_forced for switch in first} == {True, False}
