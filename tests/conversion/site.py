"""A machine between a Slurm and a Kubernetes in memory: the real sides, the real journal, the real driver, one clock.

Every call of a client, of the machine and of the journal is a moment, before it and after it: there things happen, and the
driver may be killed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.conversion.world import Killed
from tests.simulation.kubernetes.fake import FakeKubernetes
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.kubernetes.objects import POOL_LABEL, STACK_LABEL, BootstrapToken, Pod
from tidepool.clients.slurm import JobRequest, JobState, Slots
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.convert import Parties, convert
from tidepool.conversion.journal import Journal
from tidepool.conversion.kubernetes_side import KubernetesSide
from tidepool.conversion.ports import ConversionError
from tidepool.conversion.record import Conversion, Order
from tidepool.conversion.slurm_side import SlurmSide

START = datetime(2026, 11, 22, 12, tzinfo=UTC)
NODE = "shared-1"
#: As its kubelet is told to label its Node.
LABELS = {POOL_LABEL: "shared", STACK_LABEL: "dev"}
_CALL = timedelta(milliseconds=5)


class Site:
    """The whole, and what must hold of it at every moment."""

    def __init__(self, folder: Path) -> None:
        self.time = START
        self.happenings: Callable[[], None] = lambda: None
        self.killed = False
        self.dead: set[str] = set()
        self.broken: list[str] = []
        self.slurm = FakeSlurm(self.clock, requeue_s=1, slurmd_timeout_s=60, completing_s=0.2)
        self.slurm.create_slots(Slots(f"{NODE}", "10.0.0.1", 4, 1000))
        self.slurm.create_slots(Slots("other-1", "10.0.0.2", 4, 1000))
        self.slurm.boot("other-1")
        self.kubernetes = FakeKubernetes(self.clock)
        self.machine = Machine(self)
        self.journal = Journal(
            folder / "conversions.db", now=self.clock, dead=self.dead.__contains__, power_safe=False
        )
        self.pods: dict[str, Pod] = {}
        self.jobs: set[int] = set()

    def clock(self) -> datetime:
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.moment()

    def moment(self) -> None:
        """Something may happen here."""
        if self.killed:
            raise Killed
        self.time += _CALL
        self.machine.pass_time()
        self.happenings()
        self.check()
        if self.killed:
            raise Killed

    # Who works there

    def job(self, run_s: float, *, requeue: bool) -> None:
        """Somebody submits a job."""
        script = f"#!/bin/sh\nsleep {run_s}\n"
        controller, self.slurm.controller = self.slurm.controller, "up"
        self.jobs.add(
            self.slurm.submit(JobRequest(script, cpus_per_task=1, memory_mib=10, requeue=requeue)).job_id
        )
        self.slurm.controller = controller

    def pod(self, name: str, **more: Any) -> None:
        """Somebody wants a pod."""
        self.kubernetes.add_pod(name, **more)

    # Conversions

    def order(self, to: Role, **more: Any) -> Conversion:
        roles = self.machine.roles_now()
        leaves: Role | None = next((role for role in sorted(roles) if role != to), next(iter(roles), None))
        more = {"by": "person", "reason": "a test", **more}
        return self.journal.order(Order(NODE, "shared", to, self.time, **more), leaves)

    def drive(self, conversion: Conversion) -> Conversion:
        """A process of its own: what is only in memory is new."""
        inbox: list[BootstrapToken] = []
        slurm: Any = _Called(self, self.slurm)
        kubernetes: Any = _Called(self, self.kubernetes)
        journal: Any = _Called(self, self.journal)
        side = KubernetesSide(kubernetes, NODE, "shared", "dev", inbox.append, now=self.clock)
        parties = Parties(
            _Reached(self, inbox),
            {"slurm": SlurmSide(slurm, NODE, self.clock), "kubernetes": side},
        )
        return convert(conversion, parties, journal, now=self.clock, wait=self.wait, told=lambda _: None)

    def drive_through(self, conversion: Conversion) -> Conversion:
        """Drive it, again and again while drivers are killed, as whoever comes next does."""
        while True:
            try:
                return self.drive(conversion)
            except Killed:
                self.killed = False
                self.dead.add(self.journal.conversion(conversion.id).driver)

    # What must hold

    def check(self) -> None:
        machine = self.machine
        assert len(machine.running) <= 1, f"it has two roles: {machine.running}"
        assert not (self.slurm_gives_work() and self.kubernetes_gives_work()), "both sides give it work"
        for job_id in self.jobs:
            for job in self.slurm.queue.records(job_id):
                if job.state in (JobState.CANCELLED, JobState.NODE_FAIL):
                    assert job_id in self.slurm.told, (
                        f"job {job_id} ended as {job.state}, and nobody was told"
                    )
        told = {each.uid for each in self.kubernetes.told}
        now = {pod.uid: pod for pod in self.kubernetes._pods.values()}
        evicted = {key for how, key in self.kubernetes.log if how == "evict"}
        for uid, pod in self.pods.items():
            if uid not in now and pod.node == NODE and pod.phase == "Running" and uid not in told:
                remade = bool(pod.owner) and pod.key in evicted
                assert remade or pod.has_ended, f"the pod {pod.key} is gone, and nobody was told"
        self.pods = now
        assert self.broken == []

    def check_records(self) -> None:
        """Of all that was taken away, whose owners were told, some conversion tells."""
        recorded = {
            (work.kind, work.name)
            for each in self.journal.conversions(limit=10_000)
            for work in each.work
            if work.fate != "runs"
        }
        jobs = {("job", str(job_id)) for job_id in self.slurm.told}
        pods = {("pod", told.pod) for told in self.kubernetes.told}
        assert jobs | pods <= recorded

    def slurm_gives_work(self) -> bool:
        node = self.slurm.look(NODE)
        return node is not None and node.state.takes_jobs and "slurm" in self.machine.running

    def kubernetes_gives_work(self) -> bool:
        node = self.kubernetes._nodes.get(NODE)
        return node is not None and node.takes_pods and "kubernetes" in self.machine.running

    def leftovers(self) -> list[str]:
        """What should not be there, of roles that it has not."""
        found = []
        node = self.slurm.look(NODE)
        if "slurm" not in self.machine.running:
            found += ["the node in Slurm"] * (node is None or not node.state.is_slot)
        if "kubernetes" not in self.machine.running:
            found += ["the Node"] * (NODE in self.kubernetes._nodes)
            found += ["its lease"] * (NODE in self.kubernetes._leases)
            found += [f"the token {token}" for token in self.kubernetes._tokens]
            found += [f"the request {each}" for each in self.kubernetes._requests]
        extra = self.machine.credentials - self.machine.running
        return [*found, *(f"credentials of {role}" for role in extra)]


class Machine:
    """What runs there, and when slurmd, which was started, registers."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.running: set[Role] = set()
        self.credentials: set[Role] = set()
        self.registers: datetime | None = None
        #: Each is a verb and a role that fails.
        self.faults: set[str] = set()
        #: Whose image its disk has; None: one for both. When it answers, and what never boots.
        self.disk: Role | None = None
        self.up = START
        self.unbootable: set[Role] = set()

    def roles_now(self) -> frozenset[Role]:
        return frozenset(self.running | self.credentials)

    def pass_time(self) -> None:
        site = self._site
        if self.registers is not None and site.time >= self.registers and site.slurm.controller == "up":
            self.registers = None
            site.slurm.boot(NODE)

    def image(self, role: Role) -> None:
        """Its disk is new, and it boots; what ran there ends with it."""
        for each in [*self.running]:
            self.stop(each)
        self.credentials.clear()
        self.disk = role
        boots = timedelta(days=9999) if role in self.unbootable else timedelta(seconds=40)
        self.up = self._site.time + boots

    def start(self, role: Role, token: str) -> None:
        site = self._site
        assert self.disk in (None, role), "a role on the image of the other"
        if role == "slurm":
            if "slurm" not in self.running:
                self.registers = site.time + timedelta(seconds=0.2)
        else:
            kubelet = site.kubernetes._kubelets.get(NODE)
            if kubelet is None or not kubelet.has_certificate:
                site.kubernetes.stop_kubelet(NODE)
                site.kubernetes.start_kubelet(NODE, token, labels=LABELS)
        self.running.add(role)

    def stop(self, role: Role) -> None:
        site = self._site
        if role == "slurm":
            self.registers = None
            for job_id in site.slurm.queue.on(NODE):
                if job_id not in site.slurm.told:
                    site.broken.append(f"job {job_id} ran as slurmd was stopped")
            if "slurm" in self.running:
                site.slurm.unplug(NODE)
        else:
            told = {each.uid for each in site.kubernetes.told}
            for uid in site.kubernetes.containers(NODE) - told:
                pod = next((pod for pod in site.kubernetes._pods.values() if pod.uid == uid), None)
                if pod is None or pod.deleting_until is None or not pod.owner:
                    site.broken.append(f"pod {pod} ran as the kubelet was stopped")
            site.kubernetes.stop_kubelet(NODE)
            site.kubernetes.wipe(NODE)
        self.running.discard(role)


