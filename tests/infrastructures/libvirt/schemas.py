"""libvirt's own schemas, and what the graph's resources come to by them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.plugins.libvirt.models import Domain, DomainModel, Network, Pool
from tests.plugins.libvirt.xml import Stored, domain_xml, network_xml, pool_xml
from tidepool.resources.model import Resource
from tidepool.resources.reading import read
from tidepool.testing import Registered

SCHEMAS = Path("/usr/share/libvirt/schemas")


def missing() -> str:
    """Why what follows cannot be done here; empty where it can."""
    if not (SCHEMAS / "domain.rng").exists():
        return "libvirt's schemas are not installed: apt-get install libvirt0"
    if lacks := [tool for tool in ("xsltproc", "xmllint") if shutil.which(tool) is None]:
        return f"{', '.join(lacks)} is not installed: apt-get install xsltproc libxml2-utils"
    return ""


def xml_of(resource: Registered) -> str:
    """What the plugin gives to libvirt for it; it must have no input that the plugin of the tests refuses."""
    type, write = _WRITERS[resource.type]
    found = read(type.model, resource.inputs, strict=True)
    assert found.mistakes == ()
    return write(found.value)


def wrong(xml: str, schema: str) -> str:
    """What is invalid in it, by libvirt's own schema of that name; empty where nothing is."""
    said = subprocess.run(
        ["xmllint", "--noout", "--relaxng", str(SCHEMAS / f"{schema}.rng"), "-"],
        input=xml,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if said.returncode == 0 else said.stderr


def _domain(domain: DomainModel) -> str:
    disks = [
        Stored("tidepool-dev", f"disk-{number}", "", "qcow2", 0) for number, _ in enumerate(domain.disks)
    ]
    return domain_xml(domain, disks)


_WRITERS: Final[Mapping[str, tuple[type[Resource], Callable[[Any], str]]]] = {
    Domain.token: (Domain, _domain),
    Network.token: (Network, network_xml),
    Pool.token: (Pool, pool_xml),
}
