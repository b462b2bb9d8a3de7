"""tidepool:infrastructure:Preflight, and what earlier releases had in its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidepool.cluster.failures import Note, Permanent
from tidepool.infrastructures.registry import preflight_of
from tidepool.resources.declarations import Preflight, PreflightModel
from tidepool.resources.kind import Kind, Made, Task
from tidepool.resources.reading import Mistake, Reading, read


class PreflightKind(Kind[PreflightModel]):
    """An infrastructure that is asked in each check, before anything is made there. Of a retired type it does nothing else."""

    resource = Preflight

    def mistakes(self, wanted: PreflightModel) -> Iterable[Mistake | Note]:
        try:
            check = preflight_of(wanted.infrastructure)
        except Permanent as error:
            yield Mistake("infrastructure", str(error))
            return
        if not isinstance(wanted.demands, dict):
            yield Mistake("demands", "a map is wanted")
            return
        found: Reading[Any] = read(check.demands, wanted.demands, strict=True)
        if found.mistakes:
            yield from (Mistake(f"demands.{each.property}", each.reason) for each in found.mistakes)
            return
        # Of the path, which is short: Pulumi shows the value beside the reason.
        for lack in dict.fromkeys(check.lacks(found.value, self._home)):
            yield lack if isinstance(lack, Note) else Mistake("path", lack)

    def create(self, wanted: PreflightModel, task: Task) -> Made:
        return Made(f"{wanted.infrastructure}/{wanted.path}")
