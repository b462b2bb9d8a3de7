"""Media of a stack as its boot service has them: what each host boots is kept here when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tidepool.cluster.failures import Transient
from tidepool.infrastructures.boot_media.media import Kept, Medium, Report, Task
from tidepool.infrastructures.metal.inventory import Claim


@dataclass(frozen=True, slots=True)
class Published:
    """`tidepool.infrastructures.metal.tasks.Media`; ``medium_of`` gives what a host is to boot, from what is kept of it."""

    kept: Kept
    medium_of: Callable[[str, Medium | None], Medium | None] = lambda _, kept: kept

    def publish(self, host: str, claim: Claim, task: Task) -> str:
        before = self.kept.read(host)
        if (medium := self.medium_of(host, before)) is None:
            raise Transient(
                f"what the host {host} boots is not known on this machine: do it where the machine was made, or run `tidepool up --refresh` "
                "here first"
            )
        if task == "install":
            # While nobody waits for a boot: it reads all of the image once.
            self.kept.sums(Path(medium.disk_image))
        begun = self._is_of(before, claim) and before is not None and before.begun
        self.kept.remove_failure(host)
        self.kept.write(host, replace(medium, claim=claim.id, task=task, begun=begun))
        return f"{self.kept.url(host)}.iso"

    def begin(self, host: str, *, begun: bool) -> None:
        if (medium := self.kept.read(host)) is not None:
            self.kept.write(host, replace(medium, begun=begun))
            if begun:
                self.kept.set_log_aside(host)

    def report(self, host: str, claim: Claim, task: Task) -> Report | None:
        return self.kept.read_report(host, claim.id, task)

    def is_doing(self, host: str, claim: Claim, task: Task) -> bool:
        medium = self.kept.read(host)
        return medium is not None and self._is_of(medium, claim) and medium.begun and medium.task == task

    def may_have_written(self, host: str, claim: Claim) -> bool:
        medium, told = self.kept.read(host), self.report(host, claim, "install")
        if told is not None and not told.is_done:
            return told.wrote
        # What is not known here may have been done elsewhere.
        return medium is None or not self._is_of(medium, claim) or medium.begun

    def withdraw(self, host: str) -> None:
        self.kept.remove(host)

    @staticmethod
    def _is_of(medium: Medium | None, claim: Claim) -> bool:
        return medium is not None and (medium.node, medium.claim) == (claim.node, claim.id)
