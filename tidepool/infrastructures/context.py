"""Site: where some machines of a cluster are made."""

from __future__ import annotations

from dataclasses import dataclass

from pulumi import Input

from tidepool.infrastructures.contract import Infrastructure


@dataclass(frozen=True, slots=True)
class Site:
    """An infrastructure, and what it gave for the cluster's network, for an image, and for what all have as `/home`.

    ``home`` is None on the controller's infrastructure, where it is the controller's own volume.
    """

    infrastructure: Infrastructure
    network: Input[str]
    image: Input[str]
    home: Input[str] | None = None
