"""Random queues and clusters for tests of growing, and what must hold of whatever is grown for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.scaling.decide.cluster_states import AT, fleet, job, node, running, seconds, spec
from tidepool.clients.slurm import Job, JobState, Node
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.demand.fit import FreeResources, Need, Offer, empty, offers, taken
from tidepool.scaling.decide.demand.pending import ruling
from tidepool.scaling.decide.grow import Growth
from tidepool.scaling.decide.packing.launch_limits import Grant
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Backoff, Drained, Launch, Memory

#: A spec's fleets: what is small, what has more of everything, and what has GPUs.
SMALL = fleet("small", 1, max_nodes=12, shape={"cpus": 4, "memory": 4000}, features=["f"])
LARGE = fleet("large", 2, max_nodes=6, shape={"cpus": 16, "memory": 32_000, "threads_per_core": 2})
GPU = fleet(
    "gpu",
    3,
    max_nodes=4,
    shape={
        "cpus": 8,
        "memory": 8000,
        "gres": [{"name": "gpu", "type": "a100", "count": 4, "files": "/dev/nvidia[0-3]"}],
    },
    features=["f"],
)
PARTITIONS = [
    {"name": "main", "default": True},
    {"name": "some", "fleets": ["large", "small"]},
    {"name": "gpus", "fleets": ["gpu"]},
]
CLUSTER = spec(SMALL, LARGE, GPU, partitions=PARTITIONS)


@dataclass(frozen=True)
class Enough:
    """An allowance: of all fleets together, and for accounts."""

    nodes: int = 1 << 30
    capped_accounts: Mapping[str, int] = field(default_factory=dict)

    def more(self, fleet: str, nodes: int, launched: Mapping[str, int], **_: object) -> Grant:
        allowed = max(0, min(nodes, self.nodes - sum(launched.values())))
        return Grant(allowed, "" if allowed == nodes else f"no more than {self.nodes} nodes")


@st.composite
def jobs(draw: st.DrawFn, job_id: int) -> Job:
    """A job whose nodes all give it the same."""
    nodes = draw(st.sampled_from([1, 1, 1, 1, 2, 3]))
    each = draw(st.sampled_from([1, 1, 2, 3, 4, 8]))
    per_cpu = draw(st.booleans())
    memory = draw(st.sampled_from([0, 100, 500, 1000, 3000]))
    cpus = nodes * each
    whole = (memory * cpus if per_cpu else memory * nodes) or 4000 * nodes
    partitions = draw(st.sampled_from([("main",), ("some",), ("gpus",), ("gpus", "some")]))
    return job(
        job_id,
        nodes=nodes,
        cpus=cpus,
        tasks=cpus,
        min_memory_mib=memory,
        tres={"cpu": str(cpus), "node": str(nodes), "mem": f"{whole}M"},
        partitions=partitions,
        tres_per_node=draw(st.sampled_from([{}, {}, {"gres/gpu": "1"}, {"gres/gpu:a100": "3"}]))
        if "gpus" in partitions
        else {},
        features=draw(st.sampled_from(["", "", "", "f", "large", "[small|large]", "nix"])),
        oversubscribe=draw(st.sampled_from(["OK"] * 8 + ["NO", "USER"])),
        priority=draw(st.integers(1, 5)),
        reason=draw(st.sampled_from(["Priority", "Resources", "", "Dependency"])),
    )


@st.composite
def queues(draw: st.DrawFn, most: int = 25) -> tuple[Job, ...]:
    """Jobs that wait; some ask for just the same."""
    chosen: list[Job] = []
    while len(chosen) < most and draw(st.booleans() if chosen else st.just(True)):
        first = draw(jobs(len(chosen) + 1))
        chosen += [first._replace(job_id=len(chosen) + 1 + more) for more in range(draw(st.integers(1, 6)))]
    return tuple(chosen)


@dataclass(frozen=True)
class Look:
    """What `grow` is given, but for the allowance."""

    cluster_state: ClusterState
    memory: Memory
    phases: Mapping[str, Phase]


@st.composite
def looks(draw: st.DrawFn, waiting: st.SearchStrategy[tuple[Job, ...]] | None = None) -> Look:
    """A cluster some of whose nodes are there in all phases, and a queue."""
    phases: dict[str, Phase] = {}
    nodes: list[Node] = []
    launches: dict[str, Launch] = {}
    drains: dict[str, Drained] = {}
    backoffs: dict[str, Backoff] = {}
    run: list[Job] = []
    for each in CLUSTER.fleets:
        for number in range(1, each.max_nodes + 1):
            name = f"{each.name}-{number}"
            phase = draw(st.sampled_from([Phase.ABSENT] * 6 + list(Phase)))
            if phase is Phase.ABSENT:
                if draw(st.integers(0, 9)) == 0:
                    backoffs[name] = Backoff("boot", 3, AT + seconds(60), "it never came up")
                continue
            phases[name] = phase
            busy = phase in (Phase.BUSY, Phase.DRAINING)
            used = draw(st.integers(1, each.shape.cpus)) if busy else 0
            if busy:
                run.append(running(1000 + len(run), name, cpus=used))
            if phase is Phase.LAUNCHING:
                since = AT - seconds(draw(st.sampled_from([1, 5, 20])))
                launches[name] = Launch(since, since + seconds(60))
            if phase in (Phase.DRAINING, Phase.DRAINED):
                drains[name] = Drained(AT, "tidepool: idle")
            shape: dict[str, Any] = {
                "cpus": each.shape.cpus,
                "memory_mib": each.shape.memory_mib,
                "threads_per_core": each.shape.threads_per_core,
                "cpus_alloc": used,
                "memory_alloc_mib": used * 100,
            }
            nodes.append(node(name, "MIXED" if busy else "IDLE", **shape))
    queue = draw(waiting if waiting is not None else queues())
    return Look(
        ClusterState(AT, CLUSTER, tuple(nodes), (*run, *queue)),
        Memory(launches=launches, drains=drains, node_backoffs=backoffs),
        phases,
    )


def after(look: Look, growth: Growth) -> Look:
    """The same world, once what was asked for is remembered and nothing of it has happened yet."""
    made = {name for launch in growth.launches for name in launch.nodes}
    launches = dict(look.memory.launches) | {name: Launch(AT, AT + seconds(60)) for name in made}
    memory = Memory(
        launches=launches,
        drains=look.memory.drains,
        node_backoffs=look.memory.node_backoffs,
        has_room_since=growth.has_room_since,
    )
    return Look(look.cluster_state, memory, dict(look.phases) | dict.fromkeys(made, Phase.LAUNCHING))


# What must hold


def check_all_told(look: Look, growth: Growth) -> None:
    """Every job that waits is told of; nodes are all or none; nothing is made for those that cannot start."""
    waiting = {each.job_id: each for each in look.cluster_state.jobs if each.state is JobState.PENDING}
    assert growth.waiting.keys() == waiting.keys()
    for each in waiting.values():
        told = growth.waiting[each.job_id]
        assert told.reason
        assert len(set(told.nodes)) == len(told.nodes)
        assert len(told.nodes) in (0, each.nodes)
        assert bool(told.nodes) is (told.standing in {"coming", "room"})
        assert ruling(each.reason).helps or told.standing == "held"
    wanted = {name for told in growth.waiting.values() for name in told.nodes}
    made = [name for launch in growth.launches for name in launch.nodes]
    assert len(set(made)) == len(made)
    assert not [name for name in made if name in look.phases or name in look.memory.node_backoffs]
    assert set(made) | growth.needed == wanted
    usable = {Phase.IDLE, Phase.BUSY, Phase.LAUNCHING, Phase.DRAINING, Phase.DRAINED}
    assert {look.phases[name] for name in growth.needed} <= usable
    undrained = {name for undrain in growth.undrains for name in undrain.nodes}
    assert undrained == {name for name in growth.needed if name in look.memory.drains}


def check_fits(look: Look, growth: Growth) -> None:
    """On no node jobs get more than it has, nor share one that somebody has alone; and it is one that they may have."""
    known = offers(CLUSTER)
    there = {node.name: node for node in look.cluster_state.nodes}
    given: dict[str, list[Job]] = defaultdict(list)
    for each in look.cluster_state.jobs:
        if each.state is JobState.PENDING:
            for name in growth.waiting[each.job_id].nodes:
                given[name].append(each)
    for name, those in given.items():
        offer = known[name.rpartition("-")[0]]
        room = empty(offer)
        if look.phases.get(name, Phase.ABSENT) not in {Phase.ABSENT, Phase.LAUNCHING}:
            node = there[name]
            room = FreeResources(
                node.cpus - node.cpus_alloc, node.memory_mib - node.memory_alloc_mib, offer.gres
            )
        left = room
        for each in those:
            asked = share(each, offer)
            gres = taken(left.gres, asked.gres)
            assert gres is not None, (name, each)
            left = FreeResources(left.cpus - asked.cpus, left.memory_mib - asked.memory_mib, gres)
        assert min(left.cpus, left.memory_mib) >= 0, (name, room, those)
        if any(each.oversubscribe == "NO" for each in those):
            assert len(those) == 1
            assert room == empty(offer)
        assert len({each.oversubscribe for each in those}) == 1
        for each in those:
            assert offer.fleet in may_have(each)


def share(each: Job, offer: Offer) -> Need:
    """What a node gives it, worked out anew."""
    cpus = -(-each.cpus // each.nodes)
    threads = offer.threads_per_core
    cpus = -(-cpus // threads) * threads
    per_cpu = (
        each.tres["mem"] == f"{each.min_memory_mib * each.cpus}M" != f"{each.min_memory_mib * each.nodes}M"
    )
    memory_mib = each.min_memory_mib * (cpus if per_cpu else 1) or offer.memory_mib
    counts = [int(count) for count in each.tres_per_node.values()]
    return Need(cpus, memory_mib, (((0,), counts[0]),) if counts else ())


def may_have(each: Job) -> set[str]:
    """The fleets of a job's partitions that have its features."""
    of_partitions = {"main": {"small", "large", "gpu"}, "some": {"small", "large"}, "gpus": {"gpu"}}
    of_features = {
        "": {"small", "large", "gpu"},
        "f": {"small", "gpu"},
        "large": {"large"},
        "[small|large]": {"small", "large"},
        "nix": set[str](),
    }
    return set().union(*(of_partitions[name] for name in each.partitions)) & of_features[each.features]


def launched(growth: Growth) -> Counter[str]:
    """By fleet, how many nodes are to be made."""
    return Counter({launch.fleet: len(launch.nodes) for launch in growth.launches})
