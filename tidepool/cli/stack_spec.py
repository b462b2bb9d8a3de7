"""The cluster's spec in a stack's file, and the checks of it against this machine before an `up`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from tidepool import shipped
from tidepool.cli import show
from tidepool.cli.cluster import fleet_of
from tidepool.cli.errors import LACKS, USAGE, Failure
from tidepool.cli.stack import Stack, stacks_with_files
from tidepool.cluster.failures import Permanent
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.roles import ROLES
from tidepool.cluster.slurm_conf import fleets_and_pools
from tidepool.cluster.slurm_releases import release_of
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError, concerns, read_spec
from tidepool.engine.config import full_key, to_document
from tidepool.engine.config_file import read
from tidepool.engine.providers import discovery, interpreters
from tidepool.images import ImageError, holds_package, package_version, read_lacks
from tidepool.infrastructures.local.kernel import Lack, Plans, list_machines, may_close_devices, preflight
from tidepool.infrastructures.registry import Package, descriptor, has_own_kernel, image_needs_of
from tidepool.toolchain import ToolchainError, find

#: Where in ``Pulumi.<stack>.yaml`` the spec is.
SPEC_KEY = "cluster:spec"
#: How the packages of kernels begin, in whichever flavour.
_KERNEL: Final = "linux-image"


def described_spec(stack: Stack) -> ClusterSpec:
    """The spec in the stack's file.

    Raises:
        Failure: there is none, or it has mistakes: all of them.
        ConfigError: the file is not the configuration of a stack.
    """
    spec = read_described(spec_document(stack), f"{stack.file}, {SPEC_KEY}")
    check_images(spec, stack)
    return spec


def spec_document(stack: Stack) -> dict[str, object]:
    """The spec in the stack's file, as it stands there.

    Raises:
        Failure: there is none.
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
    return mapping


def read_described(document: Mapping[str, object], where: str, found: Iterable[Mistake] = ()) -> ClusterSpec:
    """The spec that a document says, which stands ``where``.

    Raises:
        Failure: it has mistakes, or some were ``found`` before: all of them.
    """
    mistakes = (*found,)
    try:
        spec = read_spec(document)
    except SpecError as error:
        mistakes += error.mistakes
    else:
        if not mistakes:
            return spec
    raise Failure(f"{where}: {SpecError(mistakes)}", code=USAGE)


def check_images(spec: ClusterSpec, stack: Stack) -> None:
    """Look for the recipes of all images: the project's, or Tidepool's own. A project without any may have another way.

    Raises:
        Failure: there is no recipe for an image of ``spec``, a pool's does not hold both roles, one lacks a package that
            an infrastructure's options need, or holds another release of Slurm than is said.
    """
    project, path = stack.project.root, stack.file
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
    if not {*spec.images} <= {*there}:
        return
    checks = (
        roles_not_held(spec, project),
        packages_not_held(spec, stack.name, project),
        releases_not_held(spec, project),
    )
    if lacks := [lack for check in checks for lack in check]:
        raise Failure("\n".join([f"{path}, {SPEC_KEY}:", *(f"  {lack}" for lack in lacks)]), code=USAGE)


def plans(spec: ClusterSpec) -> Plans:
    """Return what an `up` makes here at least: the cluster's own machines, those of pools, each fleet's first nodes."""
    controller = spec.controller
    memory: list[int] = []
    pools = [pool for pool in spec.pools if spec.pool_infrastructure(pool) == "local"]
    kubelets = sum(pool.machines for pool in pools)
    if controller.infrastructure.name == "local":
        memory += [controller.shape.memory_mib] * (1 + controller.backup + controller.login_machines)
        memory += [controller.own_accounting.shape.memory_mib] if controller.own_accounting else []
    for fleet in spec.fleets:
        memory += [fleet.shape.memory_mib] * _first_nodes_here(fleet)
    for pool in pools:
        memory += [pool.shape.memory_mib] * pool.machines
    if spec.kubernetes is not None and spec.kubernetes.kubeconfig is None:
        memory.append(spec.kubernetes.shape.memory_mib)
    cidrs = (str(spec.network),) if memory else ()
    has_nodes = any(spec.entries("local"))
    controllers = spec.confining_controllers if has_nodes else ()
    return Plans(len(memory), sum(memory), cidrs, kubelets, controllers)


