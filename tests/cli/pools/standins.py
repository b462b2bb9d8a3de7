"""A person with a pool of four machines: an engine that carries conversions out as the provider does, in memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cli.standins import CONTROLLER, OUTPUTS, SPEC, FakeEngine, Person
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.contract import KubernetesClient
from tidepool.clients.kubernetes.objects import POOL_LABEL, STACK_LABEL
from tidepool.clients.slurm import Slots
from tidepool.cluster.desired_state import DesiredNodes
from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion.journal import Journal
from tidepool.conversion.record import Conversion, Phase, Work
from tidepool.journals.processes import new_driver

POOL: Mapping[str, Any] = {
    "name": "shared",
    "subnet": "10.99.2.0/24",
    "machines": 4,
    "shape": {"cpus": 1, "memory": "64MiB"},
    "slurm_min": 1,
    "deadline_s": 600,
}
KUBERNETES: Mapping[str, Any] = {"access": "kube", "server": "https://10.99.0.4:6443"}
POOLED: Mapping[str, Any] = {**SPEC, "pools": [POOL], "kubernetes": {}}
NODE = {POOL_LABEL: "shared", STACK_LABEL: "dev"}


def outputs(serving: str = "", **changes: Any) -> dict[str, Any]:
    """Of a stack with the pool, of which ``serving`` serve Kubernetes."""
    others = ",".join(f"shared-{n}" for n in range(1, 5) if f"shared-{n}" not in serving.split(","))
    pools = {"shared": {"slurm": others, "kubernetes": serving}}
    return {**OUTPUTS, "spec": {**POOLED, **changes}, "pools": pools, "kubernetes": KUBERNETES}


@dataclass
class Converting(FakeEngine):
    """An `up` of roles drives the conversions of its targets to ``ends``, with ``work`` on the way there."""

    journal: Journal | None = None
    ends: Phase = "done"
    text: str = ""
    work: tuple[Work, ...] = ()
    #: The `up` waits for it while it empties; who cancels is heard.
    may_go_on: threading.Event = field(default_factory=threading.Event)
    emptying: threading.Event = field(default_factory=threading.Event)
    wishes: list[DesiredNodes | None] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    #: Not 0: what the `up` ends with, with nothing written into the graph, when all conversions have ended.
    after: int = 0

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        code = super().run(words, folder, env, aside=aside)
        if words[0] != "up":
            return code
        self.before()
        self.wishes.append(DesiredNodes.read(env))
        targets = [word.rpartition("::")[2] for word in words if word.startswith("**tidepool:pool:Role::")]
        assert self.journal is not None
        ended = [
            self._drive(going) for node in targets if (going := self.journal.under_way(node)) is not None
        ]
        return self.after or (0 if all(each.phase == "done" for each in ended) else 255)

    def _drive(self, conversion: Conversion) -> Conversion:
        journal = self.journal
        assert journal is not None
        driver = new_driver()
        assert journal.take_over(conversion.id, driver, datetime.now(UTC), 30)
        conversion = journal.conversion(conversion.id)
        conversion = self._enter(conversion, "emptying", work=self.work)
        self.emptying.set()
        if self.work:
            deadline = time.monotonic() + 60
            while not self.may_go_on.wait(0.01):
                assert time.monotonic() < deadline, "nobody let it go on, or cancelled it"
                if journal.conversion(conversion.id).cancel_by:
                    return self._enter(journal.conversion(conversion.id), "stopped", text="cancelled")
        return self._enter(conversion, self.ends, text=self.text)

    def _enter(self, conversion: Conversion, phase: Phase, **more: Any) -> Conversion:
        assert self.journal is not None
        now = datetime.now(UTC)
        ended = now if phase in ("done", "stopped", "failed") else None
        began = FrozenDict({**conversion.began, phase: now})
        return self.journal.write(replace(conversion, phase=phase, began=began, ended=ended, **more))


@dataclass
class PoolPerson(Person):
    """Somebody whose cluster has the pool."""

    kubernetes: FakeKubernetes
    journal: Journal
    engine: Converting

    def serving(self, *nodes: str) -> None:
        """These serve Kubernetes, the others Slurm."""
        self.engine.outputs = outputs(",".join(nodes))
        for node in nodes:
            self.kubernetes.add_node(node, labels=NODE)


def pool_person(somebody: Person) -> PoolPerson:
    """``somebody`` with it; all machines serve Slurm."""
    kubernetes = FakeKubernetes()

    def open_kubernetes(connection: Mapping[str, Any], _data: Path) -> KubernetesClient:
        assert connection == {"stack": "dev", **KUBERNETES}
        return kubernetes

    path = somebody.context.data / "dev" / "conversions.db"
    path.parent.mkdir(parents=True)
    (somebody.context.data / "state").mkdir()
    journal = Journal(path, power_safe=False)
    engine = Converting(outputs=outputs(), journal=journal)
    context = replace(
        somebody.context,
        env={**somebody.context.env, "USER": "ada", "TIDEPOOL_IMAGES": os.devnull},
        engine=engine,
        open_kubernetes=open_kubernetes,
    )
    somebody.slurm.create_slots(Slots("shared-[1-4]", addresses="10.99.2.[1-4]", cpus=1, memory_mib=64))
    somebody.slurm.boot("shared-1", "shared-2", "shared-3", "shared-4")
    assert CONTROLLER["machine"] == "ctl"
    somebody.write(pools=[POOL], kubernetes={})
    return PoolPerson(somebody.folder, context, engine, somebody.slurm, kubernetes, journal)
