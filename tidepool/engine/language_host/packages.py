"""The packages that a program's interpreter has, and the plugins that they ask for.

Source: ``listPulumiPackageInfos``, ``packageDependencyFromPluginJSON`` and ``determinePluginVersion`` of Pulumi's host.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidepool.engine.errors import EngineError

#: Run by the program's interpreter, which may be an old one: each package, and what its `pulumi-plugin.json` says.
_LIST: Final = """
import importlib.metadata, importlib.util, json, os, re
found, needed = [], set()
for each in importlib.metadata.distributions():
    told = each.metadata  # parsed anew each time that it is asked for
    name = told["Name"]
    if not name:
        continue
    for required in told.get_all("Requires-Dist") or ():
        if "extra ==" not in required:
            needed.add(re.sub("[-_.]+", "-", re.split("[^A-Za-z0-9._-]", required)[0]).lower())
    plugin = None
    try:
        spec = importlib.util.find_spec(name.replace("-", "_"))
    except Exception:
        spec = None
    for folder in (spec.submodule_search_locations or () if spec else ()):
        file = os.path.join(folder, "pulumi-plugin.json")
        if os.path.isfile(file):
            with open(file) as opened:
                plugin = json.load(opened)
            break
    found.append({"name": name, "version": told["Version"], "plugin": plugin})
for each in found:
    each["needed"] = re.sub("[-_.]+", "-", each["name"]).lower() in needed
print(json.dumps(found))
"""
#: Packages that are called as if they had a plugin, and have none.
_WITHOUT_PLUGIN: Final = frozenset({"pulumi-policy", "pulumi-esc-sdk"})
_VERSION: Final = re.compile(r"(\d+(?:\.\d+)*)(?:(a|b|rc)(\d+))?(?:\.post(\d+))?(?:\.dev(\d+))?")
_STAGES: Final = {"a": "alpha", "b": "beta", "rc": "rc"}
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class Package:
    """A package. ``plugin`` is what its `pulumi-plugin.json` says; ``needed``: another one requires it."""

    name: str
    version: str
    plugin: Mapping[str, Any] | None
    needed: bool


def installed(python: str, env: Mapping[str, str]) -> list[Package]:
    """Return the packages that the interpreter ``python`` finds.

    Raises:
        EngineError: it cannot be run.
    """
    try:
        done = subprocess.run(
            [python, "-c", _LIST], env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_PATIENCE_S, check=True,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise EngineError(f"{python} could not list its packages: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{python} could not list its packages: {error}") from error
    return sorted((Package(**each) for each in json.loads(done.stdout)), key=lambda p: p.name)


def required_plugins(packages: list[Package]) -> Iterator[dict[str, Any]]:
    """Yield the plugin that each package asks for, by the fields of ``PackageDependency``."""
    for package in packages:
        told = package.plugin
        if package.name in _WITHOUT_PLUGIN or (told is None and not package.name.startswith("pulumi-")):
            continue
        if told is not None and not told.get("resource"):
            continue
        told = told or {}
        version = told.get("version") or plugin_version(package.version)
        if version is None:
            continue
        plugin = {
            "name": told.get("name") or package.name.removeprefix("pulumi-"),
            "version": f"v{version.removeprefix('v')}",
            "kind": "resource",
            "server": told.get("server", ""),
        }
        for key, field in (
            ("parameterization", "parameterization"),
            ("extensionParameterization", "extension"),
        ):
            if parameters := told.get(key):
                plugin[field] = parameters
        yield plugin


def plugin_version(package_version: str) -> str | None:
    """Return a package's version as the version of its plugin; None where it does not say enough."""
    match = _VERSION.fullmatch(package_version)
    if match is None:
        return None
    numbers, stage, number, post, dev = match.groups()
    version = ".".join([*numbers.split("."), "0", "0"][: max(3, numbers.count(".") + 1)])
    if stage:
        version += f"-{_STAGES[stage]}.{number}"
    if post or dev:
        version += "+" + (f"post{post}" if post else "") + (f"dev{dev}" if dev else "")
    return version
