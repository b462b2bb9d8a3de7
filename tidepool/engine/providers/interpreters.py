"""Which Python runs a program or a plugin, by the ``runtime.options`` of its project file.

Source: ``sdk/python/toolchain`` of Pulumi. Environments are only used, never made.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidepool.engine.errors import EngineError, NotSupportedError


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
    if _above(folder, "uv.lock") is not None:
        return "uv"
    if _above(folder, "poetry.lock") is not None:
        return "poetry"
    return "pip"


def _above(folder: Path, name: str) -> Path | None:
    return next((f for f in (folder, *folder.parents) if (f / name).is_file()), None)
