"""The context of a verb: the environment, and the ways to a cluster. It is handed to verbs, so that tests can replace it."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidepool.cli.engine import Engine
    from tidepool.clients.kubernetes.contract import KubernetesClient
    from tidepool.clients.slurm import SlurmClient


Connection = Mapping[str, Any]


def _slurm(connection: Connection, data: Path) -> SlurmClient:
    from tidepool.clients.slurm import Slurm
    from tidepool.infrastructures.connection import transport

    return Slurm(transport(connection, data))


def _kubernetes(connection: Connection, data: Path) -> KubernetesClient:
    from tidepool.clients.kubernetes.client import connect
    from tidepool.clients.kubernetes.contract import Unreachable
    from tidepool.infrastructures.kubernetes_access import NoAccess, load_access

    try:
        match connection:
            case {"kubeconfig": str(path)}:
                return connect(Path(path).read_text(), folder=Path(path).parent)
            case {"stack": str(stack), "access": str(name)}:
                return load_access(data, stack, name).client(data)
            case _:
                raise Unreachable(f"{dict(connection)!r} is no way to a Kubernetes that is known here")
    except (NoAccess, OSError, ValueError) as error:
        raise Unreachable(str(error)) from error


@dataclass(frozen=True, slots=True)
class Context:
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
    #: The client of the Kubernetes that pools serve; by the data folder.
    open_kubernetes: Callable[[Connection, Path], KubernetesClient] = field(default=_kubernetes)

    @classmethod
    def of_process(cls) -> Context:
        person = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        return cls(os.environ, Path.cwd(), person, owns_process=True, root=os.geteuid() == 0)

    def chosen_engine(self) -> Engine:
        """Return the engine.

        Raises:
            EngineError: TIDEPOOL_ENGINE names none that is there.
        """
        if self.engine is not None:
            return self.engine
        from tidepool.cli.engine import choose

        return choose(self.env, person=self.person, owns_process=self.owns_process)

    @property
    def who(self) -> str:
        """The person's name, also behind sudo."""
        return self.env.get("SUDO_USER") or self.env.get("USER") or getpass.getuser()

    @property
    def images(self) -> Path:
        """The folder that golden images are in: that of TIDEPOOL_IMAGES, else one in the data folder."""
        return Path(self.env.get("TIDEPOOL_IMAGES") or self.data / "images").absolute()

    @property
    def data(self) -> Path:
        from tidepool.infrastructures.connection import data_folder

        return data_folder(self.env)
