"""The plugin of pulumi-libvirt 0.5.4, of which the graph uses five types: served by virsh on real hosts.

What it takes, refuses and does is what terraform-provider-libvirt 0.8.1 does, which the real plugin is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.plugins.libvirt.kinds import (
    CloudInitDiskKind,
    DomainKind,
    LibvirtKind,
    NetworkKind,
    PoolKind,
    VolumeKind,
)

_ALL: Final[tuple[type[LibvirtKind[Any]], ...]] = (
    PoolKind,
    NetworkKind,
    VolumeKind,
    CloudInitDiskKind,
    DomainKind,
)
KINDS: Final[Mapping[str, type[LibvirtKind[Any]]]] = {kind.resource.token: kind for kind in _ALL}
