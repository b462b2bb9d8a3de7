"""A wish of the scaler's, as a program is told of it: by environment variables, for a program has no other arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from tidepool.cluster.hostlist import HostSet

#: The variable of the wish: JSON, by fleet a hostlist.
WISH: Final = "TIDEPOOL_WISH"
#: With it, that of the nodes which the operation is limited to: a hostlist.
ONLY: Final = "TIDEPOOL_WISH_ONLY"


class WishError(ValueError):
    """What the variables say is no wish; says which of them, and what is expected."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The nodes that should be there, by fleet. Fleets that it does not name stay as they are.

    With ``only`` it is for an operation that is limited to those nodes by ``--target``: the program registers no others,
    so that it takes no longer in a large cluster. Without the targets, the operation would take the others away.
    """

    nodes: Mapping[str, HostSet]
    only: HostSet | None = None

    def __post_init__(self) -> None:
        if self.only is not None and not self.only:
            raise ValueError("a wish is about some nodes, or about all; it cannot be about none")

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say it."""
        told = {WISH: json.dumps({fleet: str(nodes) for fleet, nodes in self.nodes.items()})}
        return told if self.only is None else {**told, ONLY: str(self.only)}

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self | None:
        """The wish in ``environment``; None where there is none.

        Raises:
            WishError: there is one that cannot be read.
        """
        text = environment.get(WISH)
        if text is None:
            return None
        try:
            said = json.loads(text)
        except ValueError as error:
            raise WishError(f"{WISH} is not JSON: {error}") from None
        if not isinstance(said, dict) or not all(isinstance(hosts, str) for hosts in said.values()):
            raise WishError(f'{WISH} should be hostlists by fleet, as in {{"cpu": "cpu-[1-4]"}}')
        only = environment.get(ONLY, "")
        nodes = {fleet: _hosts(hosts, f"{WISH}: fleet {fleet}") for fleet, hosts in said.items()}
        return cls(nodes, _hosts(only, ONLY) if only else None)


def _hosts(text: str, where: str) -> HostSet:
    try:
        return HostSet(text)
    except ValueError as error:
        raise WishError(f"{where}: {error}") from None
