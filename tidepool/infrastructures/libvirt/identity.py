"""Whose a domain is: its machine's key, in the metadata of its XML, where libvirt keeps what is nobody's but ours."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import quoteattr

from tidepool.cluster.slots import fleet_and_number

_NAMESPACE: Final = "urn:tidepool:machine"


@dataclass(frozen=True, slots=True)
class Identity:
    """The node ``node`` of ``stack``."""

    stack: str
    node: str

    @property
    def domain(self) -> str:
        """Return the name of the domain."""
        return f"{self.stack}-{self.node}"

    @property
    def xml(self) -> str:
        """Return the element that its domain has in its metadata."""
        told = {
            "stack": self.stack,
            "fleet": _fleet(self.node),
            "node": self.node,
            # Nothing reads it: a domain is told from the next by its UUID. Without it, all domains would be made anew.
            "generation": "1",
        }
        words = " ".join(f"{key}={quoteattr(value)}" for key, value in told.items())
        return f'<tidepool:machine xmlns:tidepool="{_NAMESPACE}" {words}/>'


def pool_of(stack: str) -> str:
    """Return the name of a stack's storage pool, on each host."""
    return f"tidepool-{stack}"


def read_identity(domain: ET.Element) -> Identity | None:
    """Return the identity of a domain; None where it says nothing, so is not of Tidepool."""
    found = domain.find(f"metadata/{{{_NAMESPACE}}}machine")
    if found is None:
        return None
    return Identity(found.get("stack", ""), found.get("node", ""))


def _fleet(node: str) -> str:
    """Empty for the cluster's own machines."""
    try:
        return fleet_and_number(node)[0]
    except ValueError:
        return ""
