"""Where a provider's plugin is, in the Pulumi CLI's order: the project's own plugins, PATH, the plugin cache.

Source: ``sdk/go/common/workspace/plugins.go``. Three things differ. Python's dynamic providers need no
plugin of the CLI's: the program's own interpreter serves them. A plugin that pip installed beside that
interpreter is found there, before PATH. And nothing is ever downloaded: a plugin that is missing is an error
that says how to install it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from pathlib import Path
from typing import Final, Protocol

from tidepool.engine.errors import EngineError
from tidepool.engine.providers import python_plugin
from tidepool.engine.providers.versions import Version

#: The package of Python's dynamic providers.
DYNAMIC_PYTHON: Final = "pulumi-python"

_CACHE_FOLDER: Final = re.compile(
    r"^resource-(?P<name>[a-zA-Z0-9-][a-zA-Z0-9-_.]*[a-zA-Z0-9])-v(?P<version>.*)$"
)
_BEING_INSTALLED: Final = re.compile(r"\.tmp[0-9]+$")


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """Which plugin is wanted; without a version, the newest there is."""

    name: str
    version: str = ""
    download_url: str = ""

    @property
    def executable(self) -> str:
        """What the plugin's program is called."""
        return f"pulumi-resource-{self.name}"


class ProjectPlugin(Protocol):
    """A plugin that the project brings: ``plugins.providers`` of Pulumi.yaml; the path is absolute."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def version(self) -> str: ...


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """How a plugin is started.

    Attributes:
        argv: the command, without its last argument, the engine's address.
        folder: where the plugin lives; told to it in the handshake.
        environ: what is added to its environment.
        shows_output: whether what it writes is meant for the person (dynamic providers: their ``print``).
        notice: a warning for the person about where it was found; empty if there is none.
    """

    argv: tuple[str, ...]
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    shows_output: bool = False
    notice: str = ""


class PluginMissingError(EngineError):
    """A plugin is not installed."""

    def __init__(self, spec: PluginSpec, looked_in: Sequence[str]) -> None:
        version = f" at version v{spec.version.removeprefix('v')}" if spec.version else ""
        from_where = f" from {spec.download_url}" if spec.download_url else ""
        command = " ".join(
            [
                "pulumi plugin install resource",
                spec.name,
                *([spec.version.removeprefix("v")] if spec.version else []),
            ]
        )
        server = f" --server {spec.download_url}" if spec.download_url else ""
        places = "".join(f"\n    {place}" for place in looked_in)
        super().__init__(
            f"no resource plugin '{spec.executable}' found in the workspace{version} or on your $PATH{from_where}\n"
            f"  looked in:{places}\n"
            f"  to install it: run `{command}{server}` where the Pulumi CLI is (and copy its folder here if that is "
            f"another machine), put the executable '{spec.executable}' on PATH, or name the plugin's folder under "
            "plugins.providers in Pulumi.yaml"
        )
        self.spec = spec


def find(
    spec: PluginSpec,
    *,
    project_plugins: Sequence[ProjectPlugin],
    environ: Mapping[str, str],
    pulumi_home: Path,
    python: str,
) -> PluginCommand:
    """The command that starts the plugin.

    Args:
        spec: which one.
        project_plugins: those of Pulumi.yaml.
        environ: PATH and PULUMI_IGNORE_AMBIENT_PLUGINS are read.
        pulumi_home: the folder with ``plugins/``.
        python: the program's interpreter, which also runs its dynamic providers.

    Raises:
        PluginMissingError: when it is nowhere.
        EngineError: when it is there, but cannot be used.
    """
    for plugin in project_plugins:
        if plugin.name == spec.name and _compatible(plugin.version, spec.version):
            return _in_folder(spec, _existing_folder(plugin), environ, python)
    if spec.name == DYNAMIC_PYTHON:
        return PluginCommand((python, "-u", "-m", "pulumi.dynamic"), Path(python).parent, shows_output=True)
    beside = Path(python).with_name(spec.executable)
    if beside.is_file() and not spec.version:
        return PluginCommand((str(beside),), beside.parent)
    looked_in = [
        f"{p.path} (plugins.providers, version {p.version})" for p in project_plugins if p.name == spec.name
    ]
    if environ.get("PULUMI_IGNORE_AMBIENT_PLUGINS", "").lower() not in {"1", "true"}:
        path = environ.get("PATH", "")
        ambient = shutil.which(spec.executable, path=path)
        if ambient is not None:
            notice = f"using {spec.executable} from $PATH at {ambient}"
            return PluginCommand((ambient,), Path(ambient).parent, notice=notice)
        looked_in.append(f"$PATH ({path})")
    cache = pulumi_home / "plugins"
    cached = select(spec, _cached(cache))
    if cached is not None:
        return _in_folder(spec, cached, environ, python)
    others = sorted(f.name for _, f in _cached(cache, spec.name))
    looked_in.append(f"{cache}{' (there are only ' + ', '.join(others) + ')' if others else ''}")
    raise PluginMissingError(spec, looked_in)


def select(spec: PluginSpec, cached: Iterator[tuple[Version, Path]]) -> Path | None:
    """The best of the folders that hold plugins of this name.

    A version that is asked for must be there exactly (as a semantic version); otherwise it is the newest
    release, and a pre-release only where there is no release.
    """
    local_name = _local_name(spec)
    candidates = [(version, folder) for version, folder in cached if _name_of(folder) == local_name]
    if spec.version:
        wanted = _parse(spec.version, f"the version of plugin {spec.name}")
        candidates = [c for c in candidates if c[0].same_release(wanted)]
    if not candidates:
        return None
    return max(candidates, key=cmp_to_key(_by_preference))[1]


def _by_preference(a: tuple[Version, Path], b: tuple[Version, Path]) -> int:
    (va, fa), (vb, fb) = a, b
    if bool(va.pre) != bool(vb.pre):
        return -1 if va.pre else 1
    if not va.same_release(vb):
        return -1 if va < vb else 1
    return (fa.name > fb.name) - (fa.name < fb.name)


def _cached(cache: Path, name: str | None = None) -> Iterator[tuple[Version, Path]]:
    try:
        entries = sorted(os.scandir(cache), key=lambda e: e.name)
    except FileNotFoundError:
        return
    for entry in entries:
        match = _CACHE_FOLDER.match(entry.name)
        if match is None or _BEING_INSTALLED.search(entry.name) or not entry.is_dir():
            continue
        if name is not None and match["name"] != name:
            continue
        folder = Path(entry.path)
        if folder.with_name(f"{folder.name}.partial").exists():
            continue  # Its installation was cut off.
        try:
            yield Version.parse(match["version"]), folder
        except ValueError:
            continue  # A folder of somebody else's: the CLI passes it over, too.


def _name_of(folder: Path) -> str:
    match = _CACHE_FOLDER.match(folder.name)
    assert match is not None, folder  # _cached yields no others
    return match["name"]


def _local_name(spec: PluginSpec) -> str:
    """Plugins from git are kept under their address."""
    if not spec.download_url.startswith("git://"):
        return spec.name
    return spec.download_url.removeprefix("git://").removesuffix(".git").replace("/", "_")


def _compatible(offered: str, wanted: str) -> bool:
    if not offered or not wanted:
        return True
    return _parse(offered, "a version in plugins.providers").same_release(
        _parse(wanted, "a plugin's version")
    )


def _parse(text: str, what: str) -> Version:
    try:
        return Version.parse(text)
    except ValueError as e:
        raise EngineError(f"{what}: {e}") from e


def _existing_folder(plugin: ProjectPlugin) -> Path:
    where = f"Pulumi.yaml: plugins.providers: {plugin.name}"
    if not plugin.path.exists():
        raise EngineError(f"{where}: no folder at path '{plugin.path}'; paths are relative to Pulumi.yaml")
    if not plugin.path.is_dir():
        raise EngineError(
            f"{where}: '{plugin.path}' is not a folder; give the folder that '{plugin.path.name}' is in"
        )
    return plugin.path


def _in_folder(spec: PluginSpec, folder: Path, environ: Mapping[str, str], python: str) -> PluginCommand:
    executable = folder / spec.executable
    if executable.is_file():
        if not os.access(executable, os.X_OK):
            raise EngineError(f"plugin {spec.name}: {executable} may not be executed; `chmod +x` it")
        return PluginCommand((str(executable),), folder)
    if (folder / python_plugin.FILE).is_file():
        argv, more = python_plugin.command(folder, environ, python)
        return PluginCommand(argv, folder, more)
    raise EngineError(
        f"plugin {spec.name}: {folder} holds neither the executable '{spec.executable}' nor a {python_plugin.FILE}"
    )
