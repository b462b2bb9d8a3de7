"""One story of pools: a random cluster, jobs and pods that come in turns, what people and accidents do, and its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.machines import Cut
from tests.simulation.pool_scene import PoolScene, pool
from tidepool.clients.slurm import SlurmError
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import Role
from tidepool.conversion.ports import NotOrdered
from tidepool.conversion.record import Order
from tidepool.scaling.ports import StackError

_LASTING_S = 600.0
#: All that waits is done by then: jobs, deadlines of conversions that were cut off, set-backs.
_DONE_S = 4 * 3600.0
_QUIET_S = 3600.0


class PoolStory:
    """The story of ``seed``. The same seed tells the same. Without ``accidents`` only demand comes and goes."""

    def __init__(self, seed: int, folder: Path, *, accidents: bool) -> None:
        self.random = Random(seed)
        self.accidents = accidents
        pools = [self._pool("shared", 1)]
        if self.random.random() < 0.4:
            pools.append(self._pool("more", 2))
        self.scene = PoolScene(folder, *pools)
        # What fails halfway serves nobody for a while.
        self.scene.counts = not accidents
        for _ in range(self.random.randint(2, 8)):
            self._later(self.random.choice([self._jobs, self._pods]))
        for _ in range(self.random.randint(1, 5) if accidents else 0):
            self._later(self.random.choice(self._happenings()))

    def tell(self) -> None:
        """Run it to its end, and look at what is left."""
        scene, cluster = self.scene, self.scene.cluster
        cluster.run(_LASTING_S)
        self._end_accidents()
        scene.until(self._is_done, _DONE_S)
        scene.until(self._is_quiet, _QUIET_S)
        assert self.accidents or not self._evicted(), "a move of an idle machine takes no pod away"
        for each in scene.pools.journal.conversions():
            taken = [work for work in each.work if work.fate not in ("runs", "ended")]
            assert each.order.by != "scaler" or not taken, each
        scene.judge_stays()
        if not self.accidents:
            wanted = len(scene.pods) + sum(scene.nodes_of.values())
            assert sum(map(len, scene.moves.values())) <= wanted + len(scene.pools.machines)
        for name, machine in scene.pools.machines.items():
            record = cluster.stack.roles[name]
            assert machine.running == {record.role}, f"{name} is {machine.running}, and recorded as {record}"

    # What comes

    def _pool(self, name: str, number: int) -> dict[str, Any]:
        random = self.random
        machines = random.randint(2, 5)
        return pool(
            name,
            number,
            machines=machines,
            slurm_min=random.choice([0, 0, 1]),
            kubernetes_min=random.choice([0, 0, 1]),
            kubernetes_max=random.choice([None, None, machines - 1]),
            prefers=random.choice(["slurm", "kubernetes"]),
            idle_s=random.choice([0, 5, 10]),
            minimum_stay_s=random.choice([0, 30, 60]),
            deadline_s=120,
        )

    def _later(self, happens: Callable[[], None]) -> None:
        self.scene.cluster.clock.after(self.random.uniform(0, _LASTING_S), happens)

    def _jobs(self) -> None:
        nodes = self.random.choice([1, 1, 1, 2])
        # Of one node each, where the limits would never let two be there at once.
        most = min(each.most("slurm") - each.least("kubernetes") for each in self.scene.cluster.spec.pools)
        nodes = nodes if most >= 2 else 1
        count, lasting_s = self.random.randint(1, 4), self.random.choice([5, 30, 90])
        try:
            self.scene.submit(count, lasting_s, nodes=str(nodes), tasks=2 * nodes)
        except SlurmError:
            return  # The controller is away, and whoever submits tries again some other time.

    def _pods(self) -> None:
        count, lasting_s = self.random.randint(1, 6), self.random.choice([5, 30, 90])
        self.scene.want(count, lasting_s, self.random.choice([500, 1000, 2000]))

    # Accidents, and people

    def _happenings(self) -> list[Callable[[], None]]:
        return [
            self.scene.daemon.kill,
            self._cut,
            self._no_kubernetes,
            self._no_slurm,
            self._cordoned,
            self._drained,
            self._person_converts,
            self._person_orders_and_is_gone,
        ]

    def _cut(self) -> None:
        """The engine dies at the next conversion, somewhere in it."""
        self.scene.cluster.clock.after(self.random.uniform(0, 60), self.scene.cluster.stack.cut)
        for _ in range(40):
            self.scene.cluster.clock.after(self.random.uniform(0, 120), self.scene.cluster.stack.cut)

    def _no_kubernetes(self) -> None:
        kubernetes = self.scene.pools.kubernetes
        kubernetes.api = self.random.choice(["down", "hanging", "unauthorized"])
        self.scene.cluster.clock.after(self.random.uniform(1, 120), self._kubernetes_is_back)

    def _kubernetes_is_back(self) -> None:
        self.scene.pools.kubernetes.api = "up"
        self.scene.cluster.wake()

    def _no_slurm(self) -> None:
        self.scene.cluster.slurm.controller = self.random.choice(["down", "empty", "garbled"])
        self.scene.cluster.clock.after(self.random.uniform(1, 60), self._slurm_is_back)

    def _slurm_is_back(self) -> None:
        self.scene.cluster.slurm.controller = "up"
        self.scene.cluster.wake()

    def _cordoned(self) -> None:
        nodes = self.scene.pools.kubernetes.all_nodes()
        if nodes:
            name = self.random.choice(nodes).name
            self.scene.pools.kubernetes.alter_node(name, unschedulable=True)
            self.scene.held.add(name)

    def _drained(self) -> None:
        slurm = self.scene.cluster.slurm
        names = [n.name for n in slurm.all_nodes() if n.state.takes_jobs and not n.state.is_draining]
        if names and slurm.controller == "up":
            name = self.random.choice(names)
            slurm.drain_by("ada", name, "broken fan")
            self.scene.held.add(name)

    def _person_converts(self) -> None:
        """As `tidepool convert` does: an order, and then an `up`."""
        if (order := self._order()) is not None:
            self._drive(order)

    def _person_orders_and_is_gone(self) -> None:
        """Killed between the order and the `up`."""
        self._order()

    def _order(self) -> Order | None:
        scene = self.scene
        name = self.random.choice(sorted(scene.pools.machines))
        its = scene.pools.machines[name].pool
        roles = scene.roles(its.name)
        role = roles[name]
        if role is None or not _has_room(its, role, list(roles.values())):
            return None
        to: Role = "slurm" if role == "kubernetes" else "kubernetes"
        order = Order(
            name,
            its.name,
            to,
            scene.cluster.clock.true,
            "person",
            "a test",
            deadline_s=60,
            at_deadline="stop",
        )
        try:
            scene.pools.journal.order(order, role)
        except NotOrdered:
            return None
        return order

    def _drive(self, order: Order) -> None:
        stack = self.scene.cluster.stack
        serving = {
            name for name, record in stack.roles.items()
            if record.role == "kubernetes" and name.rpartition("-")[0] == order.pool
        }  # fmt: skip
        serving = serving - {order.node} if order.to == "slurm" else serving | {order.node}
        try:
            stack.convert({order.pool: HostSet.from_names(sorted(serving))}, [order.node])
        except (StackError, Cut):
            return  # Somebody else is at it, or the engine is killed.

    # The end

    def _end_accidents(self) -> None:
        scene = self.scene
        scene.pools.kubernetes.api = "up"
        scene.cluster.slurm.controller = "up"
        for name in scene.held:
            node = scene.cluster.slurm.look(name)
            if node is not None and node.state.is_draining and not node.state.is_slot:
                scene.cluster.slurm.undrain(name)
            for each in scene.pools.kubernetes.all_nodes():
                if each.name == name and each.unschedulable and not each.reason:
                    scene.pools.kubernetes.alter_node(name, unschedulable=False)
        scene.held.clear()
        scene.cluster.wake()

    def _is_done(self) -> bool:
        scene = self.scene
        # What a person's conversion evicts nobody remakes here.
        return scene.done(scene.jobs) and scene.have_run([p for p in scene.pods if p not in self._evicted()])

    def _evicted(self) -> set[str]:
        return {key for how, key in self.scene.pools.kubernetes.log if how == "evict"} - self.scene.ended

    def _is_quiet(self) -> bool:
        scene = self.scene
        if any(each.is_under_way for each in scene.pools.journal.conversions()):
            return False
        records = scene.cluster.stack.roles
        return all(
            machine.running == {records[name].role} and not records[name].pending
            for name, machine in scene.pools.machines.items()
        )


def _has_room(pool: ConvergedPool, role: Role, roles: list[Role | None]) -> bool:
    """Whether `tidepool convert` would let one that has ``role`` go."""
    other: Role = "slurm" if role == "kubernetes" else "kubernetes"
    return roles.count(role) > pool.least(role) and roles.count(other) < pool.most(other)
