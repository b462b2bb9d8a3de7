"""slurmdbd of a cluster: on a machine of its own, which other clusters may use too, or that of another cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from tidepool.cluster import addresses
from tidepool.cluster.addresses import OwnAddresses
from tidepool.cluster.flows import Flow, Peer
from tidepool.cluster.names import cluster_name
from tidepool.cluster.part import Network, Part, Whole
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec_entries import Entry, Mistake, as_network, numbered, part

SLURMDBD_PORT: Final = 6819
SLURMCTLD_PORT: Final = 6817
#: The key that clusters which share a slurmdbd have in common, and where the munged of that key answers.
ACCOUNTING_KEY: Final = "/etc/munge/accounting.key"
ACCOUNTING_SOCKET: Final = "/run/munge/accounting.socket.2"
#: Of the configuration of a stack that uses another's slurmdbd, a secret; and of the outputs of that one.
ACCOUNTING_KEY_NAME: Final = "accountingKey"
#: Infrastructures on which clusters reach each other's slurmdbd. On others no rule for it is written yet; Nomad's hosts have one munged.
SHARING: Final = frozenset({"local", "ssh"})


def _is_fit(network: IPv4Network) -> IPv4Network:
    if unfit := addresses.unfit(network):
        raise ValueError(unfit)
    return network


class SharedWith(Part):
    """Another cluster that uses this one's slurmdbd."""

    cluster: Annotated[str, AfterValidator(cluster_name)] = Field(
        description="Its name, which is its own in slurmdbd."
    )
    network: Annotated[Network, AfterValidator(_is_fit)] = Field(
        description="Its `network`, whose controllers and login machines reach slurmdbd."
    )


class Accounting(Part):
    """slurmdbd and its database, on a machine of their own or, with `host`, another cluster's."""

    enforce: tuple[Literal["associations", "limits", "nojobs", "nosteps", "qos", "safe", "wckeys"], ...] = (
        Field(default=(), description="What Slurm enforces of it. Slurm's AccountingStorageEnforce.")
    )
    shape: Shape = Field(default=Shape(cpus=1, memory_mib=2048), description="What its machine has.")
    shared_with: tuple[SharedWith, ...] = Field(
        default=(), description="Other clusters that may use it, as below; by default none."
    )
    host: IPv4Address | None = Field(
        default=None,
        description="The address of another cluster's slurmdbd, which this one uses: there is no machine of its own then. Slurm's "
        f"AccountingStorageHost. Its key is `cluster:{ACCOUNTING_KEY_NAME}` of the stack's configuration, a secret.",
    )
    port: Whole = Field(
        default=SLURMDBD_PORT,
        ge=1,
        le=65_535,
        description="Its port there. Slurm's AccountingStoragePort.",
    )

    @property
    def is_shared(self) -> bool:
        """Return whether clusters of other keys use the same slurmdbd."""
        return self.host is not None or bool(self.shared_with)


def peers_of(accounting: Accounting | None, own: OwnAddresses) -> tuple[Peer, ...]:
    """Return the networks of other clusters that share slurmdbd, with the connections that are of it, and no others."""
    if accounting is None:
        return ()
    if accounting.host is not None:
        server, port = f"{accounting.host}/32", str(accounting.port)
        asks = Flow(_asking(own), (server,), "tcp", (port,))
        return (Peer(server, (_updates(server, own),), (asks,)),)
    server = f"{own.accounting}/32"
    return tuple(
        Peer(
            str(each.network),
            (Flow(_asking(OwnAddresses(each.network)), (server,), "tcp", (str(SLURMDBD_PORT),)),),
            (_updates(server, OwnAddresses(each.network)),),
            each.cluster,
        )
        for each in accounting.shared_with
    )


def _updates(server: str, cluster: OwnAddresses) -> Flow:
    """Changed limits, which slurmdbd tells the slurmctld of a cluster."""
    return Flow((server,), _controllers(cluster), "tcp", (str(SLURMCTLD_PORT),))


def _controllers(own: OwnAddresses) -> tuple[str, ...]:
    return _ranges(own.controller, own.backup_controller)


def _asking(own: OwnAddresses) -> tuple[str, ...]:
    logins = (own.login(number) for number in range(1, addresses.MOST_LOGIN_MACHINES + 1))
    return _ranges(own.controller, own.backup_controller, *logins)


def _ranges(*found: IPv4Address) -> tuple[str, ...]:
    return tuple(map(str, collapse_addresses(map(IPv4Network, found))))


def accounting_mistakes(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find a slurmdbd that is its own and another's, clusters that are this one or in each other's way, machines that cannot share."""
    controller, path = part(spec, "controller"), "controller.accounting"
    accounting = part(controller, "accounting")
    host, shared = accounting.get("host"), accounting.get("shared_with")
    network = as_network(spec.get("network"))
    if host is not None:
        if shared:
            yield Mistake(
                f"{path}.shared_with",
                None,
                f"slurmdbd is another cluster's ({host}), whose spec says who uses it; leave it out",
            )
        address = _address(host)
        if network is not None and address is not None and address in network:
            yield Mistake(
                f"{path}.host", str(host), f"it is within the cluster's own network {network}; leave it out, and the cluster "
                "has a slurmdbd of its own"
            )  # fmt: skip
    yield from _shared(spec, numbered(shared), network)
    if host is None and not shared:
        return
    if controller.get("runs_on") is not None:
        yield Mistake(
            "controller.runs_on", str(controller["runs_on"]), "a machine of a pool has the key of a slurmdbd that clusters share "
            "no more than its jobs have; leave one of both out"
        )  # fmt: skip
    entry = controller.get("infrastructure")
    name = Entry("", entry).name if isinstance(entry, Mapping) else entry or "local"
    if isinstance(name, str) and name not in SHARING:
        yield Mistake(
            path, None, f"clusters on {name} cannot share slurmdbd yet: Tidepool makes no way for it there; it does so on "
            f"{', '.join(sorted(SHARING))}"
        )  # fmt: skip


def _shared(
    spec: Mapping[str, Any], shared: Iterator[tuple[int, Any]], own: IPv4Network | None
) -> Iterator[Mistake]:
    taken: list[tuple[str, IPv4Network]] = [] if own is None else [("the cluster's own network", own)]
    names = {str(spec.get("name")): "the cluster's own name"}
    for i, keys in shared:
        if not isinstance(keys, Mapping):
            continue
        entry = Entry(f"controller.accounting.shared_with[{i}]", keys)
        name, network = keys.get("cluster"), as_network(keys.get("network"))
        if isinstance(name, str):
            if name in names:
                yield entry.mistake("cluster", f"it is {names[name]}; slurmdbd knows clusters by their names")
            names.setdefault(name, f"that of {entry.path} already")
        if network is not None:
            for what, other in taken:
                if network.overlaps(other):
                    yield entry.mistake(
                        "network", f"it overlaps {what} {other}; clusters that share slurmdbd have networks apart"
                    )  # fmt: skip
            taken.append((f"that of {entry.path},", network))


def _address(value: object) -> IPv4Address | None:
    try:
        return IPv4Address(str(value))
    except ValueError:
        return None
