"""Where each node stands, in words, once a decision is made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tidepool.scaling.decide.draft import Draft
from tidepool.scaling.decide.floors import Standing
from tidepool.scaling.decide.reconcile import Entry
from tidepool.scaling.decide.reconcile_words import Todo
from tidepool.scaling.decision import NodeView
from tidepool.scaling.memory import Launch
from tidepool.scaling.phase import Phase

_JOBS_NAMED = 3


def views(standing: Standing, idle: Mapping[str, str]) -> dict[str, NodeView]:
    """By node that is more than a slot: its phase, and why it is kept, drained or taken away."""
    draft = standing.draft
    found = {
        name: NodeView(entry.phase, _reason(standing, entry, idle))
        for name, entry in standing.ledger.entries.items()
    }
    for name in draft.now_launched:
        if name not in found:
            found[name] = NodeView(Phase.LAUNCHING, _launching(draft, name))
    return found


def _reason(standing: Standing, entry: Entry, idle: Mapping[str, str]) -> str:
    draft, name = standing.draft, entry.name
    surplus = standing.surplus.why(entry)
    if name in draft.now_drained:
        return f"it is drained now: {draft.drains[name].reason.removeprefix('tidepool:').strip()}"
    if name in draft.now_undrained:
        return "it is undrained now: jobs may have it again"
    match entry.phase:
        case Phase.LAUNCHING if name in draft.launches:
            return _launching(draft, name)
        case Phase.IDLE:
            return idle.get(name, entry.why)
        case Phase.BUSY if entry.todo is Todo.SERVE:
            ids = [str(job.job_id) for job in standing.ledger.running.get(name, ())]
            more = ", ..." if len(ids) > _JOBS_NAMED else ""
            runs = f"it runs the jobs {', '.join(ids[:_JOBS_NAMED])}{more}" if ids else "it runs jobs"
            return f"{runs}; {surplus}" if surplus else runs
        case Phase.DRAINING | Phase.DRAINED if name in draft.drains:
            what = "its jobs end first" if entry.phase is Phase.DRAINING else "it is empty"
            return f"{draft.drains[name].reason.removeprefix('tidepool:').strip()}; {what}"
        case Phase.ILL if not entry.is_confirmed:
            return f"{entry.why}; another look will tell"
        case _:
            return entry.why


def _launching(draft: Draft, name: str) -> str:
    launch = draft.launches[name]
    return _being_made((draft.at - launch.since).total_seconds(), launch, draft.locations.get(name, ""))


@lru_cache(maxsize=256)
def _being_made(waited: float, launch: Launch, location: str) -> str:
    """The same words for all of a launch, of which there may be thousands."""
    allowed = (launch.deadline - launch.since).total_seconds()
    ids = ", ".join(map(str, launch.jobs[:_JOBS_NAMED]))
    jobs = f" for the jobs {ids}" if ids else ""
    on = f" on {location}" if location else ""
    return f"it is being made{on}{jobs}, for {waited:.0f} s of at most {allowed:.0f} s"
