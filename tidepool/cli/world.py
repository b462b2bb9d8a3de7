"""What a verb may know of the world around it, and how it gets at a cluster: handed to it, so that tests can."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidepool.cli.contract import Engine
    from tidepool.slurm import SlurmClient

Connection = Mapping[str, Any]


def _slurm(connection: Connection, data: Path) -> SlurmClient:
    from tidepool.connection import transport
    from tidepool.slurm import Slurm

    return Slurm(transport(connection, data))


@dataclass(frozen=True, slots=True)
class World:
    """``cwd`` is absolute. ``person`` says that there is a terminal and so somebody to ask; ``root`` that it is root's.

    ``owns_process`` lets the embedded engine run the program in this process, which is quickest, and which a
    process can do only once.
    """

    env: Mapping[str, str]
    cwd: Path
    person: bool = False
    owns_process: bool = False
    root: bool = True
    #: None chooses it by ``env``.
    engine: Engine | None = None
    #: The client of the Slurm whose controller a connection names; by the data folder.
    open_slurm: Callable[[Connection, Path], SlurmClient] = field(default=_slurm)

    @classmethod
    def of_process(cls) -> World:
        """This process's own."""
        person = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        return cls(os.environ, Path.cwd(), person, owns_process=True, root=os.geteuid() == 0)

    @property
    def data(self) -> Path:
        """The data folder."""
        from tidepool.connection import data_folder

        return data_folder(self.env)
