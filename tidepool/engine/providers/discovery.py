"""The search for a provider's plugin, in the Pulumi CLI's order: the project's own plugins, PATH, the plugin cache.

Source: ``sdk/go/common/workspace/plugins.go``. Three things differ. Python's dynamic providers need no
plugin of the CLI's: the program's own interpreter serves them. A plugin that pip installed beside that
interpreter is found there, before PATH. And nothing is ever downloaded: a plugin that is missing is an error
that says how to install it.

Versions of plugins are semantic versions, read as forgivingly as the Pulumi CLI reads them. In a range such as
``>=3.0.0 <4.0.0 || !5.1.0``, comparisons side by side must all hold, and ``||`` separates alternatives: the syntax of
github.com/blang/semver, which Pulumi uses for ``requiredPulumiVersion``.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import total_ordering
from pathlib import Path
from typing import Final

from tidepool.engine.choice import COMPATIBLE_VERSION
from tidepool.engine.errors import EngineError
from tidepool.engine.project import PluginPath
from tidepool.engine.providers import interpreters

_PATTERN: Final = re.compile(
    r"^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?$"
)


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version (semver.org, 2.0.0). ``build`` does not count in comparisons, except for equality."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Version:
        """``text`` as a version; a leading ``v`` and missing numbers are forgiven.

        Raises:
            ValueError: when it is not a version.
        """
        match = _PATTERN.match(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a version; expected something like 1.2.3")
        major, minor, patch, pre, build = match.groups()
        return cls(
            int(major),
            int(minor or 0),
            int(patch or 0),
            tuple((pre or "").split(".")) if pre else (),
            build or "",
        )

    def __str__(self) -> str:
        pre = f"-{'.'.join(self.pre)}" if self.pre else ""
        build = f"+{self.build}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"

    def __lt__(self, other: Version) -> bool:
        return self.order < other.order

    def same_release(self, other: Version) -> bool:
        """Equal as semantic versions: whatever their build."""
        return self.order == other.order

    @property
    def order(self) -> tuple[object, ...]:
        """The key to sort by. A release comes after its pre-releases; numbers before words, and as numbers."""
        identifiers = tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, identifiers)


_COMPARISON: Final = re.compile(r"\s*(>=|<=|==|!=|>|<|=|!)?\s*v?([0-9A-Za-z.+*-]+)\s*")
_TESTS: Final[dict[str, Callable[[Version, Version], bool]]] = {
    ">=": lambda a, b: not a < b,
    "<=": lambda a, b: not b < a,
    ">": lambda a, b: b < a,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a.same_release(b),
    "==": lambda a, b: a.same_release(b),
    "!=": lambda a, b: not a.same_release(b),
    "!": lambda a, b: not a.same_release(b),
}


def admits(version_range: str, version: str) -> bool:
    """Tell whether ``version`` is within ``version_range``.

    Raises:
        ValueError: when either cannot be read.
    """
    actual = Version.parse(version)
    alternatives = [_comparisons(part) for part in version_range.split("||")]
    return any(all(_TESTS[op](actual, bound) for op, bound in part) for part in alternatives)


def require_version(version_range: str) -> None:
    """Hold the CLI's version that the engine follows to what a project, plugin or program asks for; empty asks for nothing.

    Raises:
        EngineError: when it is not within the range, or that cannot be read. The texts are the CLI's.
    """
    try:
        admitted = not version_range or admits(version_range, COMPATIBLE_VERSION)
    except ValueError as error:
        raise EngineError(f'parsing CLI version range "{version_range}": {error}') from error
    if not admitted:
        raise EngineError(
            f'Pulumi CLI version {COMPATIBLE_VERSION} does not satisfy the version range "{version_range}"'
        )


def _comparisons(text: str) -> list[tuple[str, Version]]:
    found: list[tuple[str, Version]] = []
    position = 0
    while position < len(text):
        match = _COMPARISON.match(text, position)
        if match is None:
            raise ValueError(
                f"{text.strip()!r} is not a version range; expected something like '>=3.0.0 <4.0.0'"
            )
        found.extend(_expanded(match[1] or "=", match[2]))
        position = match.end()
    if not found:
        raise ValueError("a version range must not be empty; expected something like '>=3.0.0 <4.0.0'")
    return found


def _expanded(operator: str, bound: str) -> list[tuple[str, Version]]:
    """``3.x`` stands for all versions that begin with 3."""
    numbers = bound.split(".")
    wild = next((i for i, n in enumerate(numbers) if n in {"x", "X", "*"}), None)
    if wild is None:
        return [(operator, Version.parse(bound))]
    fixed = [int(n) for n in numbers[:wild]]
    low = _padded(fixed)
    if not fixed:
        return [(">=", low)]
    high = _padded([*fixed[:-1], fixed[-1] + 1])
    match operator:
        case "=" | "==":
            return [(">=", low), ("<", high)]
        case ">" | "<=":
            # Above all of 3.x, or up to the last of it.
            return [(">=" if operator == ">" else "<", high)]
        case ">=" | "<":
            return [(operator, low)]
        case _:
            raise ValueError(f"{operator}{bound}: a version that is excluded must be given in full")


def _padded(numbers: list[int]) -> Version:
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return Version(major, minor, patch)


#: The package of Python's dynamic providers.
DYNAMIC_PYTHON: Final = "pulumi-python"

_CACHE_FOLDER: Final = re.compile(
    r"^resource-(?P<name>[a-zA-Z0-9-][a-zA-Z0-9-_.]*[a-zA-Z0-9])-v(?P<version>.*)$"
)
_BEING_INSTALLED: Final = re.compile(r"\.tmp[0-9]+$")


@dataclass(frozen=True, slots=True)
class PluginRequest:
    """The plugin that is wanted; without a version, the newest there is."""

    package: str
    version: str = ""
    download_url: str = ""

    @property
    def executable(self) -> str:
        return f"pulumi-resource-{self.package}"


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """The command that starts a plugin.

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

    def __init__(self, request: PluginRequest, looked_in: Sequence[str]) -> None:
        version = f" at version v{request.version.removeprefix('v')}" if request.version else ""
        from_where = f" from {request.download_url}" if request.download_url else ""
        command = " ".join(
            [
                "pulumi plugin install resource",
                request.package,
                *([request.version.removeprefix("v")] if request.version else []),
            ]
        )
        server = f" --server {request.download_url}" if request.download_url else ""
        places = "".join(f"\n    {place}" for place in looked_in)
        super().__init__(
            f"no resource plugin '{request.executable}' found in the workspace{version} or on your $PATH{from_where}\n"
            f"  looked in:{places}\n"
            f"  to install it: run `{command}{server}` where the Pulumi CLI is (and copy its folder here if that is "
            f"another machine), put the executable '{request.executable}' on PATH, or name the plugin's folder under "
            "plugins.providers in Pulumi.yaml"
        )


