"""Which infrastructure a spec's machines come from."""

from __future__ import annotations

import pulumi

from tidepool.cluster.spec import ClusterSpec
from tidepool.components.infrastructure.contract import Infrastructure
from tidepool.components.infrastructure.local import Local


def infrastructure_of(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The one infrastructure of all machines of ``spec``, for the stack of that name.

    Raises:
        pulumi.RunError: the spec names one that is not there yet; says where.
    """
    named = {"controller.infrastructure": spec.controller.infrastructure.name}
    for i, fleet in enumerate(spec.fleets):
        named |= {
            f"fleets[{i}].infrastructures[{j}]": each.name for j, each in enumerate(fleet.infrastructures)
        }
    others = {path: name for path, name in named.items() if name != "local"}
    if others:
        told = "; ".join(f"{path} is {name}" for path, name in others.items())
        raise pulumi.RunError(f"{told}: only `local` is there in this release, which is this machine")
    return Local(stack)
