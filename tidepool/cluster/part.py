"""Base of the models of a spec, and the types of their fields."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from tidepool.cluster.frozen import frozen
from tidepool.cluster.names import feature_name
from tidepool.cluster.slurm_releases import RunRelease

_TIME = re.compile(r"UNLIMITED|INFINITE|([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}", re.IGNORECASE)

Whole = Annotated[int, Strict()]
"""A whole number, and neither text nor true or false."""
ImageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._/-]*$")]


def _release(value: Any) -> Any:
    # YAML takes 22.05 without quotes for a number.
    return f"{value:.2f}" if isinstance(value, float) else value


SlurmRelease = Annotated[RunRelease, BeforeValidator(_release)]
"""A release of Slurm, as ``24.11``."""


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


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} stands here {names.count(name)} times; name each feature once")
    return names


Feature = Annotated[str, AfterValidator(feature_name)]
Features = Annotated[tuple[Feature, ...], AfterValidator(_each_once)]

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
#: Of Kubernetes itself, which does not let a kubelet give itself such labels; and ours.
_TAKEN: Final = ("kubernetes.io", "k8s.io", "tidepool")


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
            raise ValueError(
                f"{key!r} is no label: write NAME or DOMAIN/NAME, the name at most 63 letters, digits, '-', '_' or '.', "
                "a letter or digit first and last"
            )
        if any(prefix == taken or prefix.endswith(f".{taken}") for taken in _TAKEN):
            raise ValueError(f"labels of {prefix}/ are not for a person to give; leave {key} out")
        if value and not _NAME.fullmatch(value):
            raise ValueError(
                f"{value!r} is no value of a label: at most 63 letters, digits, '-', '_' or '.', a letter or digit first "
                "and last, or nothing"
            )
    return labels


Labels = Annotated[dict[str, str], AfterValidator(_labels), AfterValidator(frozen)]
"""Labels by key; frozen."""


def _time(value: Any) -> Any:
    text = str(value)
    if isinstance(value, bool) or not _TIME.fullmatch(text):
        raise ValueError(
            "write a time as Slurm does: minutes, hours:minutes:seconds, days-hours, or UNLIMITED; "
            "in quotes, or YAML takes 1:30 for a number"
        )
    return text


SlurmTime = Annotated[str, BeforeValidator(_time)]


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise ValueError("write one text, number, yes or no, as it is to stand in Slurm's file")
    return value


Options = Annotated[
    dict[str, Annotated[str | int | float | bool, BeforeValidator(_scalar)]], AfterValidator(frozen)
]
"""Keys and values of a file of Slurm's; frozen."""


def script(text: str) -> str:
    """Return a script as it is.

    Raises:
        ValueError: it names no interpreter, without which the kernel does not run it.
    """
    if not text.startswith("#!"):
        raise ValueError("a script begins with `#!` and its interpreter, such as #!/bin/sh")
    return text


def read_name(value: Any) -> Any:
    """Return the mapping that a name alone stands for."""
    return {"name": value} if isinstance(value, str) else value
