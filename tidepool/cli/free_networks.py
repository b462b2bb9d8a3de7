"""Networks that are free: for a stack that is made from another's description, beside that one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

from tidepool.cli.errors import Failure
from tidepool.cli.stack import Stack, stacks_with_files
from tidepool.cluster import addresses
from tidepool.cluster.relocation import in_network
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.local.kernel import host_networks, list_networks
from tidepool.infrastructures.local.kernel.lock import locked

#: In the data folder.
_LOCK: Final = "networks.lock"
_PATIENCE_S: Final = 60.0
#: The infrastructure whose networks are anybody's to choose. Elsewhere a site says which there are.
_HERE: Final = "local"


def choosing_network(data: Path) -> AbstractContextManager[None]:
    """Be the only one that chooses a network here, until what is chosen is written where others look."""
    return locked(data / _LOCK, _PATIENCE_S)


def in_free_network(
    spec: ClusterSpec, mapping: Mapping[str, Any], stack: Stack, others: Iterable[IPv4Network]
) -> dict[str, Any]:
    """Return ``mapping``, which says ``spec``, in a network that is free, with the subnets of fleets and pools where they were in it.

    It is as it was where its machines are not all of this machine, or it shares a slurmdbd, whose cluster names its network.
    ``others`` are taken too, besides those of this machine, of stacks here, and of the project's files, its own among them.

    Raises:
        Failure: none is free.
    """
    shares = spec.controller.accounting is not None and spec.controller.accounting.host is not None
    if set(spec.infrastructure_names) != {_HERE} or shares:
        return dict(mapping)
    kubernetes = (spec.kubernetes.pod_network, spec.kubernetes.service_network) if spec.kubernetes else ()
    taken = {spec.network, *kubernetes, *host_networks(), *_made(stack.data), *_described(stack), *others}
    try:
        free = addresses.free_network(taken, spec.network.prefixlen)
    except ValueError as error:
        raise Failure(
            f"{error} for another cluster here: {len(taken)} are taken", remedy="take one of them down"
        ) from error
    return in_network(mapping, spec.network, free)


def _made(data: Path) -> Iterator[IPv4Network]:
    """Yield the networks of all stacks that are here."""
    for folder in data.glob("*/networks"):
        yield from (IPv4Network(each.cidr) for each in list_networks(data, folder.parent.name) if each.cidr)


def _described(stack: Stack) -> Iterator[IPv4Network]:
    """Yield the networks of the project's stacks, up or not; of a file that cannot be read there is none to be up."""
    import yaml

    from tidepool.cli.stack_spec import SPEC_KEY

    for name in stacks_with_files(stack.project):
        try:
            document = yaml.safe_load(stack.project.stack_file(name).read_text())
            yield IPv4Network(document["config"][SPEC_KEY]["network"])
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
            continue
