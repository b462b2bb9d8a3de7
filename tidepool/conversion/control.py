"""The port `Control`: the control planes that a machine is a part of, over clients of Slurm and of Kubernetes.

Slurm does not say which controller is in charge. Measured with 22.05.8: the primary is, whenever it answers. One that a
backup takes over from ends, with exit code 0, and one that is started again takes control back within two seconds; a backup that answers
may only stand by. So who is in charge is the first that answers, given that Slurm answered at all, which a conversion
asks first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tidepool.clients.kubernetes.contract import KubernetesReader
from tidepool.clients.kubernetes.errors import KubernetesError
from tidepool.clients.slurm import Controller, SlurmClient, SlurmError
from tidepool.cluster.roles import Role
from tidepool.conversion.control_nodes import Standing
from tidepool.conversion.ports import OUR_HOLD, ConversionError, Refused

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
        members = frozenset(map(_machine, found))
        if self.node not in members:
            self._is_ordinary = True
            return ()
        up = [_machine(each) for each in found if each.is_up]
        if self.node in up and not found[0].is_up and len(up) > 1:
            raise ConversionError(
                f"slurmctld of {_machine(found[0])}, the primary, does not answer, and of the backups {', '.join(up)} "
                "Slurm does not say which is in charge; start the primary, or stop all but one of them"
            )
        with _said("Slurm"):
            leaving = {
                node.name
                for node in self.slurm.nodes()
                if node.state.is_draining
                and node.reason is not None
                and node.reason.text.startswith(OUR_HOLD)
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


def _machine(controller: Controller) -> str:
    """slurm.conf may name it with its domain."""
    return controller.host.partition(".")[0]


@contextmanager
def _said(whom: str) -> Iterator[None]:
    try:
        yield
    except (SlurmError, KubernetesError) as error:
        raise ConversionError(f"{whom}: {error}") from error
