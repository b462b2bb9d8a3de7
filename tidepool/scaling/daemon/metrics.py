"""Metrics of the daemon for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Count

from tidepool.clients.slurm import JobState
from tidepool.cluster.failures import Cause
from tidepool.cluster.pool import ROLES, ConvergedPool
from tidepool.scaling.daemon.loop import Role, Turn
from tidepool.scaling.decision import Convert, Decision, DeleteOrphan, Launch, Phase, stored_name
from tidepool.scaling.ports import Intent, UpOutcome

_ROLES: Final = get_args(Role)
_UP_S: Final = (0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)
_DECISION_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 5)


class Metrics:
    """Counts what `said` is told, and shows what the last `turn` saw."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        prefix = "tidepool"
        self._role = Gauge(f"{prefix}_role", "1 for what the daemon does", ["role"], registry=registry)
        self._turned = Gauge(
            f"{prefix}_last_turn_timestamp_seconds", "When it looked last", registry=registry
        )
        self._lag = Gauge(
            f"{prefix}_lag_seconds", "How old what a source said is", ["source"], registry=registry
        )
        self._jobs = Gauge(
            f"{prefix}_jobs",
            "Jobs, tasks of arrays each: pending ones by standing",
            ["state", "standing"],
            registry=registry,
        )
        self._nodes = Gauge(
            f"{prefix}_nodes", "Nodes by fleet and phase", ["fleet", "phase"], registry=registry
        )
        self._cost = Gauge(f"{prefix}_cost_usd_per_hour", "What runs costs", registry=registry)
        self._month = Gauge(f"{prefix}_month_cost_usd", "What this month has cost", registry=registry)
        self._projected = Gauge(
            f"{prefix}_month_projected_cost_usd", "What it would come to", registry=registry
        )
        self._intents = Count(
            f"{prefix}_intents", "Actions by what they came to", ["action", "result"], registry=registry
        )
        self._launches = Count(f"{prefix}_launches", "Nodes that were launched", ["fleet"], registry=registry)
        self._machines = Gauge(
            f"{prefix}_pool_machines",
            "Machines of pools by the role that they have; without one: on their way, or not known",
            ["pool", "role"],
            registry=registry,
        )
        self._pods = Gauge(
            f"{prefix}_pods_pending",
            "Pods that wait for a node, by standing",
            ["standing"],
            registry=registry,
        )
        self._moves = Count(
            f"{prefix}_pool_moves", "Machines that were to move", ["pool", "to"], registry=registry
        )
        self._failures = Count(
            f"{prefix}_node_failures",
            "Nodes that an up failed to make or remove",
            ["cause"],
            registry=registry,
        )
        self._up = Histogram(
            f"{prefix}_up_duration_seconds", "How long ups took", buckets=_UP_S, registry=registry
        )
        self._decision = Histogram(
            f"{prefix}_decision_duration_seconds",
            "How long decisions took",
            buckets=_DECISION_S,
            registry=registry,
        )
        for cause in get_args(Cause):
            self._failures.labels(cause)

    def text(self) -> bytes:
        """The page, in Prometheus' own format."""
        return generate_latest(self.registry)

    def said(self, name: str, said: dict[str, Any]) -> None:
        """Count an event."""
        match name, said:
            case "intends", {"intent": Intent(action=Launch() as launch)}:
                self._launches.labels(launch.fleet).inc(len(launch.nodes))
            case "intends", {"intent": Intent(action=Convert() as convert)}:
                self._moves.labels(convert.pool, convert.to).inc(len(convert.nodes))
            case "ended", {"intent": Intent() as intent}:
                self._intents.labels(stored_name(type(intent.action)), intent.result).inc(
                    1 if isinstance(intent.action, DeleteOrphan) else len(intent.action.nodes)
                )
            case "up-ended", {"outcome": UpOutcome() as outcome}:
                self._up.observe(outcome.duration_s)
                for failure in outcome.failed.values():
                    self._failures.labels(failure.cause).inc()
            case "decided", {"took_s": took_s}:
                self._decision.observe(took_s)

    def turned(self, turn: Turn, at: datetime) -> None:
        """Show what a turn saw."""
        for role in _ROLES:
            self._role.labels(role).set(role == turn.role)
        self._turned.set(at.timestamp())
        if turn.observation is None:
            return
        for source, lag_s in turn.observation.lag_s.items():
            self._lag.labels(source).set(lag_s)
        decision = turn.decision
        waiting = decision.waiting if decision else {}
        jobs: Counter[tuple[str, str]] = Counter()
        for job in turn.observation.jobs:
            if job.state is JobState.PENDING:
                standing = waiting[job.job_id].standing if job.job_id in waiting else "unknown"
                jobs["pending", standing] += job.size
            else:
                jobs["running", ""] += 1
        self._jobs.clear()
        self._jobs.labels("running", "").set(0)
        for labels, count in jobs.items():
            self._jobs.labels(*labels).set(count)
        if decision is None:
            return
        nodes: Counter[tuple[str, str]] = Counter()
        for fleet in turn.observation.spec.fleets:
            nodes.update({(fleet.name, phase): 0 for phase in Phase if phase is not Phase.ABSENT})
        for name, view in decision.nodes.items():
            nodes[name.rpartition("-")[0], view.phase] += 1
        self._nodes.clear()
        for place, count in nodes.items():
            self._nodes.labels(*place).set(count)
        self._show_pools(turn.observation.spec.pools, decision)
        self._cost.set(decision.cost.usd_per_hour)
        self._month.set(decision.cost.month_usd)
        self._projected.set(decision.cost.month_projected_usd)

    def _show_pools(self, pools: Iterable[ConvergedPool], decision: Decision) -> None:
        machines = Counter({(pool.name, role): 0 for pool in pools for role in (*ROLES, "")})
        machines.update((view.pool, view.role or "") for view in decision.machines.values())
        self._machines.clear()
        for place, count in machines.items():
            self._machines.labels(*place).set(count)
        self._pods.clear()
        for standing, count in Counter(pod.standing for pod in decision.waiting_pods.values()).items():
            self._pods.labels(standing).set(count)
