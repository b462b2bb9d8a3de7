"""What a stack's file describes: the cluster's spec, and whether this machine can carry it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tidepool import shipped
from tidepool.cli import show
from tidepool.cli.errors import LACKS, USAGE, Failure
from tidepool.cli.package_needs import package_lacks
from tidepool.cli.pool_needs import roles_not_held, toolchain_lack
from tidepool.cli.stack import Stack, stacks_with_files
from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.cluster.spec_reading import SpecError, concerns, read_spec
from tidepool.engine.config import full_key, to_document
from tidepool.engine.config_file import read
from tidepool.infrastructures.local.kernel import Lack, Plans, preflight

#: Where in ``Pulumi.<stack>.yaml`` the spec is.
SPEC_KEY = "cluster:spec"


def described_spec(stack: Stack) -> ClusterSpec:
    """The spec in the stack's file.

    Raises:
        Failure: there is none, or it has mistakes: all of them.
        ConfigError: the file is not the configuration of a stack.
    """
    path = stack.file
    if not path.exists():
        there = ", ".join(stacks_with_files(stack.project)) or "none"
        raise Failure(
            f"stack {stack.name} is not described: there is no {path}",
            remedy=f"write it, with the cluster's spec under {SPEC_KEY} (docs/cluster-spec.md); described are: {there}",
            code=USAGE,
        )
    values = read(path, stack.project.name).values
    key = full_key(SPEC_KEY)
    if key not in values:
        raise Failure(
            f"{path} has no {SPEC_KEY} under config",
            remedy="write it as docs/cluster-spec.md says",
            code=USAGE,
        )
    mapping = to_document(values[key])
    if not isinstance(mapping, dict):
        raise Failure(f"{path}: {SPEC_KEY} should be keys and values, and is {mapping!r}", code=USAGE)
    try:
        spec = read_spec(mapping)
    except SpecError as error:
        raise Failure(f"{path}, {SPEC_KEY}: {error}", code=USAGE) from None
    _check_images(spec, stack.project.root, path)
    return spec


def _check_images(spec: ClusterSpec, project: Path, path: Path) -> None:
    """Look for the recipes of all images: the project's, or Tidepool's own. A project without any may have another way.

    Raises:
        Failure: there is no recipe for an image of ``spec``, or a pool's does not hold both roles.
    """
    own, shipped_ones = (
        {recipe.parent.name for recipe in folder.glob("*/recipe.yaml")}
        for folder in (project / "images", shipped.IMAGES)
    )
    there = sorted(own | shipped_ones)
    if own and (lost := sorted({*spec.images} - {*there})):
        raise Failure(
            f"{path}, {SPEC_KEY}: there is no image {', '.join(lost)}: no {project / 'images' / lost[0] / 'recipe.yaml'}",
            remedy=f"take one of {', '.join(there)}, or write its recipe",
            code=USAGE,
        )
    if {*spec.images} <= {*there} and (lacks := list(roles_not_held(spec, project))):
        raise Failure("\n".join([f"{path}, {SPEC_KEY}:", *(f"  {lack}" for lack in lacks)]), code=USAGE)


def plans(spec: ClusterSpec) -> Plans:
    """What an `up` makes on this machine at least: the cluster's own machines, all of pools, each fleet's first nodes."""
    controller = spec.controller
    memory: list[int] = []
    kubelets = sum(pool.machines for pool in spec.pools)
    if controller.infrastructure.name == "local":
        memory += [controller.shape.memory_mib] * (1 + controller.backup + controller.login_machines)
        memory += [controller.accounting.shape.memory_mib] if controller.accounting else []
    for fleet in spec.fleets:
        memory += [fleet.shape.memory_mib] * _first_nodes_here(fleet)
    for pool in spec.pools:
        memory += [pool.shape.memory_mib] * pool.machines
    if spec.kubernetes is not None and spec.kubernetes.kubeconfig is None:
        memory.append(spec.kubernetes.shape.memory_mib)
    cidrs = (str(spec.network),) if memory else ()
    return Plans(machines=len(memory), memory_mib=sum(memory), cidrs=cidrs, kubelets=kubelets)


def check_machine(spec: ClusterSpec, stack: Stack) -> None:
    """Tell what a person should know of ``spec`` on this machine.

    Raises:
        Failure: this machine lacks something; each with its remedy.
    """
    here = preflight(stack.data, plans(spec))
    lacks = (*here, *toolchain_lack(spec, stack.world.env), *package_lacks(spec, stack))
    for lack in lacks:
        if not lack.fatal:
            show.warn(str(lack))
    for concern in concerns(spec, machine_memory_mib()):
        show.warn(str(concern))
    if fatal := [lack for lack in lacks if lack.fatal]:
        more = "`tidepool doctor` says more; " if any(lack.fatal for lack in here) else ""
        raise Failure(told(fatal), remedy=f"{more}nothing was changed", code=LACKS)


def told(lacks: Sequence[Lack]) -> str:
    """The lacks, a line each, with what mends them."""
    head = "this machine lacks what the cluster needs:"
    return "\n".join([head, *(f"  {lack.what}\n    -> {lack.remedy}" for lack in lacks)])


def machine_memory_mib() -> int:
    """How much memory this machine has."""
    lines: Iterable[str] = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("MemTotal:"))


def _first_nodes_here(fleet: Fleet) -> int:
    """How many of those that an `up` makes without the scaler are machines of this machine."""
    here, left = 0, fleet.min_nodes
    for entry in fleet.infrastructures:
        there = min(left, fleet.most_nodes(entry))
        here += there if entry.name == "local" else 0
        left -= there
    return here
