"""`quota` and `scratch`: what people use of /home, and what goes from scratch and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from tidepool.cli import show
from tidepool.cli.cluster import not_up
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.homes import CLOCK_REMEDY, HomesView, Usage, files_of, service, view_homes
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack

#: So many paths that are left are named.
_SHOWN: Final = 3
_now_option = click.option("--now", is_flag=True, help="Count anew, and wait for it.")


@click.command("quota")
@_now_option
@json_option
@stack_options
def quota_verb(stack: Stack, now: bool, as_json: bool) -> None:
    """Show what people use of /home, of how much, and whether that is enforced.

    Where the file system has no quotas of projects, a service on the controller counts now and then, and says when it did.
    """
    outputs = _outputs(stack)
    files_of(outputs, "quotas")
    if now:
        service(stack, outputs).make_round()
    view = view_homes(stack, outputs)
    if as_json:
        show.emit(show.document(view))
        return
    rows = [_row(each, view) for each in view.people]
    show.show(show.table("/home", ["person", "used", "quota", "", "files", "is"], rows))
    if not view.is_enforced:
        counted = "not counted yet" if view.counted is None else f"counted {_date(view.counted)}"
        show.say(f"watched and not enforced: {view.why}; {counted}")
        show.say(f"  {view.remedy}")


def _row(each: Usage, view: HomesView) -> tuple[object, ...]:
    part = each.part
    share = "" if part is None else f"{part:.0%}"
    state: object = "enforced" if view.is_enforced else "watched"
    if part is not None and part > 1:
        state = ("over", "bold red")
    if each.unread:
        state = (f"{each.unread} folders cannot be read", "yellow")
    quota = size(each.quota) if each.quota else "none"
    return each.name, "?" if each.used is None else size(each.used), quota, share, each.files, state


@click.command("scratch")
@_now_option
@click.option(
    "--trust-clock",
    is_flag=True,
    help="Say that the controller's clock is right, where nothing is wiped for it is doubted. It goes on a day later.",
)
@json_option
@stack_options
def scratch_verb(stack: Stack, now: bool, trust_clock: bool, as_json: bool) -> None:
    """Show what goes from scratch and when, and what went.

    People see the same of their own in `.soon` in scratch. A line for each file that went is in
    /var/spool/slurmctld/files/wiped.log on the controller.
    """
    outputs = _outputs(stack)
    rule = files_of(outputs, "scratch")["scratch"]
    found = service(stack, outputs)
    if now or trust_clock:
        found.make_round(trust_clock=trust_clock)
    report = found.report()
    if report is None or not (report["scratch"] or report["why"]):
        raise Failure("no round was made yet", remedy="`tidepool scratch --now` makes one", code=NOT_THERE)
    if as_json:
        show.emit(_json(report, rule))
        return
    title = f"{rule['path']}: files go after {rule['wipe_after_days']} days without use"
    columns = [
        "person",
        "has",
        "files",
        f"go within {rule['warn_days']} days",
        "the first",
        "went",
        "held by jobs",
    ]
    rows = [
        (
            name,
            size(each["bytes"]),
            each["files"],
            f"{each['soon']} ({size(each['soon_bytes'])})",
            _date(each["next_at"]) if each["next_at"] else "",
            f"{each['wiped']} ({size(each['wiped_bytes'])})",
            each["held_by_jobs"] or "",
        )
        for name, each in report["scratch"].items()
    ]
    show.show(show.table(title, columns, rows))
    show.say(f"looked at {_date(report['at'])}" + (f"; {report['why']}" if report["why"] else ""))
    if report.get("is_clock_wrong"):
        show.say(f"  {CLOCK_REMEDY}")
    for name, each in report["scratch"].items():
        if each["failed"]:
            told = "; ".join(f"{path or name}: {why}" for path, why in each.get("left", ())[:_SHOWN])
            show.say(
                f"of {name} {each['failed']} could not be looked at, written or deleted, and are left: {told}"
            )
    for name, why in report.get("left", ()):
        show.say(f"the home {name} cannot be looked at: {why}")


def _json(report: Mapping[str, Any], rule: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "path": rule["path"],
        "wipeAfterDays": rule["wipe_after_days"],
        "at": _date(report["at"]),
        "why": report["why"],
        "people": [
            {
                "name": name,
                "bytes": each["bytes"],
                "files": each["files"],
                "soon": each["soon"],
                "soonBytes": each["soon_bytes"],
                "next": [{"path": path, "at": _date(at)} for path, at in each["first"]],
                "wiped": each["wiped"],
                "wipedBytes": each["wiped_bytes"],
                "heldByJobs": each["held_by_jobs"],
                "failed": each["failed"],
                "left": [{"path": path, "why": why} for path, why in each.get("left", ())],
            }
            for name, each in report["scratch"].items()
        ],
    }


def _outputs(stack: Stack) -> Mapping[str, Any]:
    stack.require_root()
    outputs = stack.outputs()
    if not outputs:
        raise not_up(stack.name)
    return outputs


def _date(at: datetime | float) -> str:
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def size(amount: int) -> str:
    """Return an amount of bytes for people: ``12.3 GiB``."""
    value = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
