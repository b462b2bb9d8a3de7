"""The status of a node in Slurm: from its state, its flags and its reason to one word of the reconcile table."""

from __future__ import annotations

from typing import Final

from tidepool.clients.slurm import Node, NodeBase, NodeFlag
from tidepool.scaling.decide.reconcile_words import SlurmStatus

#: What the scaler's drains, and the provider's, begin with. Everything else is a person's.
OURS: Final = "tidepool:"

#: The provider's, when an operation takes a node away (`tidepool.provider.retirement`).
PROVIDERS: Final = "tidepool: leaves the cluster"

#: Somebody else has it in hand.
_THEIRS: Final = frozenset(
    {
        NodeFlag.BLOCKED,
        NodeFlag.EXTERNAL,
        NodeFlag.FAIL,
        NodeFlag.MAINTENANCE,
        NodeFlag.REBOOT_ISSUED,
        NodeFlag.REBOOT_REQUESTED,
        NodeFlag.RESERVED,
    }
)
_OFF: Final = frozenset(
    {NodeFlag.POWERED_DOWN, NodeFlag.POWERING_DOWN, NodeFlag.POWER_DOWN, NodeFlag.POWER_DRAIN}
)
_BOOTING: Final = frozenset({NodeFlag.POWERING_UP, NodeFlag.POWER_UP})
_KNOWN: Final = frozenset(NodeFlag)
_UP: Final = frozenset({NodeBase.IDLE, NodeBase.ALLOCATED, NodeBase.MIXED})
_PLAIN: Final = frozenset({NodeFlag.DYNAMIC_NORM, NodeFlag.CLOUD, NodeFlag.PLANNED, NodeFlag.COMPLETING})

#: How slurmctld begins the reasons that it sets by itself. In lower case.
_TOO_LITTLE: Final = (
    "low realmemory",
    "low cpus",
    "low sockets",
    "low socket",
    "low cores",
    "low threads",
    "low tmpdisk",
    "gres/",
)
#: For which slurmctld drains a node, without a person. A drain that it would never end is replaced with its machine.
_FAILED: Final = (
    "batch job complete failure",
    "duplicate jobid",
    "epilog error",
    "kill task failed",
    "prolog error",
)
#: What a machine itself writes when it was told that it is taken back (`tidepool.infrastructures.aws.guest.spot`). It goes, whoever wants it.
_TAKEN_BACK: Final = ("spot: ",)
_DIED: Final = (
    "not responding",
    "node unexpectedly rebooted",
    "resumetimeout reached",
    "suspendtimeout reached",
    "no network address found",
    "node registration",
    "boot failed",
    "scheduled reboot",
    "none",
)


def slurm_status(node: Node | None) -> SlurmStatus:
    """One word for it. Of two that hold, what keeps hands off goes first."""
    if node is None:
        return SlurmStatus.UNLISTED
    base, flags = node.state.base, node.state.flags
    if base is NodeBase.FUTURE:
        return SlurmStatus.SLOT
    if base in _UP and flags <= _PLAIN:
        return SlurmStatus.UP
    if not flags <= _KNOWN or base in (NodeBase.ERROR, NodeBase.UNKNOWN):
        # A newer Slurm's word, or one that says nothing.
        return SlurmStatus.STRANGE
    if flags & _THEIRS or _is_somebodys(node):
        return SlurmStatus.THEIRS
    if flags & _BOOTING:
        return SlurmStatus.BOOTING
    if flags & _OFF:
        return SlurmStatus.OFF
    if NodeFlag.INVALID_REG in flags or _is_unfit(node):
        return SlurmStatus.UNFIT
    if base is NodeBase.DOWN:
        return SlurmStatus.DOWN
    if NodeFlag.NOT_RESPONDING in flags:
        return SlurmStatus.SILENT
    return SlurmStatus.OURS if node.state.is_draining else SlurmStatus.UP


def holder(node: Node) -> str:
    """Return who holds a node that is somebody's, and why, in words."""
    flags = ", ".join(sorted(node.state.flags & _THEIRS))
    by = f" by {node.reason.user}" if node.reason and node.reason.user else ""
    why = f": {node.reason.text}" if node.reason and node.reason.text else ""
    return f"{flags or ('down' if node.state.base is NodeBase.DOWN else 'drained')}{by}{why}"


def _is_somebodys(node: Node) -> bool:
    """Drained or set down by a person."""
    written = node.reason.text if node.reason else ""
    if written.startswith(OURS) or _is_unfit(node):
        return False
    if node.state.base is NodeBase.DOWN and not node.state.is_draining:
        by_slurm = node.reason is not None and node.reason.user == "slurm"
        return bool(written) and not by_slurm and not _begins(node, _DIED)
    return node.state.is_draining


def is_taken_back(node: Node | None) -> bool:
    """Return whether its infrastructure takes its machine back, and has said so before."""
    return (
        node is not None
        and node.reason is not None
        and node.reason.user in ("", "root")
        and node.state.is_draining
        and _begins(node, _TAKEN_BACK)
    )


def _is_unfit(node: Node) -> bool:
    by_slurm = node.reason is not None and node.reason.user in ("", "root", "slurm")
    return _begins(node, _TOO_LITTLE) or (by_slurm and _begins(node, _FAILED)) or is_taken_back(node)


def _begins(node: Node, texts: tuple[str, ...]) -> bool:
    return node.reason is not None and node.reason.text.lower().startswith(texts)
