"""Events of the daemon: each as a line for a person, as a document for programs, and counted for Prometheus."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from logging import Formatter, LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Count

from tidepool.clients.slurm import JobState
from tidepool.cluster.failures import Cause
from tidepool.cluster.hostlist import fold
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import ROLES
from tidepool.scaling.daemon.loop import Role, Turn
from tidepool.scaling.decision import Action, Convert, Decision, DeleteOrphan, Launch, Phase, stored_name
from tidepool.scaling.ports import Intent, UpOutcome

#: What is done, as people say it.
_WORDS: Final = {
    "Launch": "launch",
    "Drain": "drain",
    "Undrain": "undrain",
    "Remove": "remove",
    "Suspend": "suspend",
    "Mend": "repair",
    "Sweep": "delete orphan",
    "Forget": "make slots of",
    "PowerFailed": "report to Slurm as failed:",
    "Convert": "convert",
}
#: Events that happen at every look, and are no news.
_QUIET: Final = frozenset({"decided", "looked"})

_ROLES: Final = get_args(Role)
_UP_S: Final = (0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)
_DECISION_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 5)
_LOG: Final = "log.jsonl"
_LOG_BYTES: Final = 10 << 20
_LOGS: Final = 5


def line(name: str, said: Mapping[str, Any]) -> str:
    """A line for a person; empty where it is no news."""
    match name, said:
        case _ if name in _QUIET:
            return ""
        case "intends", {"intent": Intent(action=action)}:
            return f"{action_text(action)}: {action.reason}"
        case "ended", {"intent": Intent() as intent}:
            # What went as intended was said when it was intended.
            what = f"{action_text(intent.action)}: {intent.result}"
            return f"{what}: {intent.text}" if intent.text else "" if intent.result == "done" else what
        case "up-begins", {"nodes": nodes}:
            return f"an `up` for {fold(nodes)}"
        case "up-ended", {"outcome": UpOutcome() as outcome}:
            return _outcome(outcome)
        case "up-failed", {"text": text}:
            return f"the `up` failed: {text}"
        case "leads", {"epoch": epoch}:
            return f"this daemon leads (epoch {epoch})"
        case "lost-the-lease", {"epoch": epoch}:
            return f"the lease of epoch {epoch} is lost: another daemon may lead"
        case "released", _:
            return "the lease is given back"
        case "inherited", {"intents": count}:
            return f"{count} intents of the last daemon are open, and are taken up"
        case "adopted", {"before": before, "after": after}:
            return f"a person changed the stack: nodes were {_hosts(before)}, and are {_hosts(after)}"
        case "occupied", {"text": text, "retries": 1}:
            return f"somebody is at work on the stack, and is waited for: {text}"
        case "occupied", _:
            return ""
        case "requested", {"what": what, "nodes": nodes}:
            return f"Slurm's power saving {'asks for' if what == 'up' else 'gives back'} {nodes}"
        case "overtaken", {"node": node, "text": text}:
            return f"{node} is left as it is: {text}"
        case _, {"text": text}:
            return str(text)
        case _:
            return name


def document(name: str, at: datetime, said: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document."""
    return {"at": at.isoformat(), "event": name, **{key: _plain(value) for key, value in said.items()}}


def action_text(action: Action) -> str:
    """``launch cpu-[1-4]``, ``convert shared-2 to kubernetes``."""
    what = str(action.machine) if isinstance(action, DeleteOrphan) else fold(action.nodes)
    where = f" to {action.to}" if isinstance(action, Convert) else ""
    return f"{_WORDS[stored_name(type(action))]} {what}{where}"


def _outcome(outcome: UpOutcome) -> str:
    parts = [f"made {fold(outcome.made)}"] if outcome.made else []
    parts += [f"made {fold(outcome.coming)}, not up yet"] if outcome.coming else []
    parts += [f"removed {fold(outcome.removed)}"] if outcome.removed else []
    parts += [f"{name} failed ({why.cause}): {_first_line(why.text)}" for name, why in outcome.failed.items()]
    return f"the `up` took {outcome.duration_s:.1f} s: {'; '.join(parts) or 'nothing was to be done'}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _hosts(fleets: Mapping[str, str]) -> str:
    return ", ".join(hosts for hosts in fleets.values() if hosts) or "none"


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case str() | int() | float() | bool() | None:
            return value
        case datetime():
            return value.isoformat()
        case Intent():
            action = value.action
            nodes = str(action.machine) if isinstance(action, DeleteOrphan) else fold(action.nodes)
            return {
                "id": value.id,
                "action": stored_name(type(action)),
                "nodes": nodes,
                "reason": action.reason,
                "result": value.result,
                "text": value.text,
            }
        case UpOutcome():
            return {
                "made": fold(value.made),
                "coming": fold(value.coming),
                "removed": fold(value.removed),
                "failed": {name: {"cause": f.cause, "text": f.text} for name, f in value.failed.items()},
                "durationSeconds": round(value.duration_s, 3),
            }
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case Iterable():
            return [_plain(each) for each in value]
        case _:
            return str(value)


