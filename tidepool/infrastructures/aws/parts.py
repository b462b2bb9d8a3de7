"""The parts of a cluster, a security group each, and who may speak to whom.

A connection is opened from a machine's own address in its subnet, which AWS knows to be of its group, to the address that the
machine has in the cluster's network, which AWS does not know. So groups are named where connections arrive; where they leave,
the network is. What comes from machines that are elsewhere is of no group, and the network is named for it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tidepool.cluster.slurm_conf import ACCOUNTING_HOST

Part = Literal["controller", "accounting", "login", "node", "files", "endpoints"]
MACHINES: Final[tuple[Part, ...]] = ("controller", "accounting", "login", "node")

#: What srun and jobs listen on: the kernel chooses.
_ANY_PORT: Final = (1024, 65535)
_SSH: Final = (22, 22)
#: Those machines' boot, or one of them. A fleet may be called `login-gpu`: its nodes are nodes.
_LOGIN: Final = re.compile(r"login(-[0-9]+)?")
LUSTRE: Final = ((988, 988), (1018, 1023))


@dataclass(frozen=True, slots=True)
class Rule:
    """``source`` may open TCP connections to ``to``; with ``ports`` None anything is let through."""

    to: Part
    source: Part
    ports: tuple[int, int] | None
    why: str

    @property
    def name(self) -> str:
        """Return its name among all rules: `controller-from-node-6817`."""
        return f"{self.to}-from-{self.source}-{self.ports[0] if self.ports else 'all'}"


def part_of(machine: str) -> Part:
    """Return the part that a machine is of, by its name or that of its boot."""
    if machine in ("ctl", "ctlbackup"):
        return "controller"
    if machine == ACCOUNTING_HOST:
        return "accounting"
    return "login" if _LOGIN.fullmatch(machine) else "node"


def rules(*, lustre: bool = False) -> tuple[Rule, ...]:
    """All that machines of a cluster say to each other, and to its file systems, with Lustre or without."""
    return (*_of_machines(), *(_of_lustre() if lustre else ()))


def to_nodes_from_outside() -> Mapping[tuple[int, int], str]:
    """By ports, why: what the cluster's own machines open to nodes, where those machines are not at AWS and of no group."""
    return {
        rule.ports: rule.why
        for rule in _of_machines()
        if rule.to == "node" and rule.source != "node" and rule.ports is not None
    }


def _of_machines() -> Iterator[Rule]:
    for source in MACHINES:
        yield Rule("controller", source, (6817, 6817), "slurmctld")
    for source in ("controller", "login"):
        yield Rule("accounting", source, (6819, 6819), "slurmdbd")
        yield Rule("node", source, (6818, 6818), "slurmd")
        yield Rule("node", source, _SSH, "SSH")
    yield Rule("controller", "login", _SSH, "SSH")
    # srun tells its user of each step, wherever the user is.
    yield Rule("login", "controller", _ANY_PORT, "srun")
    yield Rule("login", "node", _ANY_PORT, "srun")
    yield Rule("node", "controller", _ANY_PORT, "srun")
    # MPI, and EFA, which lets nothing through but to its own group.
    yield Rule("node", "node", None, "jobs")
    for source in MACHINES:
        yield Rule("files", source, (2049, 2049), "NFS")
        yield Rule("endpoints", source, (443, 443), "Secrets Manager")


def _of_lustre() -> Iterator[Rule]:
    """Its servers call each other and their clients, too."""
    parts: tuple[Part, ...] = (*MACHINES, "files")
    for part in parts:
        for ports in LUSTRE:
            yield Rule("files", part, ports, "Lustre")
            if part != "files":
                yield Rule(part, "files", ports, "Lustre")
