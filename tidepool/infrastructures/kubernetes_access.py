"""Ways to a Kubernetes, as this machine keeps them: kubeconfigs by name, and the machine that each goes through.

<data>/<stack>/kubernetes/<access>.kubeconfig    for root alone

with load_access(data, "dev", "kubernetes").client(data) as kubernetes:
    kubernetes.nodes()
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.clients.kubernetes.client import KubernetesApi, connect
from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.kubernetes.exchange import Dial, dial_here
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.kubeconfig_text import note_of, noted
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel.private import write_private

Connection = Mapping[str, Any]
_MACHINE: Final = "machine"
_LOOK_S: Final = 0.1


class NoAccess(Exception):
    """There is no way of that name. Says where it should be, and what puts it there."""


@dataclass(frozen=True, slots=True)
class Access:
    """A kubeconfig, and whose network it is used in: ``machine`` is the connection of one; None: this one's own."""

    kubeconfig: str = field(repr=False)
    machine: Connection | None = None

    @classmethod
    def of(cls, kubeconfig: str, folder: Path, machine: Connection | None) -> Access:
        """One of a kubeconfig that is somewhere else; relative paths in it begin in ``folder``.

        Raises:
            ValueError: it is no kubeconfig, or leads nowhere safe.
        """
        read_kubeconfig(kubeconfig, folder)
        return cls(noted(kubeconfig, folder, {_MACHINE: dict(machine) if machine else None}), machine)

    @classmethod
    def in_file(cls, path: Path, machine: Connection | None = None) -> Access:
        """One of a person's kubeconfig.

        Raises:
            ValueError: it cannot be read, is no kubeconfig, or leads nowhere safe; says which file.
        """
        try:
            return cls.of(path.read_text("utf-8"), path.parent, machine)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def client(self, data: Path, timeout_s: float = 15.0) -> KubernetesApi:
        """The client of the API server that it leads to. Nothing is asked yet.

        Raises:
            ValueError: the kubeconfig, or the connection of its machine, leads nowhere.
        """
        return connect(self.kubeconfig, dial=dialer(self.machine, data), timeout_s=timeout_s)

    def why_not(self, data: Path, *, settles_s: float = 0.0) -> str:
        """Why Tidepool can do nothing by it, in words: no answer, or rights that are missing; empty where it can.

        Rights that are missing are asked for again for ``settles_s`` seconds.
        """
        deadline = time.monotonic() + settles_s
        try:
            with self.client(data) as kubernetes:
                while (missing := kubernetes.missing_rights()) and time.monotonic() < deadline:
                    time.sleep(_LOOK_S)
        except KubernetesError as error:
            return str(error)
        if missing:
            rights = ", ".join(map(str, missing))
            return (
                f"{kubernetes.where} does not allow {rights}: give its user these rights (docs/kubernetes.md)"
            )
        return ""

    def save(self, path: Path) -> None:
        write_private(path, self.kubeconfig)


def connect_by(kubeconfig: Path, data: Path) -> KubernetesApi:
    """Return the client of the API server that a person's kubeconfig leads to; the file is read now.

    Raises:
        ValueError: as `Access.in_file`.
    """
    return Access.in_file(kubeconfig).client(data)


def access_path(data: Path, stack: str, name: str) -> Path:
    """Return the path of a kubeconfig, which other programs read as well."""
    return data / stack / "kubernetes" / f"{name}.kubeconfig"


def load_access(data: Path, stack: str, name: str) -> Access:
    """The way of that name.

    Raises:
        NoAccess: it is not kept here, or cannot be read.
    """
    path = access_path(data, stack, name)
    try:
        text = path.read_text("utf-8")
        return Access(text, note_of(text).get(_MACHINE))
    except FileNotFoundError:
        what = f"{path} is missing"
    except ValueError:
        what = f"{path} cannot be read"
    raise NoAccess(
        f"there is no access {name} to Kubernetes in stack {stack} ({what}): `tidepool up` writes it"
    )


def dialer(machine: Connection | None, data: Path) -> Dial:
    """Return the function that opens connections in the network of a machine, or in this machine's own.

    Raises:
        ValueError: it is no connection that is known here.
    """
    match machine:
        case None:
            return dial_here
        case {"kind": "local", "stack": str(stack), "machine": str(name)}:

            def dial(host: str, port: int, timeout_s: float) -> socket.socket:
                try:
                    return kernel.dial(data, stack, name, host, port, timeout_s)
                except kernel.NoSuchMachine as error:
                    raise ConnectionRefusedError(str(error)) from error

            return dial
        case _:
            raise ValueError(f"{dict(machine)!r} is no connection; known kinds are: local")
