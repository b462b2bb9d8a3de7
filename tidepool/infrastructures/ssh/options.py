"""Options of existing hosts: of all of them, for the whole cluster; of a fleet's, with each fleet's entry."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import by_name
from tidepool.cluster.part import Part, Whole

_NAME: Final = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"
_USER: Final = r"^[a-z_][a-z0-9_-]{0,31}$"
_SOURCE: Final = re.compile(
    r"/[^\s:]*|[A-Za-z0-9][A-Za-z0-9.-]*:/[^\s:]*|[^\s:/]+@[a-z0-9]+(:[^\s:/]+@[a-z0-9]+)*:/[^\s:]+"
)
#: What the golden images have, so that files of one machine are the same daemons' on another.
_ACCOUNTS: Final = {
    "munge": {"uid": 980},
    "mysql": {"uid": 981, "home": "/var/lib/mysql"},
    "slurm": {"uid": 64030},
}


def _source(source: str) -> str:
    if not _SOURCE.fullmatch(source):
        raise ValueError(
            "write an NFS export SERVER:/PATH, a Lustre MGS@NET:/FS, or a folder /PATH that hosts have"
        )
    return source


def _addressed(value: Any) -> Any:
    return {} if value is None else {"address": value} if isinstance(value, str) else value


Path = Annotated[str, Field(pattern=r"^(/|~/)\S+$")]


class Host(Part):
    """A host, and the way to it."""

    address: str | None = Field(
        default=None, min_length=1, description="A name or an address; by default its name here."
    )
    port: Whole = Field(default=22, ge=1, le=65535, description="Where its sshd listens.")
    user: Annotated[str, Field(pattern=_USER)] | None = Field(
        default=None, description="Another user than all others'."
    )
    key: Path | None = Field(default=None, description="Another private key than all others'.")


class Account(Part):
    """A user with the same numbers on all hosts."""

    uid: Whole = Field(ge=1, le=65_533, description="Its number.")
    gid: Whole | None = Field(
        default=None, ge=1, le=65_534, description="That of its group; by default the same."
    )
    home: str = Field(
        default="/nonexistent", pattern=r"^/\S*$", description="Who has one below /home is a person."
    )
    shell: str = Field(default="/usr/sbin/nologin", pattern=r"^/\S*$", description="What runs at a login.")


class Offering(Part):
    """Hosts of a fleet: node 1 is on the first, and so on."""

    hosts: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="Names of hosts and of groups of the inventory; by default all hosts.",
    )


class SiteOptions(Part):
    """The hosts, how they are reached, and what they share."""

    inventory: Path | None = Field(
        default=None,
        description="A file of Ansible's, in YAML or INI, with more hosts and with groups of them.",
    )
    hosts: Annotated[
        dict[Annotated[str, Field(pattern=_NAME)], Annotated[Host, BeforeValidator(_addressed)]],
        AfterValidator(by_name),
        AfterValidator(frozen),
    ] = Field(
        default_factory=FrozenDict,
        description="Hosts by name: an address, or more details as below. Their order is that of their names, numbers by "
        "value.",
    )
    user: Annotated[str, Field(pattern=_USER)] = Field(
        default="root", description="Who logs in. Who is not root needs sudo without a password."
    )
    key: Path = Field(default="~/.ssh/id_ed25519", description="The private key, without a passphrase.")
    known_hosts: Path = Field(
        default="~/.ssh/known_hosts",
        description="The hosts' own keys. One that is not there is refused, never learned.",
    )
    interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,15}$")] | None = Field(
        default=None,
        description="Which interface gets the node's address, beside those that it has; by default the one by which hosts "
        "reach the cluster's network.",
    )
    systems: tuple[Annotated[str, Field(pattern=r"^[a-z]+ [0-9.]+$")], ...] = Field(
        default=("debian 12",),
        min_length=1,
        description="What hosts may run: all nodes need one release of Slurm.",
    )
    volumes: Annotated[dict[str, Annotated[str, AfterValidator(_source)]], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Where what machines share is: `home`, and on the controller's hosts `slurmctld`, with accounting "
        "`database`. `home: /home` is what hosts have there already.",
    )
    users: Annotated[dict[Annotated[str, Field(pattern=_USER)], Account], AfterValidator(frozen)] = Field(
        default_factory=lambda: FrozenDict(
            {name: Account.model_validate(each) for name, each in _ACCOUNTS.items()}
        ),
        description="Daemons with their numbers, by default those of the golden images; and people of the hosts' own.",
    )
    roles: tuple[Annotated[str, Field(pattern=r"^[a-z_]+$")], ...] = Field(
        default=("mpi",),
        description="Roles of the playbooks beside those that a node needs: chrony, firewall, node_health.",
    )
    variables: Annotated[dict[str, Any], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="What those roles are told. No secrets: they are kept in the clear.",
    )
    playbooks: Path | None = Field(default=None, description="Another folder of playbooks than Tidepool's.")
    machines: Offering = Field(
        default_factory=Offering,
        description="The hosts of the cluster's own machines, in the "
        "order controller, backup, accounting, login machines.",
    )
