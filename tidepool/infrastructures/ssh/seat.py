"""Seats of nodes on hosts: the host follows from the node's number, so nobody has to remember it."""

from __future__ import annotations

from collections.abc import Sequence


def host_of(hosts: Sequence[str], number: int) -> str:
    """The host of the machine ``number``, from 1.

    A fleet that spans infrastructures may have higher numbers here than it has hosts: they begin anew, and a host that is
    a node already refuses to be another.
    """
    return hosts[(number - 1) % len(hosts)]
