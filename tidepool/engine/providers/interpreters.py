"""The Python that runs a program or a plugin, by the ``runtime.options`` of its project file.

Source: ``sdk/python/toolchain`` and ``RunPlugin`` of Pulumi. Environments are only used, never made.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tidepool.engine import yaml_reading
from tidepool.engine.errors import EngineError, NotSupportedError
from tidepool.engine.project import Project

#: The project file of a plugin that is Python source.
PLUGIN_FILE: Final = "PulumiPlugin.yaml"


def find(
    folder: Path,
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    own: str,
    *,
    file: Path,
    default_venv: str = "",
) -> tuple[str, dict[str, str]]:
    """The interpreter, and what to add to the environment for it.

    Args:
        folder: the project's or plugin's folder.
        options: its ``runtime.options``: ``virtualenv`` and ``toolchain``.
        environ: PATH, PULUMI_PYTHON_CMD and UV_PROJECT_ENVIRONMENT are read.
        own: the interpreter where no other is asked for.
        file: the project file, for messages.
        default_venv: a virtual environment that is used where it exists.

    Raises:
        EngineError: when the virtual environment that is asked for is not there.
    """
    _refuse_mistakes(options, file)
    named = options.get("virtualenv", "")
    toolchain = options.get("toolchain") or _detected_toolchain(folder)
    uv_venv = environ.get("UV_PROJECT_ENVIRONMENT") or ".venv"
    venv = _venv(folder, named, default_venv, toolchain, uv_venv, file)
    if venv is not None and _is_venv(venv):
        # Our own environment under another path is no reason to leave this process.
        if venv.resolve() == Path(own).parent.parent.resolve():
            return own, {}
        path = environ.get("PATH", "")
        folders = [str(venv / "bin"), *([path] if path else [])]
        return str(venv / "bin" / "python"), {"VIRTUAL_ENV": str(venv), "PATH": ":".join(folders)}
    if named:
        raise EngineError(
            f"'{file}': runtime.options.virtualenv is {named!r}, but {venv} is not a virtual environment; "
            f"make it: `python3 -m venv {venv}` and `{venv}/bin/python -m pip install -r {folder}/requirements.txt`"
        )
    return _ordered(environ) or own, {}


def of_project(project: Project, environ: Mapping[str, str], own: str) -> str:
    """The interpreter that a project's program runs with; errors as :func:`find`."""
    python, _ = find(project.root, project.runtime_options, environ, own, file=project.file)
    return python


def _venv(folder: Path, named: str, default: str, toolchain: str, uv_venv: str, file: Path) -> Path | None:
    if named:
        return folder / named
    if toolchain == "uv":
        return (_above(folder, "uv.lock") or _above(folder, "pyproject.toml") or folder) / uv_venv
    if toolchain == "poetry":
        # Poetry keeps its environments elsewhere by default, and only poetry knows where.
        venv = folder / ".venv"
        if not _is_venv(venv):
            raise NotSupportedError(f"'{file}': the toolchain poetry without a virtual environment in {venv}")
        return venv
    return folder / default if default else None


def _ordered(environ: Mapping[str, str]) -> str | None:
    command = environ.get("PULUMI_PYTHON_CMD", "")
    if not command:
        return None
    found = shutil.which(command, path=environ.get("PATH", ""))
    if found is None:
        raise EngineError(
            f"PULUMI_PYTHON_CMD is {command!r}, which is not on PATH ({environ.get('PATH', '')})"
        )
    return found


def _refuse_mistakes(options: Mapping[str, Any], file: Path) -> None:
    for key in ("virtualenv", "toolchain"):
        if not isinstance(options.get(key, ""), str):
            raise EngineError(f"'{file}': runtime.options.{key} must be a string")
    if options.get("toolchain", "pip") not in {"pip", "uv", "poetry"}:
        raise EngineError(
            f"'{file}': runtime.options.toolchain: unknown {options['toolchain']!r}; allowed are pip, uv, poetry"
        )


def _is_venv(folder: Path) -> bool:
    return (folder / "bin" / "python").is_file()


def _detected_toolchain(folder: Path) -> str:
    return next((name for name in ("uv", "poetry") if _above(folder, f"{name}.lock") is not None), "pip")


def _above(folder: Path, name: str) -> Path | None:
    return next((f for f in (folder, *folder.parents) if (f / name).is_file()), None)


def plugin_command(
    folder: Path, environ: Mapping[str, str], python: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command that runs the plugin in ``folder``, and what to add to ``environ`` for it.

    The engine's address is to be added as its last argument. Where the plugin names no virtual environment and has no
    folder ``venv``, it runs with ``python``.

    Raises:
        EngineError: when the file is not right, or the plugin cannot be run.
    """
    options = _runtime_options(folder / PLUGIN_FILE)
    interpreter, more = find(folder, options, environ, python, file=folder / PLUGIN_FILE, default_venv="venv")
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
