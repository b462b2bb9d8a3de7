"""The options of CloudStack in a spec, read with all their mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.infrastructures.cloudstack.options import Offering, SiteOptions
from tidepool.infrastructures.reading import Offerings, has_own_machines, read_site, volume_mistakes

NAME: Final = "cloudstack"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of CloudStack in a spec: the place, and its path; by fleet and key of its infrastructure, the offerings."""

    place: SiteOptions
    path: str
    offerings: Offerings[Offering]


def read_options(spec: ClusterSpec) -> Options:
    """The options of CloudStack in a spec, for those of its machines that are CloudStack's.

    Raises:
        SpecError: with every mistake in them.
    """
    return Options(*read_site(spec, NAME, SiteOptions, Offering, _site_mistakes))


def _site_mistakes(
    spec: ClusterSpec, path: str, place: SiteOptions, offerings: Offerings[Offering]
) -> Iterator[Mistake]:
    remedy = "CloudStack has disks and no folders that machines share; name an NFS export, SERVER:/PATH"
    yield from volume_mistakes(spec, NAME, path, place.volumes, remedy)
    if place.hypervisor != "KVM":
        found = [(f"{path}.machines", place.machines)] if has_own_machines(spec, NAME) else []
        found += [
            (each.options_path, offerings[each.fleet.name, each.entry.key])
            for each in spec.entries(NAME)
            if (each.fleet.name, each.entry.key) in offerings
        ]
        for where, offering in found:
            if offering.extra_config:
                yield Mistake(
                    f"{where}.extra_config",
                    None,
                    f"it is of hosts with KVM, and {path}.hypervisor is {place.hypervisor}; leave it out",
                )
    serves = spec.file_server is not None and has_own_machines(spec, NAME)
    if serves and place.store is None:
        yield Mistake(
            f"{path}.store",
            None,
            "it is missing: write how large the file server's volume is, {size: 200GiB}",
        )
    if place.store is not None and not serves:
        yield Mistake(f"{path}.store", None, "there is no file_server in the spec; leave one of them out")
    if place.vpc is not None and has_own_machines(spec, NAME) and spec.firewall.logins.ingress:
        yield Mistake(
            "firewall.logins.ingress",
            None,
            "an ACL of a VPC is of all machines of a tier, and would let these in to nodes as well; leave it out, or leave "
            f"{path}.vpc out",
        )
