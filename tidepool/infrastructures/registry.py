"""The registry of infrastructures: a line for each that is built in; packages of Python bring others.

What is registered is a `Descriptor`. It names what is imported when it is asked for, so that nobody waits for the
packages of an infrastructure that he does not use. `docs/infrastructures/adding.md` says how another one is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tidepool.cluster.failures import InfrastructureError, Permanent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from tidepool.cluster.spec import ClusterSpec
    from tidepool.infrastructures import contract
    from tidepool.infrastructures.finding import Finding, Preflight
    from tidepool.infrastructures.imaging import Imaging
    from tidepool.infrastructures.machines import Infrastructure
    from tidepool.infrastructures.suspension import Suspension

    # The attributes that a `Descriptor` names, as they are called.
    _Graph = Callable[[ClusterSpec, str], contract.Infrastructure]
    _Machines = Callable[[ClusterSpec, str, Path], Infrastructure]
    _Checks = Callable[[ClusterSpec, str, Path], Iterable[Finding]]
    _Imaging = Callable[[Mapping[str, Any], Path], Imaging]
    _Suspension = Callable[[Mapping[str, Any]], Suspension]
    _Images = Callable[[ClusterSpec, str], Iterable["ImageNeed"]]

#: By the names that specs have, the package whose attribute ``INFRASTRUCTURE`` describes it.
BUILT_IN: Final[Mapping[str, str]] = {
    "local": "tidepool.infrastructures.local",
    "libvirt": "tidepool.infrastructures.libvirt",
    "aws": "tidepool.infrastructures.aws",
    "cloudstack": "tidepool.infrastructures.cloudstack",
    "metal": "tidepool.infrastructures.metal",
    "ironic": "tidepool.infrastructures.ironic",
    "kubernetes": "tidepool.infrastructures.kubernetes",
    "ssh": "tidepool.infrastructures.ssh",
    "nomad": "tidepool.infrastructures.nomad",
}
#: The entry points by which packages of Python bring others: their names are those that specs have.
GROUP: Final = "tidepool.infrastructures"
#: Modules of resource types that are no infrastructure's: entry points are not searched for them, which takes its time.
_NO_INFRASTRUCTURE: Final = frozenset({"", "components", "image", "keys", "pool", "pulumi", "slurm"})

_DIGITS: Final = re.compile(r"[0-9a-f]{16}")

FailureKind = Callable[[str], type[InfrastructureError]]


@dataclass(frozen=True, slots=True)
class Package:
    """A package of Pulumi, as pip calls it, in the version that is tested; and others that are needed ``beside`` it.

    ``plugin`` is Pulumi's name of the plugin that makes its resources, of the same version; empty where there is none.
    """

    name: str
    version: str
    plugin: str = ""
    beside: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """The package for pip: ``pulumi-aws==7.51.1``."""
        return f"{self.name}=={self.version}"

    @property
    def install(self) -> str:
        return " ".join([".venv/bin/pip install", self.requirement, *self.beside])


@dataclass(frozen=True, slots=True)
class ImageNeed:
    """A package that an image needs for what stands at ``path`` in the spec: one whose name begins with ``package``.

    ``without`` is what comes of it where there is none, and what else than a package in the recipe mends it.
    """

    image: str
    package: str
    path: str
    without: str


@dataclass(frozen=True, slots=True)
class Descriptor:
    """All that is known of an infrastructure before anything of it is imported.

    ``graph``, ``machines``, ``failures``, ``checks``, ``preflight``, ``images``, ``imaging``, ``suspension`` and the values of ``kinds`` are texts ``module:attribute``:

    - ``graph``: called with spec and stack, makes the `tidepool.infrastructures.contract.Infrastructure` of programs;
    - ``machines``: called with spec, stack and data folder, makes the `tidepool.infrastructures.machines.Infrastructure`;
    - ``failures``: gives the kind of a failure by what its provider said;
    - ``checks``: called as ``machines``, yields what the infrastructure lacks: for `tidepool doctor`;
    - ``preflight``: the `tidepool.infrastructures.finding.Preflight` by which previews find the same;
    - ``images``: called with spec and stack, yields packages that images of its machines need: an `ImageNeed` each;
    - ``imaging``: called with what its graph says of a machine (`contract.Machine.imaging`) and the data folder, makes the `Imaging` of it;
    - ``suspension``: called with what its graph says of a machine (`contract.Machine.suspension`), makes the `Suspension` of it.

    Those that are called with a spec raise `SpecError` with all mistakes in its options.

    ``types`` are the types of resources that each node's machine is made of, below its fleet and under the node's name:
    first that of the machine itself, by which it is known whose it is. With ``has_more`` there are others besides, by
    its options. ``kinds`` are the classes of its provider resources, by token.

    Raises:
        ValueError: a type or token does not have the infrastructure's name where it is looked for.
    """

    name: str
    graph: str
    machines: str
    failures: str
    types: tuple[str, ...]
    #: Empty where `tidepool doctor` looks at it in any case.
    checks: str = ""
    preflight: str = ""
    #: Empty where images need nothing that recipes might lack.
    images: str = ""
    #: Empty where machines are not made anew from another image.
    imaging: str = ""
    #: Empty where machines are not suspended.
    suspension: str = ""
    #: ``TYPE#INPUT`` of the resource of a node that names its image, with the first 16 digits of the digest in it. Empty where the
    #: machine itself has an input ``image``.
    image: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    package: Package | None = None
    has_more: bool = False
    #: The output of the machine's resource that is its id, as ``machines`` has it: ``id`` is Pulumi's. Empty where a node
    #: cannot have two machines, so that nobody has to know.
    machine_id: str = ""
    #: Whether its machines start by the kernel of their image. Others have one already.
    own_kernel: bool = True
    #: What objects where anybody else deletes a machine whose jobs would go with it, in the API's own terms, and where it does
    #: not. Empty where nothing does.
    objects: str = ""

    def __post_init__(self) -> None:
        machine = self.types[0]
        if _owner(machine) != self.name:
            raise ValueError(f"{machine}: its type should begin with tidepool:{self.name}: or {self.name}:")
        if wrong := [token for token in self.kinds if not token.startswith(f"tidepool:{self.name}:")]:
            raise ValueError(f"{', '.join(wrong)}: tokens should begin with tidepool:{self.name}:")


def descriptor(name: str) -> Descriptor:
    """Return the descriptor of the infrastructure that specs call ``name``.

    Raises:
        Permanent: there is none of this name; says which there are.
    """
    if (found := _find(name)) is not None:
        return found
    raise Permanent(
        f"infrastructure {name}: this release does not know it; known are {', '.join(_names())}; another one is brought "
        "by a package of Python (docs/infrastructures/adding.md)"
    )


def has_own_kernel(name: str) -> bool:
    """Return whether machines of an infrastructure start by the kernel of their image; of one that is not known, that they do."""
    found = _find(name)
    return found is None or found.own_kernel


def infrastructures_of(spec: ClusterSpec, stack: str) -> Mapping[str, contract.Infrastructure]:
    """Make all infrastructures of the machines of ``spec`` for a program, by name; the controller's first.

    Raises:
        pulumi.RunError: the spec names one that there is not; its package is not installed; its options have mistakes.
            Says where, and the remedy.
    """
    from pulumi import RunError

    from tidepool.cluster.spec_reading import SpecError

    if unknown := [f"{path} is {name}" for path, name in _named(spec) if _find(name) is None]:
        known = ", ".join(f"`{name}`" for name in _names())
        raise RunError(
            f"{'; '.join(unknown)}: in this release there are {known}; another one is brought by a package of Python "
            "(docs/infrastructures/adding.md)"
        )
    try:
        # All that is missing is said before anything is registered.
        makes = {
            name: cast("_Graph", _imported(descriptor(name), descriptor(name).graph))
            for name in spec.infrastructure_names
        }
        return {name: make(spec, stack) for name, make in makes.items()}
    except (Permanent, SpecError) as error:
        raise RunError(str(error)) from error


def machines_of(name: str, spec: ClusterSpec, stack: str, data: Path) -> Infrastructure:
    """Return the machines of a stack on that infrastructure, whoever made them.

    Raises:
        Permanent: there is no such infrastructure, or a package is missing; says which command installs it.
        SpecError: its options have mistakes.
    """
    found = descriptor(name)
    return cast("_Machines", _imported(found, found.machines))(spec, stack, data)


def checks_of(name: str, spec: ClusterSpec, stack: str, data: Path) -> Iterable[Finding]:
    """Find what that infrastructure lacks of what the spec asks of it, while the result is iterated.

    Raises:
        Permanent: as `machines_of`.
    """
    found = descriptor(name)
    return cast("_Checks", _imported(found, found.checks))(spec, stack, data) if found.checks else ()


def image_needs_of(spec: ClusterSpec, stack: str) -> Iterator[ImageNeed]:
    """Yield what the infrastructures of ``spec`` need of images that a recipe might lack.

    Raises:
        Permanent: as `machines_of`.
        SpecError: the options of one have mistakes.
    """
    for name in spec.infrastructure_names:
        found = descriptor(name)
        if found.images:
            yield from cast("_Images", _imported(found, found.images))(spec, stack)


def imaging_of(said: Mapping[str, Any], data: Path) -> Imaging:
    """Return what makes a machine anew from the image of a role; ``said`` is as its infrastructure's graph says it, ``data`` the data folder.

    Raises:
        Permanent: as `machines_of`; or it makes none anew.
    """
    found = descriptor(str(said.get("kind")))
    if not found.imaging:
        raise Permanent(f"infrastructure {found.name}: it does not make machines anew from another image")
    return cast("_Imaging", _imported(found, found.imaging))(said, data)


def suspension_of(said: Mapping[str, Any]) -> Suspension:
    """Return what suspends a machine and resumes it; ``said`` is as its infrastructure's graph says it.

    Raises:
        Permanent: as `machines_of`; or it suspends none.
    """
    found = descriptor(str(said.get("kind")))
    if not found.suspension:
        raise Permanent(f"infrastructure {found.name}: it does not suspend machines")
    return cast("_Suspension", _imported(found, found.suspension))(said)


def preflight_of(name: str) -> Preflight:
    """Return the check of that infrastructure that previews make.

    Raises:
        Permanent: as `machines_of`; or it has none.
    """
    found = descriptor(name)
    if not found.preflight:
        raise Permanent(f"infrastructure {name}: it has no check to make before its resources")
    return cast("Preflight", _imported(found, found.preflight))


def failure_kind_of(name: str) -> FailureKind:
    """Return the function that gives the kind of that infrastructure's failures.

    Raises:
        Permanent: as `machines_of`.
    """
    found = descriptor(name)
    return cast(FailureKind, _imported(found, found.failures))


def infrastructure_of_type(resource_type: str) -> str:
    """Return the name of the infrastructure whose machine the resource is; empty where it is none."""
    found = _find(_owner(resource_type))
    return found.name if found is not None and resource_type == found.types[0] else ""


def image_of_resource(resource_type: str, inputs: Mapping[str, Any]) -> str:
    """Return the digest, or its first digits, of the image that a resource of a node is made from; empty where it does not say."""
    found = _find(_owner(resource_type))
    if found is None:
        return ""
    kind, _, name = (found.image or f"{found.types[0]}#image").partition("#")
    said = str(inputs.get(name, "")) if resource_type == kind else ""
    digits = _DIGITS.search(said) if found.image else None
    return digits[0] if digits else said


def resource_kind(token: str) -> Any:
    """Return the class that serves an infrastructure's provider resources of that token.

    Raises:
        KeyError: no infrastructure has it.
    """
    found = _find(_owner(token))
    if found is None:
        raise KeyError(token)
    return _imported(found, found.kinds[token])


def _owner(resource_type: str) -> str:
    """Return the name that an infrastructure of that resource would have: ``aws:ec2/instance:Instance`` is of ``aws``."""
    package, _, rest = resource_type.partition(":")
    return rest.partition(":")[0] if package == "tidepool" else package


@cache
def _find(name: str) -> Descriptor | None:
    if name in BUILT_IN:
        return cast(Descriptor, import_module(BUILT_IN[name]).INFRASTRUCTURE)
    if name in _NO_INFRASTRUCTURE:
        return None
    found = [each for each in _entry_points() if each.name == name]
    return cast(Descriptor, found[0].load()) if found else None


def _names() -> tuple[str, ...]:
    return (*BUILT_IN, *sorted({each.name for each in _entry_points()} - {*BUILT_IN}))


@cache
def _entry_points() -> EntryPoints:
    """Search all that is installed, which takes some 40 ms: only for names that are not built in."""
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _named(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    yield "controller.infrastructure", spec.controller.infrastructure.name
    for name in spec.infrastructure_names:
        for found in spec.entries(name):
            yield found.options_path.removesuffix(".options"), name


def _imported(found: Descriptor, path: str) -> object:
    module, _, attribute = path.partition(":")
    try:
        return attrgetter(attribute)(import_module(module))
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing.partition(".")[0] == "tidepool":
            raise Permanent(f"infrastructure {found.name}: this release has no {missing}") from error
        remedy = found.package.install if found.package else f".venv/bin/pip install {missing}"
        raise Permanent(
            f"infrastructure {found.name}: the Python package {missing} is not installed; run: {remedy}"
        ) from error