def _unconfined_machines(spec: ClusterSpec, stack: Stack) -> Iterator[Lack]:
    """Tell of nodes here that booted before jobs were confined, where no job would start any more."""
    if "devices" not in spec.confining_controllers:
        return
    fleets = {fleet.name for fleet in fleets_and_pools(spec) if fleet.shape.gres}
    stale = [
        machine.name
        for machine in list_machines(stack.data, stack.name)
        if fleet_of(machine.name) in fleets and machine.pid and not may_close_devices(machine.pid)
    ]
    if stale:
        yield Lack(
            f"{show.hosts(stale)} booted before devices were closed to jobs, and no job would start there",
            "write process_tracking: linuxproc until they have gone, by min_nodes: 0 or when they are idle, and leave it out then",
        )


def check_machine(spec: ClusterSpec, stack: Stack) -> None:
    """Tell what a person should know of ``spec`` on this machine.

    Raises:
        Failure: this machine lacks something; each with its remedy.
    """
    here = preflight(stack.data, plans(spec))
    packages = (lack for name in spec.infrastructure_names for lack in package_lacks_of(name, stack))
    lacks = (*here, *_unconfined_machines(spec, stack), *toolchain_lack(spec, stack.context.env), *packages)
    for lack in lacks:
        if not lack.fatal:
            show.warn(str(lack))
    for concern in concerns(spec, machine_memory_mib()):
        show.warn(str(concern))
    if fatal := [lack for lack in lacks if lack.fatal]:
        more = "`tidepool doctor` says more; " if any(lack.fatal for lack in here) else ""
        told = "".join(f"\n  {lack.what}\n    -> {lack.remedy}" for lack in fatal)
        what = f"this machine lacks what the cluster needs:{told}"
        raise Failure(what, remedy=f"{more}nothing was changed", code=LACKS)


def machine_memory_mib() -> int:
    """Return the memory of this machine in MiB."""
    lines: Iterable[str] = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("MemTotal:"))


def _first_nodes_here(fleet: Fleet) -> int:
    """Count the nodes that an `up` makes on this machine without the scaler."""
    here, left = 0, fleet.min_nodes
    for entry in fleet.infrastructures:
        there = min(left, fleet.most_nodes(entry))
        here += there if entry.name == "local" else 0
        left -= there
    return here


def roles_not_held(spec: ClusterSpec, project: Path) -> Iterator[str]:
    """The pools with an image that lacks what a role needs, or to boot, by the recipes of ``project``; a line each, with the remedy."""
    for pool in spec.pools:
        place = spec.pool_infrastructure(pool)
        for image in dict.fromkeys(map(pool.image_of, ROLES)):
            folder = shipped.recipe(image, project)
            roles = [role for role in ROLES if pool.image_of(role) == image]
            try:
                lacking = {role: read_lacks(folder, shipped.playbooks(project), role) for role in roles}
                boots = not has_own_kernel(place) or holds_package(folder, _KERNEL)
            except ImageError as error:
                yield f"pool {pool.name}: {error}"
                continue
            for role, lacks in lacking.items():
                if lacks:
                    yield (
                        f"pool {pool.name}: its image {image} does not hold the role {role}, as it has no "
                        f"{', no '.join(lacks)}; name one that does (by default it is debian-12-converged), or add that "
                        f"to {folder / 'recipe.yaml'}"
                    )
            if not boots:
                yield (
                    f"pool {pool.name}: its image {image} has no kernel, by which machines of {place} boot; name one that has, such "
                    f"as debian-12-vm-converged, or add {_KERNEL}-cloud-amd64 and the role boot to {folder / 'recipe.yaml'}"
                )


