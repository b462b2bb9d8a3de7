"""Slurm's reasons for which a job waits, and whether nodes would help. The table of docs/scaling.md is this one."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple


class Ruling(NamedTuple):
    """The meaning of a reason of Slurm's for the scaler. ``words`` tell a researcher why no node is made for the job.

    ``helps``: nodes would help. ``blames_nodes``: Slurm looked for nodes and found none, so that a job for which
    there seems to be room has none in Slurm's eyes.
    """

    helps: bool
    words: str = ""
    blames_nodes: bool = False


_NODES: Final = Ruling(True, blames_nodes=True)
_TURN: Final = Ruling(True)

#: By the reason's first word, and the first that its text begins with.
RULINGS: Final = MappingProxyType(
    {
        "": _TURN,
        "None": _TURN,
        "Priority": _TURN,
        "Resources": _NODES,
        "Nodes required for job": _NODES,
        "ReqNodeNotAvail, Reserved for maintenance": Ruling(
            False, "a reservation for maintenance keeps its nodes; it starts when that is over"
        ),
        "ReqNodeNotAvail": _NODES,
        "NodeDown": _NODES,
        "PartitionConfig": _NODES,
        "PartitionNodeLimit": _NODES,
        "BadConstraints": _NODES,
        "SchedDefer": _TURN,
        "Cleaning": _TURN,
        "JobHeldUser": Ruling(False, "its owner holds it; `scontrol release` lets it go"),
        "JobHeldAdmin": Ruling(
            False, "an administrator, or Slurm itself, holds it; an administrator can release it"
        ),
        "JobHoldMaxRequeue": Ruling(False, "it was requeued too often, so Slurm holds it"),
        "launch failed requeued held": Ruling(False, "it could not be launched, so Slurm holds it"),
        "job requeued in held state": Ruling(
            False, "it was requeued to be held; `scontrol release` lets it go"
        ),
        "JobLaunchFailure": Ruling(False, "it could not be launched, so Slurm holds it"),
        "Dependency": Ruling(False, "it waits for other jobs (its dependency)"),
        "DependencyNeverSatisfied": Ruling(
            False, "the jobs that it depends on did not end as it asks for, so it never starts; cancel it"
        ),
        "BeginTime": Ruling(False, "it is not to begin yet (its begin time)"),
        "JobArrayTaskLimit": Ruling(False, "as many tasks of its array run as it allows at once (%)"),
        "Licenses": Ruling(False, "it waits for licences that other jobs have"),
        "Reservation": Ruling(False, "it waits for its reservation to begin"),
        "ReservationDeleted": Ruling(False, "its reservation was deleted, so Slurm holds it"),
        "PartitionDown": Ruling(False, "its partition is down; an administrator can set it UP"),
        "PartitionInactive": Ruling(False, "its partition is inactive; an administrator can set it UP"),
        "PartitionTimeLimit": Ruling(False, "its time limit is longer than its partition allows"),
        "AccountNotAllowed": Ruling(False, "its account may not use its partition"),
        "AccountingPolicy": Ruling(False, "a limit of Slurm's accounting holds it back"),
        "QOSNotAllowed": Ruling(False, "its QOS may not be used in its partition, or by its account"),
        "InvalidAccount": Ruling(False, "Slurm does not know its account any more"),
        "InvalidQOS": Ruling(False, "Slurm does not know its QOS any more"),
        "QOS": Ruling(False, "a limit of its QOS holds it back"),
        "Assoc": Ruling(False, "a limit of its account or user holds it back"),
        "Max": Ruling(False, "a limit of its account or user holds it back"),
        "BurstBuffer": Ruling(False, "its burst buffer is not ready"),
        "FrontEndDown": Ruling(False, "its front end is down"),
        "FedJobLock": Ruling(False, "another cluster of the federation has it"),
        "DeadLine": Ruling(False, "it cannot end before its deadline any more"),
        "SystemFailure": Ruling(False, "Slurm had a failure with it; its log says more"),
    }
)
_LONGEST_FIRST: Final = sorted(filter(None, RULINGS), key=len, reverse=True)


@lru_cache(maxsize=4096)
def ruling(reason: str) -> Ruling:
    """Return what ``reason``, as squeue shows it, means. One that is not known tells nothing of nodes: none is made."""
    if not reason:
        return RULINGS[""]
    for beginning in _LONGEST_FIRST:
        if reason.startswith(beginning):
            found = RULINGS[beginning]
            break
    else:
        found = Ruling(False, "Slurm gives a reason that the scaler does not know")
    return found if found.helps else found._replace(words=f"{found.words} ({reason})")
