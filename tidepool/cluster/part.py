"""Base of the models of a spec."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict

Whole = Annotated[int, Strict()]
"""A whole number, and neither text nor true or false."""


class Part(BaseModel):
    """A part of a spec: frozen, and without keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def _network(value: Any) -> Any:
    if isinstance(value, IPv4Network):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise ValueError("write an IPv4 network with the length of its prefix: 10.77.0.0/16")
    try:
        network = IPv4Network(value, strict=False)
    except (AddressValueError, NetmaskValueError) as error:
        raise ValueError(f"{error}; write an IPv4 network such as 10.77.0.0/16") from error
    if str(network.network_address) != value.partition("/")[0]:
        raise ValueError(f"the address has bits beyond its prefix; write {network}")
    return network


Network = Annotated[IPv4Network, BeforeValidator(_network)]
"""A network with the length of its prefix: ``10.77.0.0/16``."""
