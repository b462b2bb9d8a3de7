"""What happened elsewhere, by its name in docs/faults.md."""

from __future__ import annotations

from tests.simulation.scene import Scene
from tidepool.cluster.failures import Transient
from tidepool.scaling.decision import Launch, Remove


def test_nodes_that_hang_in_their_boot_are_shown_and_replaced() -> None:
    """ParallelCluster 7577, node 702: they hung for nine days, and nobody counted them."""
    scene = Scene()
    scene.cluster.machines.fake.mute(*(f"cpu-{number}" for number in range(1, 5)))
    jobs = scene.submit(4, seconds=100)
    scene.pass_time(45)
    look = scene.cluster.journal.last_look()
    assert look is not None
    backoffs = look.decision.memory.node_backoffs
    assert {backoffs[name].cause for name in ("cpu-1", "cpu-2", "cpu-3", "cpu-4")} == {"boot"}
    scene.until_running(jobs, 1800)
    scene.ends_well()


def test_a_quota_error_makes_no_loop_of_creating_and_deleting() -> None:
    """Cluster-toolkit 3225."""
    scene = Scene()
    scene.cluster.machines.fake.quota = 0
    scene.submit(3, seconds=60)
    scene.pass_time(3600)
    assert scene.cluster.machines.fake.calls["create"] < 120
    assert scene.made() == 0
    scene.cluster.machines.fake.quota = None
    scene.ends_well()


def test_an_array_grows_in_one_step() -> None:
    """CycleCloud 9: one node at a time."""
    scene = Scene()
    scene.submit(1, seconds=100, array="1-8")
    scene.until(lambda: len(scene.cluster.slurm.queue.running) == 8, 10)
    launches = [
        about["intent"].action
        for what, about in scene.said
        if what == "intends" and isinstance(about["intent"].action, Launch)
    ]
    assert [len(launch.nodes) for launch in launches] == [8]
    scene.ends_well()


def test_the_node_that_goes_is_the_one_that_is_meant() -> None:
    """Magic Castle 265, cluster-autoscaler 8494 and 5465: a count removed others."""
    scene = Scene()
    long, short = scene.submit(1, seconds=900), scene.submit(2, seconds=50)
    scene.until_running([*long, *short])
    place = scene.cluster.slurm.queue.running[long[0]].nodelist
    scene.until(lambda: len(scene.cluster.machines.running()) == 1, 300)
    assert [key.node for key in scene.cluster.machines.running()] == [place]
    removed = {
        node
        for what, about in scene.said
        if what == "intends" and isinstance(about["intent"].action, Remove)
        for node in about["intent"].action.nodes
    }
    assert place not in removed
    scene.ends_well()


def test_a_node_that_is_removed_leaves_slurm() -> None:
    """Magic Castle 58: they stayed in Slurm."""
    scene = Scene()
    jobs = scene.submit(3, seconds=50)
    scene.until_running(jobs)
    scene.ends_well()
    assert all(node.state.is_slot for node in scene.cluster.slurm.all_nodes())


def test_a_fleet_that_fails_holds_back_no_other() -> None:
    """Cluster-autoscaler 7928, Karpenter 2497: one bad group stopped all."""
    scene = Scene()
    scene.cluster.machines.fake.mute(*(f"gpu-{number}" for number in (1, 2)))
    scene.submit(1, partition="main", gres="gpu:1", tasks=1, seconds=50)
    scene.pass_time(5)
    jobs = scene.submit(4, seconds=50)
    scene.until_running(jobs, 60)
    scene.cluster.machines.fake.unmute("gpu-1", "gpu-2")
    scene.ends_well()


def test_one_node_that_fails_holds_back_none_of_its_fleet() -> None:
    scene = Scene()
    scene.cluster.machines.fake.fail(Transient("this one not"))
    jobs = scene.submit(4, seconds=50)
    scene.until(lambda: len(scene.cluster.slurm.queue.running) >= 3, 20)
    scene.until(lambda: all(job in scene.laws.ended or scene.running([job]) for job in jobs), 300)
    scene.ends_well()