def find(
    request: PluginRequest,
    *,
    project_plugins: Sequence[PluginPath],
    environ: Mapping[str, str],
    pulumi_home: Path,
    python: str,
) -> PluginCommand:
    """The command that starts the plugin.

    Args:
        request: which one.
        project_plugins: those of Pulumi.yaml.
        environ: PATH and PULUMI_IGNORE_AMBIENT_PLUGINS are read.
        pulumi_home: the folder with ``plugins/``.
        python: the program's interpreter, which also runs its dynamic providers.

    Raises:
        PluginMissingError: when it is nowhere.
        EngineError: when it is there, but cannot be used.
    """
    for plugin in project_plugins:
        if plugin.name == request.package and _compatible(plugin.version, request.version):
            return _in_folder(request, _existing_folder(plugin), environ, python)
    if request.package == DYNAMIC_PYTHON:
        return PluginCommand((python, "-u", "-m", "pulumi.dynamic"), Path(python).parent, shows_output=True)
    beside = Path(python).with_name(request.executable)
    if beside.is_file() and not request.version:
        return PluginCommand((str(beside),), beside.parent)
    looked_in = [
        f"{p.path} (plugins.providers, version {p.version})"
        for p in project_plugins
        if p.name == request.package
    ]
    if environ.get("PULUMI_IGNORE_AMBIENT_PLUGINS", "").lower() not in {"1", "true"}:
        path = environ.get("PATH", "")
        ambient = shutil.which(request.executable, path=path)
        if ambient is not None:
            notice = f"using {request.executable} from $PATH at {ambient}"
            return PluginCommand((ambient,), Path(ambient).parent, notice=notice)
        looked_in.append(f"$PATH ({path})")
    cache = pulumi_home / "plugins"
    cached = _best(request, _cached(cache, _local_name(request)))
    if cached is not None:
        return _in_folder(request, cached, environ, python)
    others = sorted(f.name for _, f in _cached(cache, request.package))
    looked_in.append(f"{cache}{' (there are only ' + ', '.join(others) + ')' if others else ''}")
    raise PluginMissingError(request, looked_in)


