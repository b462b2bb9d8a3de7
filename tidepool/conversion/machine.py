"""One machine of a pool: the ports `Machine`, over a transport, and `Control`, over clients of Slurm and of Kubernetes.

By a transport it takes roles and loses them, one round trip a call. Slurm does not say which controller is in charge.
Measured with 22.05.8: the primary is, whenever it answers. One that a backup takes over from ends, with exit code 0, and one
that is started again takes control back within two seconds; a backup that answers may only stand by. So who is in charge is
the first that answers, given that Slurm answered at all, which a conversion asks first.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, cast

from tidepool.clients.kubernetes.contract import KubernetesError, KubernetesReader
from tidepool.clients.slurm import Controller, SlurmClient, SlurmError, Transport
from tidepool.cluster import kubelet_files
from tidepool.cluster.roles import BOOTSTRAP, CNI_CONFIG, LAYOUTS, ROLES, ROUTES, Role
from tidepool.conversion import machine_agent
from tidepool.conversion.ports import ConversionError, Refused, Standing
from tidepool.conversion.slurm_side import is_our_hold

#: The text of what runs there: by no file that would have to be there, and without the site's modules.
_PROGRAM: Final = ("/usr/bin/python3", "-ISc", Path(machine_agent.__file__).read_text("utf-8"))
#: Beyond what services take to start or to stop.
_MARGIN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class RoleFile:
    """A file that a machine has while it has a role. ``mode`` is octal; owner and group are names of the image."""

    path: str
    content: bytes = field(repr=False)
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True, slots=True)
class RoleProgram:
    """A machine, ``node``, behind ``transport``.

    ``files`` gives what it has with a role, when it takes that role: its credentials, its configuration. They reach the
    machine through a pipe. Its services have ``start_s`` to start and ``stop_s`` to stop.
    """

    transport: Transport
    node: str
    files: Callable[[Role], Sequence[RoleFile]]
    start_s: float = 20.0
    stop_s: float = 60.0

    def roles(self) -> frozenset[Role]:
        return frozenset(cast("Sequence[Role]", self._ask("roles", None, self.start_s)["roles"]))

    def take(self, role: Role) -> None:
        files = [
            asdict(file) | {"content": base64.b64encode(file.content).decode()} for file in self.files(role)
        ]
        self._ask("take", role, self.start_s, files=files)

    def lose(self, role: Role) -> None:
        if left := self._ask("lose", role, self.stop_s)["left"]:
            raise ConversionError(f"{self.node} lost the role {role}, but there is still {', '.join(left)}")

    def left_behind(self, role: Role) -> tuple[str, ...]:
        return tuple(self._ask("left", role, self.start_s)["left"])

    def _ask(self, verb: str, role: Role | None, timeout_s: float, **more: object) -> Mapping[str, Any]:
        layouts = {each: asdict(LAYOUTS[each]) for each in ROLES}
        request = {"verb": verb, "role": role, "layouts": layouts, "timeout_s": timeout_s, **more}
        try:
            ended = self.transport.run(_PROGRAM, stdin=json.dumps(request), timeout_s=timeout_s + _MARGIN_S)
        except SlurmError as error:  # of the transport, which both sides share
            raise ConversionError(f"{self.node} cannot be asked: {error}") from error
        try:
            told: Mapping[str, Any] = json.loads(ended.stdout)
        except ValueError:
            said = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.exit_code}"]
            raise ConversionError(f"{self.node} did not come to the end of it: {said[0]}") from None
        if "error" in told:
            raise ConversionError(f"{self.node}: {told['error']}")
        return told


def kubernetes_files(files: Sequence[RoleFile], *, pods: IPv4Network, bootstrap: str) -> tuple[RoleFile, ...]:
    """Return the files of one machine with the role: those of the role's boot, and those of this machine alone.

    Args:
        files: those that all machines of its pool have.
        pods: where its pods have their addresses.
        bootstrap: the kubeconfig by which its kubelet asks for a certificate (`kubelet_files.bootstrap_kubeconfig`).
    """
    return (
        *(_without_own_route(file, pods) if file.path == ROUTES else file for file in files),
        RoleFile(CNI_CONFIG, kubelet_files.cni_config(pods).encode()),
        RoleFile(BOOTSTRAP, bootstrap.encode(), "0600"),
    )


def _without_own_route(file: RoleFile, pods: IPv4Network) -> RoleFile:
    text = kubelet_files.routes_without(file.content.decode(), pods)
    return RoleFile(file.path, text.encode(), file.mode, file.owner, file.group)


#: What the Node of a member of Kubernetes' control plane is labelled with.
MEMBER_LABEL: Final = "node-role.kubernetes.io/control-plane"
#: So long may a primary take to end that was told to: it saves its state.
_ENDS: Final = timedelta(seconds=30)


@dataclass
class ControlPlanes:
    """The control planes of Slurm and Kubernetes, for the machine ``node``. An ordinary one costs a ping of Slurm, once.

    Args:
        node: the machine's name, by which both sides know it.
        slurm: a client of Slurm.
        kubernetes: one of Kubernetes; None where there is none to ask, and so no Node that was seen.
        labels: of the machine's Node as it was seen last; none where it has none.
        now: the time in UTC.
    """

    node: str
    slurm: SlurmClient
    kubernetes: KubernetesReader | None
    labels: Callable[[], Mapping[str, str]]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    #: slurm.conf names its controllers, and they do not change while a machine moves.
    _is_ordinary: bool = field(default=False, init=False)
    _handed_over: datetime | None = field(default=None, init=False)

    def standing(self, role: Role) -> tuple[Standing, ...]:
        """See `Control`."""
        return self._slurmctlds() if role == "slurm" else self._members()

    def hand_over(self, role: Role) -> None:
        """See `Control`. Once: each time is an outage of seconds."""
        if role != "slurm":
            raise ConversionError(
                "the members of Kubernetes' control plane are alike: there is none to take over"
            )
        now = self.now()
        if self._handed_over is None:
            with _said("Slurm"):
                self.slurm.takeover()
            self._handed_over = now
        elif now - self._handed_over > _ENDS:
            raise Refused(
                f"a backup took over from slurmctld of {self.node}, which answers again: what supervises it starts it "
                "again, and a primary that starts takes control back. Have it do so after failures alone "
                "(`Restart=on-failure` in its unit)"
            )

    def _slurmctlds(self) -> tuple[Standing, ...]:
        if self._is_ordinary:
            return ()
        with _said("Slurm"):
            found = self.slurm.ping()
        members = frozenset(map(_host, found))
        if self.node not in members:
            self._is_ordinary = True
            return ()
        up = [_host(each) for each in found if each.is_up]
        if self.node in up and not found[0].is_up and len(up) > 1:
            raise ConversionError(
                f"slurmctld of {_host(found[0])}, the primary, does not answer, and of the backups {', '.join(up)} "
                "Slurm does not say which is in charge; start the primary, or stop all but one of them"
            )
        with _said("Slurm"):
            leaving = {
                node.name for node in self.slurm.nodes() if node.state.is_draining and is_our_hold(node)
            }
        well = frozenset(up) - (leaving - {self.node})
        return (Standing("slurm", members, well, up[0] if up else ""),)

    def _members(self) -> tuple[Standing, ...]:
        if self.kubernetes is None or MEMBER_LABEL not in self.labels():
            return ()
        with _said("Kubernetes"):
            members = [node for node in self.kubernetes.nodes() if MEMBER_LABEL in node.labels]
        # Those that we cordoned are leaving, as this one is: two at once are one too many.
        well = frozenset(node.name for node in members if node.ready and not node.reason)
        return (Standing("kubernetes", frozenset(node.name for node in members), well),)


def _host(controller: Controller) -> str:
    """slurm.conf may name it with its domain."""
    return controller.host.partition(".")[0]


@contextmanager
def _said(whom: str) -> Iterator[None]:
    try:
        yield
    except (SlurmError, KubernetesError) as error:
        raise ConversionError(f"{whom}: {error}") from error
