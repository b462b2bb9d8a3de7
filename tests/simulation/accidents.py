"""Accidents, at random times, each of which ends or is put right some time later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Final

from tests.simulation.laws import Laws
from tests.simulation.machines import FaultyCluster, FaultyDaemon
from tidepool.clients.slurm import NodeFlag
from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey

#: What an accident gives back: how it is put right, and after how many seconds.
Remedy = tuple[Callable[[], None], float] | None
_FOREVER_S: Final = 7200.0


class Accidents:
    """Has about ``a_day`` accidents happen each day to ``cluster``, for ``days``. ``happened`` counts them."""

    def __init__(
        self,
        cluster: FaultyCluster,
        laws: Laws,
        daemon: FaultyDaemon,
        random: Random,
        days: float,
        a_day: float,
    ) -> None:
        self.happened: dict[str, int] = {}
        self._cluster = cluster
        self._laws = laws
        self._daemon = daemon
        self._random = random
        self._under_way = 0
        self._kinds: list[Callable[[], Remedy]] = [
            getattr(self, name) for name in sorted(dir(self)) if name.endswith("_accident")
        ]
        for _ in range(int(days * a_day)):
            # Half of them when something is going on.
            moment = random.uniform(0, days * 86400)
            cluster.clock.after(moment, self._something_happens)

    def _something_happens(self) -> None:
        accident = self._random.choice(self._kinds)
        name = accident.__name__.removesuffix("_accident").strip("_")
        remedy = accident()
        self.happened[name] = self.happened.get(name, 0) + 1
        self._cluster.wake()
        if remedy is None:
            return
        right, seconds = remedy
        self._under_way += 1
        self._laws.hampered = True

        def put_right() -> None:
            right()
            self._cluster.wake()
            self._under_way -= 1
            if not self._under_way:
                self._laws.hampered = False
                self._laws.forgive()

        self._cluster.clock.after(seconds, put_right)

    # Ours

    def _killed_accident(self) -> Remedy:
        self._daemon.kill()
        return None

    def _engine_killed_accident(self) -> Remedy:
        self._cluster.stack.cut()
        return None

    def _daemon_paused_accident(self) -> Remedy:
        self._daemon.stopped = True

        def wakes() -> None:
            self._daemon.stopped = False

        return wakes, self._random.choice([3.0, 60.0, 1800.0])

    def _locked_accident(self) -> Remedy:
        return self._setting(self._cluster.stack, "locked", True, False)

    def _state_unreadable_accident(self) -> Remedy:
        return self._setting(self._cluster.stack, "unreadable", "the state is cut off", "")

    def _operations_fail_accident(self) -> Remedy:
        return self._setting(self._cluster.stack, "failing", "the program ends with an error", "")

    def _state_too_old_accident(self) -> Remedy:
        if self._cluster.stack.recorded and not self._cluster.stack.is_busy():
            self._cluster.stack.lose(self._random.choice(sorted(self._cluster.stack.recorded)))
        return None

    def _disk_full_accident(self) -> Remedy:
        return self._setting(self._cluster.journal, "full", True, False)

    def _clock_jumps_accident(self) -> Remedy:
        clock = self._cluster.clock
        seconds = self._random.choice([-3600.0, -30.0, 30.0, 3600.0])
        clock.ahead_s += seconds

        def back() -> None:
            clock.ahead_s -= seconds

        return back, self._random.uniform(60, 3600)

    # Slurm's

    def _controller_accident(self) -> Remedy:
        how = self._random.choice(["down", "hanging", "empty", "garbled"])
        return self._setting(self._cluster.slurm, "controller", how, "up")

    def _controller_killed_accident(self) -> Remedy:
        slurm = self._cluster.slurm
        self._laws.lost_by_slurm.update(slurm.lose_since(self._cluster.clock.true - timedelta(seconds=5)))
        return self._setting(slurm, "controller", "down", "up", 5)

    def _person_drains_accident(self) -> Remedy:
        name = self._some_node()
        if name is None or name in self._laws.drained_by_people:
            return None
        slurm, held = self._cluster.slurm, self._laws.drained_by_people
        slurm.drain_by("root", name, "new memory")
        held.add(name)

        def puts_back() -> None:
            held.discard(name)
            node = slurm.look(name)
            if node is not None and not node.state.is_slot:
                slurm.flag(name, NodeFlag.DRAIN, on=False)

        return puts_back, self._random.uniform(600, _FOREVER_S)

    def _node_flag_accident(self) -> Remedy:
        name = self._some_node()
        if name is None:
            return None
        flag = self._random.choice(
            [NodeFlag.FAIL, NodeFlag.MAINTENANCE, NodeFlag.REBOOT_REQUESTED, NodeFlag.NOT_RESPONDING]
        )
        self._cluster.slurm.flag(name, flag)

        def taken_back() -> None:
            self._cluster.slurm.flag(name, flag, on=False)

        return taken_back, self._random.uniform(10, 1200)

    def _reserved_accident(self) -> Remedy:
        name = self._some_node()
        slurm = self._cluster.slurm
        if name is None or slurm.controller != "up":
            return None
        reservation = f"r{len(self.happened)}-{self._cluster.turns}"
        slurm.reserve(reservation, name)

        def ended() -> None:
            if slurm.controller == "up":
                slurm.end_reservation(reservation)

        return ended, self._random.uniform(60, 1200)

    def _requeued_accident(self) -> Remedy:
        running = sorted(self._cluster.slurm.queue.running)
        if running:
            self._cluster.slurm.preempt(self._random.choice(running))
        return None

    # The infrastructure's

    def _calls_fail_accident(self) -> Remedy:
        error: InfrastructureError = self._random.choice(
            [Transient("too many requests"), InsufficientCapacity("sold out"), Permanent("not allowed")]
        )
        self._cluster.machines.fake.fail(*[error] * self._random.randint(1, 4))
        return None

    def _answers_lost_accident(self) -> Remedy:
        self._cluster.machines.fake.lose_answers(2)
        return None

    def _not_listed_accident(self) -> Remedy:
        return self._setting(self._cluster.machines.fake, "unseen_s", 60.0, 0.0)

    def _stock_out_accident(self) -> Remedy:
        return self._setting(self._cluster.machines.fake, "stock", self._random.randint(0, 3), None)

    def _quota_accident(self) -> Remedy:
        return self._setting(self._cluster.machines.fake, "quota", self._random.randint(0, 3), None)

    def _mute_accident(self) -> Remedy:
        fake, names = self._cluster.machines.fake, self._some_names()
        fake.mute(*names)
        return (lambda: fake.unmute(*names)), self._random.uniform(60, 3600)

    def _short_accident(self) -> Remedy:
        short, names = self._cluster.machines.short, self._some_names()
        short.update(dict.fromkeys(names, "Low RealMemory"))

        def repaired() -> None:
            for name in names:
                short.pop(name, None)

        return repaired, self._random.uniform(60, 3600)

    def _kept_accident(self) -> Remedy:
        fake, names = self._cluster.machines.fake, self._some_names()
        fake.refuse_deletion(*names)
        return (lambda: fake.release(*names)), self._random.uniform(60, 3600)

    def _plug_pulled_accident(self) -> Remedy:
        if key := self._some_machine():
            self._cluster.machines.stop(key)
        return None

    def _gone_from_outside_accident(self) -> Remedy:
        key = self._some_machine()
        if key is None:
            return None
        self._cluster.machines.vanish(key)
        if self._random.random() < 0.5:
            return None

        def returns() -> None:
            machines = self._cluster.machines
            if machines.fake.known(key) is None:
                machines.return_from_the_dead(key)

        return returns, self._random.uniform(1, 3600)

    # Inside

    def _setting(self, thing: object, name: str, wrong: object, right: object, most_s: float = 900) -> Remedy:
        setattr(thing, name, wrong)
        return (lambda: setattr(thing, name, right)), self._random.uniform(1, most_s)

    def _some_machine(self) -> MachineKey | None:
        running = sorted(self._cluster.machines.running())
        return self._random.choice(running) if running else None

    def _some_node(self) -> str | None:
        key = self._some_machine()
        node = self._cluster.slurm.look(key.node) if key else None
        return None if node is None or node.state.is_slot else node.name

    def _some_names(self) -> list[str]:
        fleet = self._random.choice(self._cluster.spec.fleets)
        return [f"{fleet.name}-{number}" for number in (1, 2, 3)]
