"""Random switches of a pool's machines under load, one after another, with everything killed in between; and what must hold.

Pure dice first: the same seed gives the same switches. What is checked, during every step and after it, is seen from both
sides and in the machines: no machine in two roles, nothing left of a role that it lost, and of every job and pod that did not
come to its end, that its owner was told.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from tests.whole.breathing import Daemon
from tests.whole.cluster import until
from tests.whole.pool_load import Load
from tests.whole.pool_watch import Watch, inside_roles, traces
from tests.whole.pools import ANY, PoolCluster
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.machine import RoleProgram
from tidepool.conversion.ports import NotOrdered
from tidepool.conversion.record import Conversion
from tidepool.infrastructures.connection import transport
from tidepool.journals.processes import is_dead, is_driven

Blow = Literal["none", "cancel", "command", "driver", "slurmd", "kubelet", "containerd", "scaler"]
#: What befalls a switch, and how often.
BLOWS: Final[Mapping[Blow, int]] = {
    "none": 8, "cancel": 4, "command": 2, "driver": 3, "slurmd": 1, "kubelet": 1, "containerd": 1, "scaler": 1,
}  # fmt: skip
_SETTLED_S: Final = 90.0
_SECRETS: Final = "/api/v1/namespaces/kube-system/secrets"


@dataclass(frozen=True, slots=True)
class Switch:
    """One order of a person's, and the blow that comes ``after_s`` seconds after it, or after it is begun (``begun``)."""

    node: str
    to: Role
    is_forced: bool
    deadline_s: int
    at_deadline: Literal["stop", "force"]
    blow: Blow
    begun: bool
    after_s: float

    @property
    def words(self) -> tuple[str, ...]:
        """Of the command line."""
        if self.is_forced:
            return (self.node, "--to", self.to, "--force")
        terms = ("--deadline", f"{self.deadline_s}s", "--at-deadline", self.at_deadline)
        return (self.node, "--to", self.to, *terms)


def switches(seed: int, nodes: list[str], blows: Mapping[Blow, int] | None = None) -> Iterator[Switch]:
    """Without end; the same for the same seed. A machine is ordered to and fro, now and then where it is already."""
    dice, weights = random.Random(seed), dict(blows or BLOWS)
    goes: dict[str, Role] = dict.fromkeys(nodes, "kubernetes")
    while True:
        node = dice.choice(nodes)
        to = goes[node] if dice.random() < 0.9 else dice.choice(ROLES)
        goes[node] = "slurm" if to == "kubernetes" else "kubernetes"
        yield Switch(
            node=node,
            to=to,
            is_forced=dice.random() < 0.35,
            deadline_s=dice.choice([1, 2, 4]),
            at_deadline=dice.choice(["stop", "force"]),
            blow=dice.choices(list(weights), list(weights.values()))[0],
            begun=dice.random() < 0.8,
            after_s=dice.choice([0.0, 0.1, 0.3, 0.6, 1.0, 1.5]),
        )


