"""A wish of the scaler's, as a program is told of it: by environment variables, for a program has no other arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.node_placements import placements_to_json, read_placements

#: The variable of the wish: JSON, by fleet a hostlist.
WISH: Final = "TIDEPOOL_WISH"
#: That of the roles: JSON, by pool a hostlist of the machines that serve Kubernetes; the others serve Slurm.
ROLES: Final = "TIDEPOOL_WISH_ROLES"
#: That of the places: JSON, by fleet and by the key of an infrastructure a hostlist. Nodes that it does not name stay
#: where they are.
PLACES: Final = "TIDEPOOL_WISH_PLACES"
#: With either, that of the nodes which the operation is limited to: a hostlist.
ONLY: Final = "TIDEPOOL_WISH_ONLY"


class DesiredNodesError(ValueError):
    """The variables hold no desired state; the text says which of them, and what is expected."""


@dataclass(frozen=True, slots=True)
class DesiredNodes:
    """The nodes that should be there, by fleet, and the machines that should serve Kubernetes, by pool.

    Fleets and pools that it does not name stay as they are.

    With ``only`` it is for an operation that is limited to those nodes by ``--target``: the program registers no others,
    so that it takes no longer in a large cluster. Without the targets, the operation would take the others away.
    """

    nodes: Mapping[str, HostSet]
    only: HostSet | None = None
    kubernetes: Mapping[str, HostSet] = field(default_factory=dict)
    #: By fleet and node, the key of the infrastructure that it is to be made on.
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.only is not None and not self.only:
            raise ValueError("a wish is about some nodes, or about all; it cannot be about none")

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say it."""
        told = {WISH: _hostlists_to_json(self.nodes)}
        if self.kubernetes:
            told[ROLES] = _hostlists_to_json(self.kubernetes)
        if any(self.places.values()):
            told[PLACES] = json.dumps(
                {name: placements_to_json(places) for name, places in sorted(self.places.items()) if places}
            )
        return told if self.only is None else {**told, ONLY: str(self.only)}

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self | None:
        """The wish in ``environment``; None where there is none.

        Raises:
            WishError: there is one that cannot be read.
        """
        nodes, kubernetes = environment.get(WISH), environment.get(ROLES)
        if nodes is None and kubernetes is None:
            return None
        only = environment.get(ONLY, "")
        return cls(
            _read(WISH, "fleet", "cpu", nodes),
            _hosts(only, ONLY) if only else None,
            _read(ROLES, "pool", "shared", kubernetes),
            _read_placements(environment.get(PLACES)),
        )


def _hostlists_to_json(hosts: Mapping[str, HostSet]) -> str:
    return json.dumps({name: str(nodes) for name, nodes in hosts.items()})


def _read(variable: str, kind: str, example: str, text: str | None) -> dict[str, HostSet]:
    """Read what ``variable`` says, by fleet or pool; nothing where it is not there."""
    if text is None:
        return {}
    try:
        said = json.loads(text)
    except ValueError as error:
        raise DesiredNodesError(f"{variable} is not JSON: {error}") from None
    if not isinstance(said, dict) or not all(isinstance(hosts, str) for hosts in said.values()):
        raise DesiredNodesError(
            f'{variable} should be hostlists by {kind}, as in {{"{example}": "{example}-[1-4]"}}'
        )
    return {name: _hosts(hosts, f"{variable}: {kind} {name}") for name, hosts in said.items()}


def _read_placements(text: str | None) -> dict[str, Mapping[str, str]]:
    try:
        said = json.loads(text) if text else {}
        return {fleet: read_placements(told) for fleet, told in said.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise DesiredNodesError(
            f'{PLACES} should be hostlists by fleet and infrastructure, as in {{"cpu": {{"aws": "cpu-[1-4]"}}}}: {error}'
        ) from None


def _hosts(text: str, where: str) -> HostSet:
    try:
        return HostSet(text)
    except ValueError as error:
        raise DesiredNodesError(f"{where}: {error}") from None
