"""Which slots are made, made anew and forgotten is decided without Slurm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidepool.clients.slurm import Node, NodeBase, NodeFlag, NodeState
from tidepool.clients.slurm.scontrol import Reason
from tidepool.cluster.hostlist import expand
from tidepool.provider.retirement import REASON, left_behind
from tidepool.provider.slots import SlotPlan, forgettable, in_order, moved, plan
from tidepool.resources.declarations import SlotsModel

SHAPE = SlotsModel(
    controller={},
    names="",
    addresses="",
    cpus=2,
    sockets=1,
    cores_per_socket=2,
    threads_per_core=1,
    memory_mib=500,
    features=("cpu",),
    gres="gpu:a100:2",
)
ADDRESSES = {f"cpu-{n}": f"10.77.1.{n}" for n in range(1, 4)}


def _node(name: str, base: NodeBase = NodeBase.FUTURE, **other: object) -> Node:
    node = Node(
        name,
        NodeState(base),
        address=ADDRESSES.get(name, ""),
        cpus=2,
        memory_mib=500,
        features=("cpu",),
        gres="gpu:a100:2(S:0-1)",
        cores_per_socket=2,
    )
    return node._replace(**other)  # type: ignore[arg-type]


def _plan(*there: Node) -> SlotPlan:
    return plan(ADDRESSES, SHAPE, {node.name: node for node in there})


def test_what_is_missing_is_made_and_the_rest_is_left() -> None:
    assert _plan() == SlotPlan(make=("cpu-1", "cpu-2", "cpu-3"))
    assert _plan(_node("cpu-1"), _node("cpu-3"), _node("gpu-1")) == SlotPlan(make=("cpu-2",))
    assert _plan(*map(_node, ADDRESSES)) == SlotPlan()


def test_slots_of_another_shape_or_place_are_made_anew() -> None:
    found = _plan(
        _node("cpu-1", memory_mib=700), _node("cpu-2", address="10.77.9.9"), _node("cpu-3", gres="")
    )
    assert found == SlotPlan(forget=("cpu-1", "cpu-2", "cpu-3"), make=("cpu-1", "cpu-2", "cpu-3"))


def test_slots_of_the_other_mode_are_made_anew_and_nodes_in_service_stay() -> None:
    off = NodeState(NodeBase.IDLE, frozenset({NodeFlag.CLOUD, NodeFlag.POWERED_DOWN}))
    up = NodeState(NodeBase.IDLE, frozenset({NodeFlag.CLOUD}))
    there = {
        node.name: node for node in (_node("cpu-1"), _node("cpu-2", state=off), _node("cpu-3", state=up))
    }
    assert plan(ADDRESSES, SHAPE, there) == SlotPlan(("cpu-2",), ("cpu-2",))
    cloud = SlotsModel(**{**vars(SHAPE), "state": "CLOUD"})
    assert plan(ADDRESSES, cloud, there) == SlotPlan(("cpu-1",), ("cpu-1",))


def test_a_slot_that_later_releases_powered_down_has_its_name_for_an_address_and_stays() -> None:
    cloud = SlotsModel(**{**vars(SHAPE), "state": "CLOUD"})
    off = NodeState(NodeBase.IDLE, frozenset({NodeFlag.CLOUD, NodeFlag.POWERED_DOWN}))
    there = {name: _node(name, state=off, address=name) for name in ADDRESSES}
    assert plan(ADDRESSES, cloud, there) == SlotPlan()


def test_nodes_that_a_controller_forgot_to_have_left_are_found() -> None:
    """Its power was cut when they had just left, and its state is where it outlives the cluster."""
    gone, person = Reason(REASON, "root"), Reason("new disk", "root")
    drained = NodeState(NodeBase.DOWN, frozenset({NodeFlag.DRAIN, NodeFlag.NOT_RESPONDING}))
    cloud = NodeState(NodeBase.IDLE, frozenset({NodeFlag.CLOUD, NodeFlag.DRAIN}))

    def found(**about: object) -> tuple[str, ...]:
        node = _node("cpu-1", **{"state": drained, "reason": gone, **about})  # type: ignore[arg-type]
        return left_behind(ADDRESSES, {node.name: node})

    assert found() == ("cpu-1",)
    assert not found(reason=person)
    assert not found(reason=None)
    assert not found(cpus_alloc=1)
    assert not found(state=NodeState(NodeBase.IDLE))
    assert not found(state=NodeState(NodeBase.FUTURE))
    assert not found(state=cloud)


def test_nodes_in_service_only_get_features() -> None:
    up = _node("cpu-1", NodeBase.IDLE, memory_mib=700, features=("cpu", "avx"))
    assert _plan(up, _node("cpu-2", features=()), _node("cpu-3")) == SlotPlan(
        give_features=("cpu-1", "cpu-2")
    )


def test_only_slots_are_forgotten() -> None:
    there = {node.name: node for node in (_node("cpu-1", NodeBase.DOWN), _node("cpu-2"))}
    assert forgettable(ADDRESSES, there) == ("cpu-2",)


def test_names_whose_address_changed_have_moved() -> None:
    assert moved(ADDRESSES, ADDRESSES | {"cpu-4": "10.77.1.4"}) == ()
    assert moved(ADDRESSES, {"cpu-2": "10.77.1.9"}) == ("cpu-2",)


@given(st.lists(st.integers(1, 300), unique=True, max_size=20))
def test_hostlists_keep_the_order_that_pairs_names_and_addresses(numbers: list[int]) -> None:
    names = [f"10.77.{number // 256}.{number % 256}" for number in numbers]
    assert expand(in_order(names)) == names