@dataclass
class Switching:
    """Carries switches out, one after another."""

    pool: PoolCluster
    load: Load
    watch: Watch
    daemon: Daemon | None = None
    tell: Callable[[str], None] = lambda _line: None
    ended: Counter[str] = field(default_factory=Counter)
    #: Blows by what they hit; what was quicker than its blow was not hit.
    struck: Counter[Blow] = field(default_factory=Counter)

    def step(self, number: int, switch: Switch) -> None:
        """One switch with its blow, to its end; then all that must hold then."""
        self.load.more()
        began, before = time.monotonic(), self._last(switch.node)
        with self.pool.converting(*switch.words) as child:
            if switch.blow != "none":
                if switch.begun:
                    until(
                        lambda: self._is_begun(switch, child) or None, f"{switch} is begun", _SETTLED_S, 0.02
                    )
                time.sleep(switch.after_s)
                self.struck[switch.blow] += self._strike(switch, child)
            code = child.wait(_SETTLED_S)
        last = self._settled(switch)
        if last is None or (before is not None and before.id == last.id):
            outcome = "nothing to do"
        elif last.order.by == "scaler":
            # It was first, for what waits; a person is told so.
            outcome = "refused" if code else "nothing to do"
        else:
            outcome = last.phase
        self.ended[outcome] += 1
        self.tell(
            f"{number}: {' '.join(switch.words)}, {switch.blow} {switch.after_s:g} s after it was "
            f"{'begun' if switch.begun else 'ordered'}: exit {code}, {outcome}, {time.monotonic() - began:.1f} s"
        )
        if switch.blow not in ("command", "driver"):
            assert (code == 0) == (outcome in ("done", "nothing to do")), (
                f"exit {code}, {outcome}: {self.pool.converting_said()}"
            )
        if switch.blow == "none" and switch.is_forced and outcome != "refused":
            assert code == 0, f"by force it is {outcome}: {self.pool.converting_said()}"
        self.watch.check(looks=0)
        if outcome == "failed":
            # It has no role, which is told: the next order mends it.
            self.pool.convert(switch.node, "--to", switch.to)
        self.check(switch.node)

    def check(self, *nodes: str) -> None:
        """Nothing under way: each machine is one thing, to everybody."""
        for node in nodes:
            role = until(partial(self._role, node), f"{node} has a role", _SETTLED_S, 0.2)
            inside = until(partial(self._one_inside, node), f"{node} has one role within", 30, 0.2)
            assert inside == {role}, f"{node} is {role} to both sides, and {inside} within"
            program = RoleProgram(transport(self._connection(node), self.pool.data), node, lambda _role: ())
            assert program.roles() == {role}, node
            other: Role = "slurm" if role == "kubernetes" else "kubernetes"
            assert program.left_behind(other) == (), f"{node}: left of {other}: {program.left_behind(other)}"
            assert traces(self.pool, node, other) == set(), f"{node}: traces of {other}"

    def check_all(self) -> None:
        """After all: what both sides keep is of machines that serve there, and all work is accounted for."""
        assert self.load.jobs
        assert self.load.pods
        for role in ROLES:
            # What waits for machines of a role comes to its end when there is one.
            if role not in map(self.pool.role_of, self.pool.names):
                self.pool.to(role, self.pool.names[0])
        self.load.until_ended()
        self.check(*self.pool.names)
        roles = {node: self.pool.role_of(node) for node in self.pool.names}
        serving = {node for node, role in roles.items() if role == "kubernetes"}
        with closing(self.pool.kubernetes()) as kubernetes:
            assert {node.name for node in kubernetes.nodes()} == serving
            assert [each.node for each in kubernetes.signing_requests() if each.node not in serving] == []
            assert [node for node in self.pool.names if kubernetes.lease(node) and node not in serving] == []
        with self.pool.pods() as pods:
            tokens = pods.requests.listed(_SECRETS, ANY, "Secret", _node_of_token)
            assert set(tokens) - {""} <= serving
        assert set(self.pool.nodes()) == set(self.pool.names) - serving
        told = json.loads(self.pool.tidepool("pool", "show", "--json"))
        shown = {machine["node"]: machine["role"] for one in told["pools"] for machine in one["machines"]}
        assert shown == roles
        with self.pool.pods() as pods:
            # Kubernetes takes those away whose Node is gone.
            until(
                lambda: {pod.node for pod in pods.records() if pod.node} <= serving or None,
                "no pod is on a machine that does not serve Kubernetes",
                90,
                0.5,
            )
        lost = self.load.lost()
        assert lost == [], lost

    def _is_begun(self, switch: Switch, command: subprocess.Popen[str]) -> bool:
        """Somebody carries it out; or it is over."""
        last = self._last(switch.node)
        return command.poll() is not None or (
            last is not None and last.is_under_way and "asked/driven" in last.began
        )

    def _role(self, node: str) -> str | None:
        return self.pool.role_of(node) or None

    def _one_inside(self, node: str) -> set[str] | None:
        return found if len(found := inside_roles(self.pool, node)) == 1 else None

    def _strike(self, switch: Switch, command: subprocess.Popen[str]) -> bool:
        """Whether there was somebody to strike, or something to cancel."""
        match switch.blow:
            case "cancel":
                # As the command does it; the command itself may come too late.
                try:
                    with self.pool.journal() as journal:
                        journal.cancel(switch.node, "somebody")
                except NotOrdered:
                    return False
                return True
            case "command":
                is_there = command.poll() is None
                command.kill()
                return is_there
            case "driver":
                last = self._last(switch.node)
                return last is not None and kill_driver(last)
            case "scaler" if self.daemon is not None:
                self.daemon.kill()
                self.daemon = Daemon.start(self.pool, "daemon")
                return True
            case "slurmd" | "kubelet" | "containerd" as program:
                return bool(self.pool.signal(switch.node, program, signal.SIGKILL))
        return False

    def _settled(self, switch: Switch) -> Conversion | None:
        """The conversion at its end; where whoever drove it was killed, another is asked to go on."""
        with self.pool.journal() as journal:
            deadline = time.monotonic() + _SETTLED_S
            while (going := journal.under_way(switch.node)) is not None:
                assert time.monotonic() < deadline, f"{switch} is {going.phase}: {going.text}"
                until_s = going.driver_until
                if until_s is None or until_s < datetime.now(UTC) or is_dead(going.driver):
                    self.pool.run("up", "--yes", timeout_s=_SETTLED_S)
                time.sleep(0.1)
        return self._last(switch.node)

    def _last(self, node: str) -> Conversion | None:
        with self.pool.journal() as journal:
            found = journal.conversions(node=node, limit=1)
            return found[0] if found else None

    def _connection(self, node: str) -> Mapping[str, Any]:
        return {"kind": "local", "stack": self.pool.stack, "machine": node}


def kill_driver(conversion: Conversion) -> bool:
    """Everything in the session of who carries it out: the engine, its plugin, the program. Whether somebody did."""
    if not conversion.is_under_way or not is_driven(conversion, datetime.now(UTC)):
        return False
    try:
        session = os.getsid(int(conversion.driver.split("/")[1]))
    except ProcessLookupError:
        return False  # it was quicker
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            its = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
            if its == session:
                os.kill(int(folder.name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            continue
    return True


def _node_of_token(secret: Mapping[str, Any]) -> str:
    return str(secret["metadata"].get("labels", {}).get("tidepool/node", ""))
