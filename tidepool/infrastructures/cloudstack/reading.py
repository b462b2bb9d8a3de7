"""The options of CloudStack in a spec, read with all their mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.part_reading import read_part
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError, read_offerings
from tidepool.infrastructures.cloudstack.options import Offering, SiteOptions
from tidepool.infrastructures.reading import has_own_machines, pool_mistakes, volume_mistakes

NAME: Final = "cloudstack"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of CloudStack in a spec: the place, and its path; by fleet and key of its infrastructure, the offerings."""

    place: SiteOptions
    path: str
    offerings: Mapping[tuple[str, str], Offering]


def read_options(spec: ClusterSpec) -> Options:
    """The options of CloudStack in a spec, for those of its machines that are CloudStack's.

    Raises:
        SpecError: with every mistake in them.
    """
    mistakes: list[Mistake] = []
    said = spec.site_options(NAME)
    place = read_part(SiteOptions, said.path, said.options, mistakes)
    offerings = read_offerings(spec, NAME, Offering, mistakes)
    mistakes += pool_mistakes(spec, NAME, "machines of CloudStack")
    if place is not None:
        mistakes += _site_mistakes(spec, said.path, place)
    if mistakes:
        raise SpecError(tuple(mistakes))
    assert place is not None
    return Options(place, said.path, offerings)


def _site_mistakes(spec: ClusterSpec, path: str, place: SiteOptions) -> Iterator[Mistake]:
    remedy = "CloudStack has disks and no folders that machines share; name an NFS export, SERVER:/PATH"
    yield from volume_mistakes(spec, NAME, path, place.volumes, remedy)
    if place.vpc is not None and has_own_machines(spec, NAME) and spec.firewall.logins.ingress:
        yield Mistake(
            "firewall.logins.ingress",
            None,
            "an ACL of a VPC is of all machines of a tier, and would let these in to nodes as well; leave it out, or leave "
            f"{path}.vpc out",
        )
