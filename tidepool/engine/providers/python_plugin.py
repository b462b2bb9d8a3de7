"""Plugins that are Python source with a ``PulumiPlugin.yaml``: the command that runs one.

Source: ``RunPlugin`` of pulumi-language-python. There is one difference: where the plugin names no
virtual environment and has no folder ``venv``, it runs with the interpreter that runs the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tidepool.engine import yaml_reading
from tidepool.engine.errors import EngineError, NotSupportedError
from tidepool.engine.providers import interpreters

FILE: Final = "PulumiPlugin.yaml"


def command(folder: Path, environ: Mapping[str, str], python: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """What runs the plugin in ``folder``: the command without the engine's address, and what to add to
    ``environ``.

    Raises:
        EngineError: when the file is not right, or the plugin cannot be run.
    """  # noqa: D205
    options = _runtime_options(folder / FILE)
    interpreter, more = interpreters.find(
        folder, options, environ, python, file=folder / FILE, default_venv="venv"
    )
    if (folder / "__main__.py").is_file():
        return (interpreter, str(folder)), more
    return (interpreter, "-m", "pulumi.run.plugin", _distribution(folder)), more


def _runtime_options(file: Path) -> Mapping[str, Any]:
    try:
        raw = yaml_reading.load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise EngineError(f"could not read '{file}': {e}") from e
    runtime: Any = raw.get("runtime") if isinstance(raw, dict) else None
    options: Any = {}
    if isinstance(runtime, dict):
        runtime, options = runtime.get("name"), runtime.get("options") or {}
    if not isinstance(runtime, str) or not runtime:
        raise EngineError(f"'{file}': the key 'runtime' is missing; expected `runtime: python`")
    if runtime != "python":
        raise NotSupportedError(f"'{file}': a plugin whose runtime is {runtime!r}")
    if not isinstance(options, dict):
        raise EngineError(f"'{file}': runtime.options must be a mapping")
    return options


def _distribution(folder: Path) -> str:
    """The name of the package that the plugin is, where it has no ``__main__.py``."""
    import tomllib

    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise EngineError(
            f"the plugin in {folder} is not runnable: it has neither a __main__.py nor a pyproject.toml"
        ) from e
    except (OSError, ValueError) as e:
        raise EngineError(f"could not read '{file}': {e}") from e
    name = project.get("project", {}).get("name")
    if "build-system" not in project or not isinstance(name, str):
        raise EngineError(
            f"the plugin in {folder} is not runnable: it has no __main__.py, and its pyproject.toml lacks "
            "project.name or build-system"
        )
    return name
