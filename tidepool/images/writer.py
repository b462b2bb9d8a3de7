"""Runs what writes a form of an image: without a network, at the image's own time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.images.isolated import run
from tidepool.images.machine import Machine
from tidepool.images.store import Image

WRITE_S: Final = 900.0


@dataclass(frozen=True)
class Writer:
    """Writes ``form`` of ``image``, while ``lock_descriptor`` holds the image's lock."""

    image: Image
    form: str
    machine: Machine
    lock_descriptor: int

    @property
    def log(self) -> Path:
        """Where all that the programs say goes."""
        return self.image.folder / "build.log"

    def run(self, command: list[str], *, stdin: Path | None = None) -> str:
        """Run it to its end; gives what it said.

        Raises:
            BuildFailed: it failed, or took too long.
        """
        epoch = str(self.image.epoch)
        return run(
            command,
            what=f"writing image {self.image.name} as {self.form}",
            log=self.log,
            environment={
                "PATH": self.machine.environment.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
                "LC_ALL": "C.UTF-8",
                "TZ": "UTC0",
                "SOURCE_DATE_EPOCH": epoch,
                "E2FSPROGS_FAKE_TIME": epoch,
            },
            timeout_s=WRITE_S,
            stdin=stdin,
            inherited=(self.lock_descriptor,),
        )