class Metrics:
    """Counts what `said` is told, and shows what the last `turn` saw."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def gauge(name: str, says: str, *labels: str) -> Gauge:
            return Gauge(f"tidepool_{name}", says, labels, registry=registry)

        def count(name: str, says: str, *labels: str) -> Count:
            return Count(f"tidepool_{name}", says, labels, registry=registry)

        def histogram(name: str, says: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"tidepool_{name}", says, buckets=buckets, registry=registry)

        self._role = gauge("role", "1 for what the daemon does", "role")
        self._turned = gauge("last_turn_timestamp_seconds", "When it looked last")
        self._lag = gauge("lag_seconds", "How old what a source said is", "source")
        self._jobs = gauge(
            "jobs", "Jobs, tasks of arrays each: pending ones by standing", "state", "standing"
        )
        self._nodes = gauge("nodes", "Nodes by fleet and phase", "fleet", "phase")
        self._cost = gauge("cost_usd_per_hour", "What runs costs")
        self._month = gauge("month_cost_usd", "What this month has cost")
        self._projected = gauge("month_projected_cost_usd", "What it would come to")
        self._intents = count("intents", "Actions by what they came to", "action", "result")
        self._launches = count("launches", "Nodes that were launched", "fleet")
        role_or_none = "Machines of pools by the role that they have; without one: on their way, or not known"
        self._machines = gauge("pool_machines", role_or_none, "pool", "role")
        self._pods = gauge("pods_pending", "Pods that wait for a node, by standing", "standing")
        self._moves = count("pool_moves", "Machines that were to move", "pool", "to")
        self._failures = count("node_failures", "Nodes that an up failed to make or remove", "cause")
        self._up = histogram("up_duration_seconds", "How long ups took", _UP_S)
        self._decision = histogram("decision_duration_seconds", "How long decisions took", _DECISION_S)
        for cause in get_args(Cause):
            self._failures.labels(cause)

    def text(self) -> bytes:
        """The page, in Prometheus' own format."""
        return generate_latest(self.registry)

    def said(self, name: str, said: dict[str, Any]) -> None:
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
        for job in turn.observation.seen.jobs:
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
        for fleet in turn.observation.seen.spec.fleets:
            nodes.update({(fleet.name, phase): 0 for phase in Phase if phase is not Phase.ABSENT})
        for name, view in decision.nodes.items():
            nodes[name.rpartition("-")[0], view.phase] += 1
        self._nodes.clear()
        for place, count in nodes.items():
            self._nodes.labels(*place).set(count)
        self._show_pools(turn.observation.seen.spec.pools, decision)
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


class Voice:
    """Says what happens: JSON lines to a file, which is rotated, and lines for people to ``out``."""

    def __init__(self, folder: Path, out: Callable[[str], None], now: Callable[[], datetime]) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.metrics = Metrics()
        self._out = out
        self._now = now
        self._lock = threading.Lock()
        self._path = folder / _LOG
        self._file = RotatingFileHandler(
            self._path, maxBytes=_LOG_BYTES, backupCount=_LOGS, encoding="utf-8", delay=True
        )
        self._file.setFormatter(Formatter("%(message)s"))

    def say(self, name: str, **said: Any) -> None:
        at = self._now()
        with self._lock:
            self.metrics.said(name, said)
            text = line(name, said)
            if not text:
                return
            written = json.dumps(document(name, at, said), ensure_ascii=False)
            self._write(LogRecord(name, 20, "", 0, written, None, None))
            self._out(f"{at.astimezone():%H:%M:%S} {text}")

    def _write(self, record: LogRecord) -> None:
        if not self._path.exists():
            # A `down --purge` took it away, under a daemon that goes on.
            self._file.close()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file.emit(record)

    def close(self) -> None:
        self._file.close()
