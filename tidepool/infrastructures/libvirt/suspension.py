"""A machine of libvirt whose memory libvirt saves: in a file of its host, for root alone, which goes when the domain starts or goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.libvirt.ask import Said, Virsh, done, kinds_of_failures, patient_virsh, virsh
from tidepool.infrastructures.suspension import MachineState

_NO_DOMAIN: Final = "failed to get domain"
_ON: Final = "already active"
#: As `virsh domstate` says it of one that runs, or is held by somebody.
_RUNS: Final = frozenset({"running", "idle", "paused", "in shutdown", "pmsuspended"})


def suspension_of(said: Mapping[str, Any]) -> DomainSuspension:
    """The machine of which `tidepool.infrastructures.libvirt.graph` said this."""
    return DomainSuspension(said["uri"], said["domain"])


@dataclass(frozen=True, slots=True)
class DomainSuspension:
    """`tidepool.infrastructures.suspension.Suspension` of ``domain`` on the host of ``uri``.

    ``patient`` runs what takes as long as its memory is large.
    """

    uri: str
    domain: str
    virsh: Virsh = virsh
    patient: Virsh = patient_virsh

    def state(self) -> MachineState:
        said = self._run(self.virsh, "domstate", self.domain, unless=_NO_DOMAIN)
        if said.returncode != 0:
            return self._gone()
        if said.stdout.strip() in _RUNS:
            return "running"
        # It reads the file: one that is lost, or was not written to its end, is none.
        saved = self.virsh(self.uri, "managedsave-dumpxml", self.domain)
        return "suspended" if saved.returncode == 0 else "stopped"

    def suspend(self) -> None:
        match self.state():
            case "suspended":
                return
            case "running":
                self._run(self.patient, "managedsave", "--running", self.domain)
            case other:
                raise Permanent(f"{self.uri}: {self.domain} is {other}: there is no memory of it to be saved")

    def resume(self) -> None:
        self._run(self.patient, "start", self.domain, unless=_ON)

    def _gone(self) -> MachineState:
        """A lost connection says the same: it is gone when it is not listed any more."""
        listed = self._run(self.virsh, "list", "--all", "--name").stdout.split()
        if self.domain in listed:
            raise Transient(f"{self.uri} does not say how {self.domain} is")
        return "gone"

    def _run(self, run: Virsh, *words: str, unless: str = "") -> Said:
        with kinds_of_failures():
            return done(run, self.uri, *words, unless=unless)
