"""Putting one resource in the place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.steps.step import SUCCESS, Outcome, Step
from tidepool.engine.events import Op
from tidepool.engine.providers.contract import (
    DiffResult,
)

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


class ReplaceStep(Step):
    """The whole of a replacement: says that the old resource has become the new one."""

    op = Op.REPLACE

    def __init__(
        self, old: Entry, new: Entry, *, keys: tuple[str, ...] = (), diff: DiffResult | None = None
    ) -> None:
        super().__init__(old, new)
        self.keys = keys
        if diff is not None:
            self.diffs, self.detailed_diff = diff.changed_keys, diff.detailed_diff

    async def apply(self, deployment: Deployment) -> Outcome:
        return SUCCESS