def _best(request: PluginRequest, cached: Iterable[tuple[Version, Path]]) -> Path | None:
    """The best of the folders that hold plugins of the wanted name.

    A version that is asked for must be there exactly (as a semantic version); otherwise it is the newest
    release, and a pre-release only where there is no release.
    """
    candidates = list(cached)
    if request.version:
        wanted = _parse(request.version, f"the version of plugin {request.package}")
        candidates = [c for c in candidates if c[0].same_release(wanted)]
    if not candidates:
        return None
    return max(candidates, key=lambda c: (not c[0].pre, c[0].order, c[1].name))[1]


def _cached(cache: Path, name: str) -> Iterator[tuple[Version, Path]]:
    try:
        entries = sorted(os.scandir(cache), key=lambda e: e.name)
    except FileNotFoundError:
        return
    for entry in entries:
        match = _CACHE_FOLDER.match(entry.name)
        if match is None or match["name"] != name:
            continue
        if _BEING_INSTALLED.search(entry.name) or not entry.is_dir():
            continue
        folder = Path(entry.path)
        if folder.with_name(f"{folder.name}.partial").exists():
            continue  # Its installation was cut off.
        try:
            yield Version.parse(match["version"]), folder
        except ValueError:
            continue  # A folder of somebody else's: the CLI passes it over, too.


def _local_name(request: PluginRequest) -> str:
    """Plugins from git are kept under their address."""
    if not request.download_url.startswith("git://"):
        return request.package
    return request.download_url.removeprefix("git://").removesuffix(".git").replace("/", "_")


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


def _existing_folder(plugin: PluginPath) -> Path:
    where = f"Pulumi.yaml: plugins.providers: {plugin.name}"
    if not plugin.path.exists():
        raise EngineError(f"{where}: no folder at path '{plugin.path}'; paths are relative to Pulumi.yaml")
    if not plugin.path.is_dir():
        raise EngineError(
            f"{where}: '{plugin.path}' is not a folder; give the folder that '{plugin.path.name}' is in"
        )
    return plugin.path


def _in_folder(
    request: PluginRequest, folder: Path, environ: Mapping[str, str], python: str
) -> PluginCommand:
    executable = folder / request.executable
    if executable.is_file():
        if not os.access(executable, os.X_OK):
            raise EngineError(f"plugin {request.package}: {executable} may not be executed; `chmod +x` it")
        return PluginCommand((str(executable),), folder)
    if (folder / interpreters.PLUGIN_FILE).is_file():
        argv, more = interpreters.plugin_command(folder, environ, python)
        return PluginCommand(argv, folder, more)
    raise EngineError(
        f"plugin {request.package}: {folder} holds neither the executable '{request.executable}' nor a {interpreters.PLUGIN_FILE}"
    )
