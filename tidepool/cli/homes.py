"""Usage of /home by people: as the file system counts it, or else the service on the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tidepool.cli.cluster import parse_outputs
from tidepool.cli.errors import USAGE, Failure
from tidepool.cli.problems import Problem
from tidepool.cli.stack import Stack
from tidepool.clients.files.homes import FilesService, HomeFolder, Homes
from tidepool.clients.transport import ClientError
from tidepool.cluster.files import HOME
from tidepool.cluster.ganesha import STORE
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.file_systems import home_folder
from tidepool.infrastructures.finding import Finding

#: Of their quota; from there on a person is told of.
_NEAR: Final = 0.9


@dataclass(frozen=True, slots=True)
class Usage:
    """A person's use of /home, in bytes. ``used`` is None where it was not counted yet; ``quota`` is 0 for none.

    ``unread`` are folders that the count could not look into.
    """

    name: str
    used: int | None
    quota: int
    files: int | None = None
    unread: int = 0

    @property
    def part(self) -> float | None:
        return None if not self.quota or self.used is None else self.used / self.quota


@dataclass(frozen=True, slots=True)
class HomesView:
    """Usage by person; ``counted`` is when, None where the file system counts by itself."""

    people: tuple[Usage, ...]
    is_enforced: bool
    why: str = ""
    remedy: str = ""
    counted: datetime | None = None


def files_of(outputs: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return what a stack's outputs say of files.

    Raises:
        Failure: the spec says nothing of ``what``.
    """
    files: Mapping[str, Any] = outputs.get("files") or {}
    if what == "quotas" and not has_quotas(files):
        raise Failure(
            "this cluster has no quotas",
            remedy="write `home: {quota: 50GiB}` into its spec, and `tidepool up`",
            code=USAGE,
        )
    if what == "scratch" and not files.get("scratch"):
        raise Failure(
            "this cluster has no scratch",
            remedy="write `scratch: {}` into its spec, and `tidepool up`",
            code=USAGE,
        )
    return files


def has_quotas(files: Mapping[str, Any]) -> bool:
    """Return whether anybody has a quota."""
    return bool(files.get("quota") or any((files.get("quotas") or {}).values()))


def service(stack: Stack, outputs: Mapping[str, Any]) -> FilesService:
    """Return the service on the cluster's controller."""
    return FilesService(transport(parse_outputs(stack.name, outputs).controller, stack.data))


def homes_of(stack: Stack, outputs: Mapping[str, Any], files: Mapping[str, Any]) -> HomeFolder:
    """Return the homes of a cluster."""
    if server := outputs.get("fileServer"):
        return home_folder(server, stack.data, f"{STORE}{HOME}", str(files["scope"]))
    controller = parse_outputs(stack.name, outputs).controller
    return home_folder(controller, stack.data, HOME, str(files["scope"]))


def view_homes(stack: Stack, outputs: Mapping[str, Any]) -> HomesView:
    """Look at what people use.

    Raises:
        Failure: there are no quotas.
        ClientError: it cannot be seen.
    """
    files = files_of(outputs, "quotas")
    homes = homes_of(stack, outputs, files).read()
    if homes.is_enforced:
        people = [Usage(each.name, each.used, each.quota or 0, each.files) for each in homes.homes]
        return HomesView(_ordered(people), True)
    return _watched(files, homes, service(stack, outputs).report())


def _watched(files: Mapping[str, Any], homes: Homes, report: Mapping[str, Any] | None) -> HomesView:
    """Merge the homes that there are with what the last round counted of them."""
    counted: Mapping[str, Any] = (report or {}).get("home") or {}
    people = []
    for each in homes.homes:
        found = counted.get(each.name, {})
        quota = files["quotas"].get(each.name, files["quota"])
        people.append(Usage(each.name, found.get("bytes"), quota, found.get("files"), found.get("failed", 0)))
    at = datetime.fromtimestamp(report["at"], UTC) if report and counted else None
    return HomesView(_ordered(people), False, homes.why, homes.remedy, at)


def _ordered(people: list[Usage]) -> tuple[Usage, ...]:
    """Sort by who is nearest to their quota, then by who uses the most."""
    return tuple(sorted(people, key=lambda each: (-(each.part or 0), -(each.used or 0), each.name)))


#: Of a wipe that does not believe the clock.
CLOCK_REMEDY: Final = "set the controller's clock, and it goes on; or if that is right, as after days without a round, `tidepool scratch --trust-clock`"


def file_problems(stack: Stack, outputs: Mapping[str, Any] | None) -> Iterator[Problem]:
    """Yield for `status` who is over their quota, or near it, and that nothing is wiped by a clock that is not believed."""
    try:
        yield from _home_problems(stack, outputs)
        if outputs and (outputs.get("files") or {}).get("scratch"):
            report = service(stack, outputs).report()
            if report and report.get("is_clock_wrong"):
                yield Problem("note", f"scratch: {report['why']}", CLOCK_REMEDY)
    except ClientError:
        return  # a controller that is down is a problem of its own


def _home_problems(stack: Stack, outputs: Mapping[str, Any] | None) -> Iterator[Problem]:
    if not outputs or not has_quotas(outputs.get("files") or {}):
        return
    view = view_homes(stack, outputs)
    over = [each.name for each in view.people if (each.part or 0) > 1]
    near = [each.name for each in view.people if _NEAR <= (each.part or 0) <= 1]
    remedy = "`tidepool quota` shows by how much; they delete what they need no more, or `quota` of a user gives them more"
    if over:
        yield Problem("note", f"over their quota of /home: {', '.join(over)}", remedy)
    if near:
        yield Problem("note", f"near their quota of /home: {', '.join(near)}", remedy)


def home_findings(stack: Stack, outputs: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Yield whether the file system of /home enforces quotas, for `doctor`."""
    if not outputs or not has_quotas(outputs.get("files") or {}):
        return
    try:
        homes = homes_of(stack, outputs, outputs["files"]).read()
    except ClientError as error:
        yield Finding("quotas", "note", f"{error.what} ({error.where})", error.remedy)
        return
    if homes.is_enforced:
        yield Finding("quotas", "well", f"the file system of /home ({homes.kind}) enforces them")
    else:
        yield Finding("quotas", "note", f"they are watched and not enforced: {homes.why}", homes.remedy)
