"""Events of the daemon: each as a line for a person, and as a document for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

from tidepool.cluster.hostlist import fold
from tidepool.scaling.decision import Action, Convert, DeleteOrphan, stored_name
from tidepool.scaling.ports import Intent, UpOutcome

#: What is done, as people say it.
_WORDS: Final = {
    "Launch": "launch",
    "Drain": "drain",
    "Undrain": "undrain",
    "Remove": "remove",
    "Mend": "mend",
    "Sweep": "sweep",
    "Forget": "make slots of",
    "PowerFailed": "report to Slurm as failed:",
    "Convert": "convert",
}
#: Events that happen at every look, and are no news.
_QUIET: Final = frozenset({"decided", "looked"})


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
