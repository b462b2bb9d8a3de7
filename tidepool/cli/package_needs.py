"""What the infrastructures of a spec need to be installed here, told before anything is made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidepool.cli.stack import Stack
from tidepool.cluster.failures import Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.engine.providers import discovery, interpreters
from tidepool.infrastructures.local.kernel import Lack
from tidepool.infrastructures.registry import Package, descriptor


def package_lacks(spec: ClusterSpec, stack: Stack) -> Iterator[Lack]:
    """The packages that are not installed, and the plugins that no engine would find; each with what installs it."""
    for name in spec.infrastructure_names:
        yield from package_lacks_of(name, stack)


def package_lacks_of(name: str, stack: Stack) -> Iterator[Lack]:
    """The same of one infrastructure."""
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
        told = "the Python package" if len(missing) == 1 else "the Python packages"
        verb = "is" if len(missing) == 1 else "are"
        yield Lack(
            f"infrastructure {name}: {told} {', '.join(missing)} {verb} not installed", package.install
        )


def _plugin(name: str, package: Package, stack: Stack) -> Iterator[Lack]:
    env = stack.environment
    if stack.engine.name == "pulumi" and not _is_true(env["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"]):
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
    """Whether the program runs with this interpreter's packages, and not with those of another environment."""
    project = stack.project
    python, _ = interpreters.find(
        project.root, project.runtime_options, stack.environment, sys.executable, file=project.file
    )
    return python == sys.executable


def installed(package: str) -> str:
    """Its version; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _is_true(value: str) -> bool:
    return value.lower() in ("1", "true")
