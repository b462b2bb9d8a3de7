"""Names at AWS: tags by which machines are found that no state knows, and names that a stack has once."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Final

from tidepool.infrastructures.machines import MachineKey

STACK: Final = "tidepool:stack"
FLEET: Final = "tidepool:fleet"
NODE: Final = "tidepool:node"
#: A machine reads it from its metadata: its user data is that of all of its kind.
ADDRESS: Final = "tidepool:address"
#: Of what IAM has by name in a whole account.
LONGEST_NAME: Final = 64


def stack_tags(stack: str) -> Mapping[str, str]:
    """Return the tags of all that a stack has."""
    return {STACK: stack}


def machine_tags(stack: str, node: str, address: IPv4Address) -> Mapping[str, str]:
    """Return the tags of a machine: its stack, its node, its address."""
    return {
        "Name": f"{stack}-{node}",
        STACK: stack,
        FLEET: MachineKey(stack, node).fleet,
        NODE: node,
        # Nothing reads it: a machine is told from the next by its instance's id. Those that have it need no change.
        "tidepool:generation": "1",
        ADDRESS: str(address),
    }


def named(stack: str, what: str) -> str:
    """Return the name of something that a stack has once."""
    return f"tidepool-{stack}-{what}"