def packages_not_held(spec: ClusterSpec, stack: str, project: Path) -> Iterator[str]:
    """Yield a line for each image that lacks a package which options of an infrastructure need, with the remedy."""
    try:
        needs = list(image_needs_of(spec, stack))
    except (Permanent, SpecError):
        return  # told with all else of that infrastructure
    for need in needs:
        folder = shipped.recipe(need.image, project)
        try:
            if holds_package(folder, need.package):
                continue
        except ImageError as error:
            yield f"{need.path}: {error}"
            continue
        yield (
            f"{need.path}: the image {need.image} has no package {need.package}*, {need.without}, or add it to "
            f"{folder / 'recipe.yaml'}"
        )


def releases_not_held(spec: ClusterSpec, project: Path) -> Iterator[str]:
    """Yield a line for each image that holds another release of Slurm than is said, with the remedy."""
    uses = [("", spec.controller_image, spec.slurm_version)]
    uses += [
        (f"fleets[{i}].", spec.fleet_image(fleet, entry), fleet.slurm_version or spec.slurm_version)
        for i, fleet in enumerate(spec.fleets)
        for entry in fleet.infrastructures
    ]
    uses += [
        (f"pools[{i}].", pool.image_of("slurm"), pool.slurm_version or spec.slurm_version)
        for i, pool in enumerate(spec.pools)
    ]
    for path, image, said in dict.fromkeys(uses):
        program = "slurmd" if path else "slurmctld"
        try:
            held = release_of(package_version(shipped.recipe(image, project), program))
        except ImageError:
            continue  # the image tells it itself
        if held and held != said:
            yield (
                f"{path}slurm_version: it is {said}, and the image {image} holds {program} of {held}: name an image with "
                f"{said}, or say slurm_version: '{held}' here"
            )


def toolchain_lack(spec: ClusterSpec, env: Mapping[str, str]) -> Iterator[Lack]:
    """Yield a lack where pools serve Kubernetes, which is not built: images hold parts of it, and so does the control plane."""
    if not spec.pools:
        return
    try:
        find(env)
    except ToolchainError as error:
        yield Lack(error.what, error.remedy)


def package_lacks_of(name: str, stack: Stack) -> Iterator[Lack]:
    """Yield the packages of an infrastructure that are not installed, and its plugin where no engine would find it."""
    try:
        package = descriptor(name).package
    except Permanent as unknown:
        yield Lack(str(unknown), "name one of these in the spec")
        return
    if package is not None:
        yield from _packages(name, package, stack)
    if package is not None and package.plugin:
        yield from _plugin(name, package, stack)


def _packages(name: str, package: Package, stack: Stack) -> Iterator[Lack]:
    if not _runs_here(stack):
        return
    missing = [each for each in (package.name, *package.beside) if not installed(each)]
    if missing:
        packages, are = ("package", "is") if len(missing) == 1 else ("packages", "are")
        yield Lack(
            f"infrastructure {name}: the Python {packages} {', '.join(missing)} {are} not installed",
            package.install,
        )


def _plugin(name: str, package: Package, stack: Stack) -> Iterator[Lack]:
    env = stack.environment
    if stack.engine.name == "pulumi" and env["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"].lower() not in (
        "1",
        "true",
    ):
        return  # it downloads what is missing
    # The engine takes the one that the package was made with.
    wanted = (installed(package.name) if _runs_here(stack) else "") or package.version
    plugin = discovery.PluginRequest(package.plugin, wanted)
    home = Path(env.get("PULUMI_HOME") or Path.home() / ".pulumi")
    try:
        discovery.find(
            plugin,
            project_plugins=stack.project.providers,
            environ=env,
            pulumi_home=home,
            python=sys.executable,
        )
    except discovery.PluginMissingError:
        yield Lack(
            f"infrastructure {name}: the plugin {plugin.executable} {wanted} is neither on PATH nor in {home}/plugins",
            f"pulumi plugin install resource {plugin.package} {wanted}; without the Pulumi CLI put {plugin.executable} on PATH",
        )


def _runs_here(stack: Stack) -> bool:
    """Return whether the program runs with this interpreter's packages, and not with those of another environment."""
    return interpreters.of_project(stack.project, stack.environment, sys.executable) == sys.executable


def installed(package: str) -> str:
    """Its version; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
