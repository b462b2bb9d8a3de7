"""The machine side of each infrastructure: what lists and deletes machines, whoever made them. Imported when it is named.

Each has a module with ``machines_of(spec, stack, data)``; one with ``kind_of(text)``, which tells the kind of a failure
by what its provider said; and one with ``checks_of(spec, stack, data)``, which looks whether it can give what is asked of
it: the same that a preview looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.machines import Infrastructure


class _MachinesOf(Protocol):
    def __call__(self, spec: ClusterSpec, stack: str, data: Path, /) -> Infrastructure: ...


class _ChecksOf(Protocol):
    def __call__(self, spec: ClusterSpec, stack: str, data: Path, /) -> Iterable[Finding]: ...


KindOf = Callable[[str], type[InfrastructureError]]


@dataclass(frozen=True, slots=True)
class Side:
    """Where the machine side of an infrastructure is.

    ``types`` are the types of resources that each node's machine is made of, below its fleet and under the node's name:
    first that of the machine itself, which no other infrastructure has. With ``has_more`` there are others besides, by
    its options.
    """

    machines: str
    failures: str
    types: tuple[str, ...]
    #: What pip calls the packages that ``machines`` imports.
    needs: str = ""
    has_more: bool = False
    #: Empty where `tidepool doctor` looks at it in any case.
    checks: str = ""


#: By the names that specs have.
SIDES: Final[Mapping[str, Side]] = {
    "local": Side(
        "tidepool.infrastructures.local.machines",
        "tidepool.infrastructures.local.failures",
        ("tidepool:local:Machine",),
    ),
    "libvirt": Side(
        "tidepool.infrastructures.libvirt.machines",
        "tidepool.infrastructures.libvirt.failures",
        ("libvirt:index/domain:Domain", "libvirt:index/volume:Volume", "tidepool:ssh:Machine"),
        checks="tidepool.infrastructures.libvirt.checks",
    ),
    "aws": Side(
        "tidepool.infrastructures.aws.machines",
        "tidepool.infrastructures.aws.failures",
        ("aws:ec2/instance:Instance", "aws:ec2/route:Route", "tidepool:ssh:Machine"),
        "boto3",
        # Where machines have adapters of EFA.
        has_more=True,
        checks="tidepool.infrastructures.aws.checks",
    ),
    "kubernetes": Side(
        "tidepool.infrastructures.kubernetes.machines",
        "tidepool.infrastructures.kubernetes.failures",
        ("tidepool:kubernetes:Machine",),
        # A pod, or a Machine with what it needs.
        has_more=True,
        checks="tidepool.infrastructures.kubernetes.checks",
    ),
    "ssh": Side(
        "tidepool.infrastructures.ssh.machines",
        "tidepool.infrastructures.ssh.failures",
        ("tidepool:ssh:Host", "tidepool:ssh:Playbook"),
        checks="tidepool.infrastructures.ssh.checks",
    ),
    "nomad": Side(
        "tidepool.infrastructures.nomad.machines",
        "tidepool.infrastructures.nomad.failures",
        ("tidepool:nomad:Machine", "tidepool:ssh:Machine"),
        checks="tidepool.infrastructures.nomad.checks",
    ),
}


def machines_of(name: str, spec: ClusterSpec, stack: str, data: Path) -> Infrastructure:
    """The machines of a stack on that infrastructure.

    Raises:
        Permanent: this release knows none of its machines, or a package is missing; says which command installs it.
    """
    side = SIDES.get(name)
    if side is None:
        raise Permanent(
            f"infrastructure {name}: this release does not know its machines; known are {', '.join(SIDES)}"
        )
    made = cast(_MachinesOf, _imported(name, side.machines, side.needs, "machines_of"))
    return made(spec, stack, data)


def checks_of(name: str, spec: ClusterSpec, stack: str, data: Path) -> Iterable[Finding]:
    """What that infrastructure lacks of what the spec asks of it, found while it is iterated.

    Raises:
        Permanent: this release does not know it, or a package is missing; says which command installs it.
    """
    side = SIDES.get(name)
    if side is None:
        raise Permanent(f"infrastructure {name}: this release does not know it; known are {', '.join(SIDES)}")
    if not side.checks:
        return ()
    made = cast(_ChecksOf, _imported(name, side.checks, side.needs, "checks_of"))
    return made(spec, stack, data)


def kind_of(name: str) -> KindOf:
    """What tells the kind of that infrastructure's failures.

    Raises:
        Permanent: this release does not know them, or a package is missing.
    """
    side = SIDES.get(name)
    if side is None:
        raise Permanent(
            f"infrastructure {name}: this release does not know its failures; known are {', '.join(SIDES)}"
        )
    return cast(KindOf, _imported(name, side.failures, side.needs, "kind_of"))


def infrastructure_of_type(resource_type: str) -> str:
    """Which infrastructure's machine it is; empty where it is none of any."""
    return _BY_TYPE.get(resource_type, "")


_BY_TYPE: Final = {side.types[0]: name for name, side in SIDES.items()}


def _imported(name: str, module: str, needs: str, what: str) -> object:
    try:
        return getattr(import_module(module), what)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing.partition(".")[0] == "tidepool":
            raise Permanent(f"infrastructure {name}: this release has no {missing}") from error
        remedy = f"run: .venv/bin/pip install {needs or missing}"
        raise Permanent(
            f"infrastructure {name}: the Python package {missing} is not installed; {remedy}"
        ) from error
