"""Which infrastructures a spec's machines come from. The package of each is imported when it is named, and no other's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final, Protocol, cast

import pulumi

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.contract import Infrastructure
from tidepool.infrastructures.packages import PACKAGES


class _Make(Protocol):
    def __call__(self, spec: ClusterSpec, stack: str, /) -> Infrastructure: ...


#: By the names that specs have, its module. Each has a function ``make``.
ENTRIES: Final[Mapping[str, str]] = {
    "local": "tidepool.infrastructures.local.graph",
    "libvirt": "tidepool.infrastructures.libvirt.graph",
    "aws": "tidepool.infrastructures.aws.graph",
    "kubernetes": "tidepool.infrastructures.kubernetes.graph",
    "ssh": "tidepool.infrastructures.ssh.graph",
    "nomad": "tidepool.infrastructures.nomad.graph",
}


def infrastructures_of(spec: ClusterSpec, stack: str) -> Mapping[str, Infrastructure]:
    """By name, all infrastructures of the machines of ``spec``, for the stack of that name; the controller's first.

    Raises:
        pulumi.RunError: the spec names one that is not there yet; its package is not installed; its options have mistakes.
            Says where, and the remedy.
    """
    there = ", ".join(f"`{name}`" for name in ENTRIES)
    if unknown := [f"{path} is {name}" for path, name in _named(spec) if name not in ENTRIES]:
        raise pulumi.RunError(f"{'; '.join(unknown)}: in this release there are {there}")
    # All that is missing is told before anything is registered.
    makes = {name: _make_of(name, ENTRIES[name]) for name in spec.infrastructure_names}
    return {name: make(spec, stack) for name, make in makes.items()}


def infrastructure_of(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The one infrastructure of all machines of ``spec``, for programs that have one.

    Raises:
        pulumi.RunError: as `infrastructures_of` says; or there are several.
    """
    if len(spec.infrastructure_names) > 1:
        told = "; ".join(f"{path} is {name}" for path, name in _named(spec))
        raise pulumi.RunError(f"{told}: these are several; a program makes them with `sites_of`")
    return next(iter(infrastructures_of(spec, stack).values()))


def _named(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    yield "controller.infrastructure", spec.controller.infrastructure.name
    for i, fleet in enumerate(spec.fleets):
        for j, each in enumerate(fleet.infrastructures):
            yield f"fleets[{i}].infrastructures[{j}]", each.name


def _make_of(name: str, module: str) -> _Make:
    try:
        return cast(_Make, import_module(module).make)
    except ModuleNotFoundError as error:
        package = PACKAGES.get(name)
        if package is None or (error.name or "").partition(".")[0] == "tidepool":
            raise
        raise pulumi.RunError(
            f"infrastructure {name}: the Python package {error.name} is not installed; run: {package.install}"
        ) from error
