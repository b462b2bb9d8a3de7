"""Which roles of a converged pool an image holds, from what is in it. Pure: nothing is mounted, nothing is claimed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.roles import ROLES, Role


@dataclass(frozen=True)
class _Needs:
    packages: tuple[str, ...]
    tools: tuple[str, ...] = ()


#: `pause` is in the first container of each pod.
_NEEDS: Final[Mapping[Role, _Needs]] = {
    "slurm": _Needs(("munge", "slurmd")),
    "kubernetes": _Needs(("containerd", "containernetworking-plugins", "runc"), ("kubelet", "pause")),
}


def lacking(role: Role, packages: Collection[str], tools: Collection[str]) -> tuple[str, ...]:
    """What an image of these packages and tools lacks to serve ``role``; nothing where it holds it."""
    needs = _NEEDS[role]
    return (
        *(f"package {name}" for name in needs.packages if name not in packages),
        *(f"tool {name}" for name in needs.tools if name not in tools),
    )


def roles_held(packages: Collection[str], tools: Collection[str]) -> tuple[Role, ...]:
    """The roles that a machine of such an image can have."""
    return tuple(role for role in ROLES if not lacking(role, packages, tools))
