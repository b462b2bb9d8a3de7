"""`schedule`: nodes that are there at certain hours."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from tidepool.cluster.scaling import DAYS, Schedule
from tidepool.scaling.decide.policies.wants import Floor, Wants


def schedule(policy: Schedule, at: datetime) -> Wants:
    """So many, within its hours."""
    if not holds_at(policy, at):
        return Wants()
    reason = f"{policy.nodes} are scheduled from {policy.begin} to {policy.end} {policy.timezone}"
    return Wants(floors=(Floor(policy.fleet, policy.nodes, reason),))


def holds_at(policy: Schedule, at: datetime) -> bool:
    """Return whether ``at`` is within the hours, by the clock of their time zone.

    Hours that end on the next day belong to the day on which they begin.
    """
    local = at.astimezone(ZoneInfo(policy.timezone))
    begin, end = time.fromisoformat(policy.begin), time.fromisoformat(policy.end)
    today, now = local.date(), local.time().replace(tzinfo=None)
    if begin < end:
        return DAYS[today.weekday()] in policy.days and begin <= now < end
    yesterday = today - timedelta(days=1)
    began_today = DAYS[today.weekday()] in policy.days and now >= begin
    began_yesterday = DAYS[yesterday.weekday()] in policy.days and now < end
    return began_today or began_yesterday
