"""Parties of the conversions of a machine, made of the inputs of its role's resource."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, cast

from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.objects import BootstrapToken
from tidepool.clients.slurm import Slurm
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.kubelet_files import bootstrap_kubeconfig
from tidepool.cluster.roles import Role
from tidepool.conversion.convert import Parties
from tidepool.conversion.journal import Journal
from tidepool.conversion.kubernetes_side import KubernetesSide
from tidepool.conversion.machine import ControlPlanes, RoleFile, RoleProgram, kubernetes_files
from tidepool.conversion.ports import ConversionError, Side
from tidepool.conversion.slurm_side import SlurmSide
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.kubernetes_access import Access, NoAccess, load_access
from tidepool.infrastructures.local.boots import boot_path, load_boot
from tidepool.infrastructures.local.kernel import File
from tidepool.provider.machines import machine_runs
from tidepool.resources.kind import Home
from tidepool.resources.pools import RoleModel

Connection = Mapping[str, Any]


def journal_path(data: Path, stack: str) -> Path:
    """Return the journal of a stack's conversions."""
    return data / stack / "conversions.db"


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True)
class Around:
    """Means of a role's resource: who takes part, for as long as they are needed, and the time in UTC."""

    parties: Callable[[RoleModel], AbstractContextManager[Parties]]
    #: Whether the machine runs.
    runs: Callable[[RoleModel], bool]
    journal: Callable[[Path], Journal] = Journal
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    wait: Callable[[float], None] = _wait


def around_of(home: Home) -> Around:
    """As it is for a provider whose machines are kept at ``home``."""

    @contextmanager
    def parties(wanted: RoleModel) -> Iterator[Parties]:
        slurmctld = Slurm(transport(wanted.controller, home.data))
        slurm = SlurmSide(slurmctld, wanted.node)
        try:
            access = load_access(home.data, wanted.stack, wanted.access)
            client = access.client(home.data)
        except (NoAccess, ValueError) as error:
            # It may be that nobody needs it: a machine without the role leaves its pool without it.
            unasked = cast(Side, _Unasked(str(error)))
            control = ControlPlanes(wanted.node, slurmctld, None, FrozenDict)
            yield Parties(_machine(home, wanted, _Token()), {"slurm": slurm, "kubernetes": unasked}, control)
            return
        with client:
            token = _Token(access)
            kubernetes = KubernetesSide(
                client, wanted.node, wanted.pool, wanted.stack, token.hand_over, wanted.labels
            )
            control = ControlPlanes(wanted.node, slurmctld, client, lambda: kubernetes.labels_seen)
            sides: Mapping[Role, Side] = {"slurm": slurm, "kubernetes": kubernetes}
            yield Parties(_machine(home, wanted, token), sides, control)

    return Around(parties, lambda wanted: machine_runs(wanted.machine, home.data))


def _machine(home: Home, wanted: RoleModel, token: _Token) -> RoleProgram:
    return RoleProgram(
        transport(wanted.machine, home.data), wanted.node, lambda role: _files(home, wanted, role, token)
    )


@dataclass(frozen=True, slots=True)
class _Unasked:
    """A side that there is no way to: whatever it is asked, it says why."""

    why: str

    def __getattr__(self, _name: str) -> Callable[..., Any]:
        def ask(*_arguments: object) -> Any:
            raise ConversionError(self.why)

        return ask


@dataclass
class _Token:
    """The bootstrap token that Kubernetes made for the machine, on its way to it."""

    access: Access | None = None
    text: str = field(default="", repr=False)

    def hand_over(self, token: BootstrapToken) -> None:
        self.text = token.text

    @property
    def kubeconfig(self) -> str:
        """By which a kubelet asks for its certificate."""
        if self.access is None or not self.text:
            raise ConversionError("there is no bootstrap token of Kubernetes' for it")
        context = read_kubeconfig(self.access.kubeconfig)
        return bootstrap_kubeconfig(str(context.cluster["server"]), context.authority, self.text)


def _files(home: Home, wanted: RoleModel, role: Role, token: _Token) -> Sequence[RoleFile]:
    """Return the files that the machine is given with a role: the files of that role's boot, and its own."""
    path = boot_path(home, wanted.stack, wanted.boots[role])
    try:
        parts = load_boot(path)
    except FileNotFoundError:
        raise ConversionError(
            f"the files of the role {role} are gone ({path}); `tidepool up` writes them"
        ) from None
    files = [_role_file(file) for file in parts.files]
    if role == "slurm":
        return files
    return kubernetes_files(files, pods=IPv4Network(wanted.pod_subnet), bootstrap=token.kubeconfig)


def _role_file(file: File[str]) -> RoleFile:
    return RoleFile(file.path, file.data, file.mode, file.owner, file.group)