class _Reached:
    """The machine, as a driver reaches it."""

    def __init__(self, site: Site, inbox: list[BootstrapToken]) -> None:
        self._site, self._inbox = site, inbox

    def roles(self) -> frozenset[Role]:
        self._moment("roles")
        return self._site.machine.roles_now()

    def take(self, role: Role) -> frozenset[Role]:
        self._moment(f"take {role}")
        if role == "kubernetes" and not self._inbox:
            raise ConversionError("it was given no bootstrap token")
        self._site.machine.credentials.add(role)
        self._site.moment()
        self._site.machine.start(role, self._inbox[-1].text if self._inbox else "")
        self._site.moment()
        return self._site.machine.roles_now()

    def lose(self, role: Role) -> frozenset[Role]:
        self._moment(f"lose {role}")
        self._site.machine.stop(role)
        self._site.moment()
        self._site.machine.credentials.discard(role)
        self._site.moment()
        return self._site.machine.roles_now()

    def can_image(self) -> bool:
        return self._site.machine.disk is not None

    def imaged(self) -> frozenset[Role]:
        self._site.moment()
        disk = self._site.machine.disk
        return frozenset(ROLES if disk is None else (disk,))

    def image(self, role: Role) -> None:
        self._site.moment()
        if f"image {role}" in self._site.machine.faults:
            raise ConversionError(f"the machine cannot be given the image of {role}")
        self._site.machine.image(role)
        self._site.moment()

    def left_behind(self, role: Role) -> tuple[str, ...]:
        return ()

    def _moment(self, what: str) -> None:
        self._site.moment()
        if self._site.machine.up > self._site.time:
            raise ConversionError("it boots")
        if what in self._site.machine.faults:
            raise ConversionError(f"the machine cannot be reached to {what}")


class _Called:
    """A client, each of whose calls is a moment before it and one after."""

    def __init__(self, site: Site, called: object) -> None:
        self._site, self._called = site, called

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._called, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._site.moment()
            answer = method(*arguments, **named)
            self._site.moment()
            return answer

        return call
