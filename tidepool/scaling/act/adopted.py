"""The wish, brought up to what a person did to the stack. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidepool.cluster.hostlist import HostSet


def adopted(
    desired: Mapping[str, HostSet],
    fleets: Mapping[str, HostSet],
    recorded: Collection[str],
    launching: Collection[str],
    removing: Collection[str],
) -> dict[str, HostSet]:
    """The wish, by fleet, after a look at the stack.

    Nodes in the outputs' ``fleets`` that nobody hosts for are a person's, who raised `min_nodes` say: they are
    wished from now on, but for those that are being removed. Nodes that neither the outputs nor the state know, and
    that are not being launched, are gone by a person's hand, by a `down` say: they are not wished any more.
    """
    joined: dict[str, HostSet] = {}
    for fleet in sorted({*desired, *fleets}):
        hosts, there = desired.get(fleet, HostSet()), fleets.get(fleet, HostSet())
        new = [name for name in there - hosts if name not in removing]
        gone = [name for name in hosts - there if name not in recorded and name not in launching]
        joined[fleet] = (hosts | HostSet.from_names(new)) - HostSet.from_names(gone)
    return joined


def applied(
    fleets: Mapping[str, HostSet], desired: Mapping[str, HostSet], nodes: Mapping[str, str]
) -> dict[str, HostSet]:
    """Return what the stack should have after an `up` of ``nodes`` (by name, their fleets), and of no others.

    Others are as the outputs' ``fleets`` have them: what is hosts besides is for another `up`.
    """
    after = dict(fleets)
    for name, fleet in nodes.items():
        one = HostSet.from_names([name])
        there = after.get(fleet, HostSet())
        after[fleet] = there | one if name in desired.get(fleet, HostSet()) else there - one
    return after
