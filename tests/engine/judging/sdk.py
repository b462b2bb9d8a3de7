"""The SDK of a plugin, which programs of Pulumi's tests import and the CLI generates."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from scenarios.sandbox import Actor

from .copy import Copy, NotHere

#: What generated SDKs import, besides ``pulumi`` and what that brings.
_IMPORTED: Final = "parver"
_IN_PYTHON: Final = ("--language", "python", "--local")


def generate(words: str, copy: Copy, cli: Actor | None, built: Path) -> None:
    """Put an SDK beside the program: of the plugin or schema that ``words`` begin with; the rest are its parameters.

    Raises:
        NotHere: when there is no CLI, or the package that generated SDKs need cannot be installed.
    """
    if cli is None:
        raise NotHere("needs `pulumi` on PATH, which generates the SDK that the program imports")
    path, *parameters = shlex.split(words)
    out = copy.scratch / "sdk"
    env = copy.environment(cli, {})
    _run(
        [*cli.argv, "package", "gen-sdk", str(copy.place(path)), *parameters, "--out", str(out), *_IN_PYTHON],
        copy.project,
        env,
    )
    for package in out.rglob("pulumi_*"):
        if (package / "__init__.py").is_file():
            shutil.copytree(package, copy.project / package.name)
    packages = built / "packages"
    if not packages.is_dir():
        _run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), _IMPORTED],
            copy.project,
            env,
        )
    copy.packages = packages


def _run(command: list[str], folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotHere(f"{shlex.join(command[:4])}: {done.stderr.strip() or done.stdout.strip()}")
