"""Options of Nomad: of the place, with the controller's infrastructure; of hosts, with each fleet's."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.part import Part, Whole

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$"
_LABEL: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"

Port = Annotated[Whole, Field(ge=1, le=65535)]
Name = Annotated[str, Field(pattern=_NAME)]


def _path(value: str) -> str:
    if not value.startswith("/") or value != value.rstrip("/") or any(c in value for c in " :'\"\\$"):
        raise ValueError("write the path of a folder that hosts have, such as /shared/physics/home")
    return value


def _values(value: Any) -> Any:
    """One value, or several of which a host has any."""
    return (value,) if isinstance(value, str) else value


Attributes = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")],
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^[^\s,\"]+$")], ...],
            BeforeValidator(_values),
            Field(min_length=1),
        ],
    ],
    AfterValidator(frozen),
]
"""What hosts must say of themselves, by key: their metadata (``rack``), or with ``attr.`` Nomad's own findings."""


class RollOut(Part):
    """Rules by which a change comes to hosts."""

    max_parallel: Whole = Field(default=1, ge=1, description="How many hosts at a time.")
    canary_percent: Whole = Field(
        default=0,
        ge=0,
        le=100,
        description="Of a fleet's hosts so many get it first, at most `max_parallel` of them, and all others when "
        "somebody has promoted it.",
    )
    min_healthy_s: Whole = Field(default=10, ge=0, description="How long a host is well before the next one.")
    healthy_deadline_s: Whole = Field(
        default=180,
        ge=1,
        description="One that is not well by then ends it, and all have the former version.",
    )
    auto_revert: bool = Field(
        default=True,
        description="Whether the former version comes back by itself. `false` was not tried yet, by any test or by hand.",
    )

    @model_validator(mode="after")
    def _has_time(self) -> RollOut:
        if self.min_healthy_s >= self.healthy_deadline_s:
            raise ValueError("min_healthy_s is to be less than healthy_deadline_s, or nothing is ever well")
        return self


class Offering(Part):
    """Options of a fleet's hosts: what they must say of themselves."""

    attributes: Attributes = Field(
        default_factory=FrozenDict,
        description="What a host's metadata says, `rack: r1`, or any of `[r1, r2]`; `attr.cpu.arch: amd64` is Nomad's own.",
    )
    roll_out: RollOut = Field(default_factory=RollOut, description="How a change comes to the fleet's hosts.")


class Container(Part):
    """A container that runs beside Slurm: on one host, or on all hosts of a fleet."""

    name: str = Field(pattern=_LABEL, description="Its name, of a job and of a service.")
    image: str = Field(min_length=1, description="Of a registry that the hosts reach.")
    driver: Literal["docker", "podman"] = Field(
        default="docker", description="What the hosts run containers with."
    )
    host: Name | None = Field(default=None, description="The host that it is on.")
    fleet: str | None = Field(default=None, description="Or the fleet, on each of whose hosts it is.")
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: Annotated[dict[str, str], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Its environment. No secrets: job specifications are read by many.",
    )
    port: Port | None = Field(default=None, description="A port of the host that it listens on.")
    http_path: str | None = Field(
        default=None,
        pattern=r"^/",
        description="It is well when this answers; by default when the port does.",
    )

    @model_validator(mode="after")
    def _is_somewhere(self) -> Container:
        if (self.host is None) == (self.fleet is None):
            raise ValueError("name a host or a fleet, and not both")
        if self.http_path is not None and self.port is None:
            raise ValueError("http_path is asked for at a port: name it")
        return self


class SiteOptions(Part):
    """The servers, the network, and the hosts of the cluster's own machines."""

    address: str = Field(
        default="http://127.0.0.1:4646", pattern=r"^https?://[^\s/]+$", description="Nomad's HTTP API."
    )
    token_file: str | None = Field(
        default=None,
        pattern=r"^/",
        description="A file with an ACL token, for you alone; by default the environment's NOMAD_TOKEN.",
    )
    ca_file: str | None = Field(
        default=None,
        pattern=r"^/",
        description="Who signs for the API, where the system does not know it.",
    )
    namespace: Name = Field(default="default", description="Where the cluster's jobs are.")
    region: Name | None = Field(default=None, description="By default the servers' own.")
    datacenters: tuple[str, ...] = Field(default=("*",), min_length=1, description="Those that hosts are of.")
    node_pool: Name = Field(default="all", description="The pool that hosts are of.")
    interface: str = Field(
        pattern=r"^[A-Za-z0-9_.-]{1,15}$",
        description="The hosts' link to each other: machines have their addresses there, beside the host's own.",
    )
    ssh_port: Port = Field(
        default=2222,
        description="Where machines answer: 22 is the host's own. Another than 2222 was not tried yet, by any test or by hand.",
    )
    hosts: Annotated[dict[str, Name], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="The hosts of the cluster's own machines, by Nomad's names: `{ctl: alpha, login-1: beta}`.",
    )
    volumes: Annotated[dict[str, Annotated[str, AfterValidator(_path)]], AfterValidator(frozen)] = Field(
        description="Folders that hosts have, and share where several machines use them: of `home`, `slurmctld`, with "
        "accounting `database`.",
    )
    roll_out: RollOut = Field(
        default_factory=RollOut, description="How a change comes to the cluster's own machines, and to munge."
    )
    containers: tuple[Container, ...] = Field(default=(), description="What else runs beside Slurm.")

    @field_validator("roll_out")
    @classmethod
    def _no_canary(cls, roll_out: RollOut) -> RollOut:
        if roll_out.canary_percent:
            raise ValueError(
                "a canary of slurmctld would be a second one, on a port that is taken; leave canary_percent out"
            )
        return roll_out
