"""Phases and reasons of nodes, in words, once a decision is made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tidepool.scaling.decide.floors import Outlook
from tidepool.scaling.decide.plan import Plan
from tidepool.scaling.decide.reconcile import Entry
from tidepool.scaling.decide.reconcile_words import NodeAction
from tidepool.scaling.decision import NodeView
from tidepool.scaling.memory import Launch
from tidepool.scaling.phase import Phase

_JOBS_NAMED = 3


def views(outlook: Outlook, idle: Mapping[str, str]) -> dict[str, NodeView]:
    """By node that is more than a slot: its phase, and why it is kept, drained or taken away."""
    plan = outlook.plan
    found = {
        name: NodeView(entry.phase, _reason(outlook, entry, idle))
        for name, entry in outlook.reconciled.entries.items()
    }
    for name in plan.launched:
        if name not in found:
            found[name] = NodeView(Phase.LAUNCHING, _launching(plan, name))
    return found


def _reason(outlook: Outlook, entry: Entry, idle: Mapping[str, str]) -> str:
    plan, name = outlook.plan, entry.name
    excess = outlook.excess.why(entry)
    if name in plan.drained:
        return f"it is drained now: {plan.memory.drains[name].reason.removeprefix('tidepool:').strip()}"
    if name in plan.undrained:
        return "it is undrained now: jobs may have it again"
    match entry.phase:
        case Phase.LAUNCHING if name in plan.memory.launches:
            return _launching(plan, name)
        case Phase.IDLE:
            return idle.get(name, entry.why)
        case Phase.BUSY if entry.action is NodeAction.SERVE:
            ids = [str(job.job_id) for job in outlook.reconciled.running.get(name, ())]
            more = ", ..." if len(ids) > _JOBS_NAMED else ""
            runs = f"it runs the jobs {', '.join(ids[:_JOBS_NAMED])}{more}" if ids else "it runs jobs"
            return f"{runs}; {excess}" if excess else runs
        case Phase.DRAINING | Phase.DRAINED if name in plan.memory.drains:
            what = "its jobs end first" if entry.phase is Phase.DRAINING else "it is empty"
            return f"{plan.memory.drains[name].reason.removeprefix('tidepool:').strip()}; {what}"
        case Phase.ILL if not entry.is_confirmed:
            return f"{entry.why}; another look will tell"
        case _:
            return entry.why


def _launching(plan: Plan, name: str) -> str:
    launch = plan.memory.launches[name]
    return _being_made((plan.at - launch.since).total_seconds(), launch, plan.memory.locations.get(name, ""))


@lru_cache(maxsize=256)
def _being_made(waited: float, launch: Launch, location: str) -> str:
    """The same words for all of a launch, of which there may be thousands."""
    allowed = (launch.deadline - launch.since).total_seconds()
    ids = ", ".join(map(str, launch.jobs[:_JOBS_NAMED]))
    jobs = f" for the jobs {ids}" if ids else ""
    on = f" on {location}" if location else ""
    return f"it is being made{on}{jobs}, for {waited:.0f} s of at most {allowed:.0f} s"
