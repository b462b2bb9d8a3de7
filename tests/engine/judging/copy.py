"""The folders of one run: a program of the checkout with its plugins, and all that ``pulumi`` keeps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.engine.scenarios.sandbox import PASSPHRASE, Actor

from .case import Case

_IGNORED: Final = shutil.ignore_patterns("__pycache__", "node_modules", "venv", ".venv")
#: How an environment is made is the language host's business, not the engine's: the judge's own is used.
_OF_ENVIRONMENTS: Final = ("toolchain", "virtualenv")


class NotHere(Exception):
    """Something that a run needs is not on this machine."""


class Copy:
    """A run's folders below ``root``, in the layout of the checkout: its programs have paths to each other."""

    def __init__(self, checkout: Path, case: Case, root: Path, built: Path) -> None:
        """``built`` keeps plugins that were built from Go source.

        Raises:
            NotHere: when a plugin cannot be built.
        """
        self.root = root
        self.project = root / case.suite / case.program
        self.scratch = root / "scratch"
        self.backend = root / "backend"
        #: Folders of Python packages that programs and plugins need besides the judge's own.
        self.packages: list[Path] = []
        self._checkout = checkout
        self._suite = case.suite
        shutil.copytree(checkout / case.suite / case.program, self.project, ignore=_IGNORED)
        for name, text in case.cut.items():
            source = self.project / name
            source.write_text(source.read_text().partition(text)[0])
        for folder in (self.scratch, self.backend, root / "home"):
            folder.mkdir()
        self._plugins = {name: str(self._plugin(name, path, built)) for name, path in case.plugins.items()}
        _rewrite(self.project / "Pulumi.yaml", self._plugins)
        if case.in_environment:
            _enter_environment(self.project / "Pulumi.yaml")

    def lay_over(self, folder: str) -> None:
        """Copy what is in ``folder`` of the checkout over the program."""
        over = self._checkout / self._suite / folder
        shutil.copytree(over, self.project, ignore=_IGNORED, dirs_exist_ok=True)
        if (over / "Pulumi.yaml").exists():
            _rewrite(self.project / "Pulumi.yaml", self._plugins)

    def environment(self, actor: Actor, extra: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a command: nothing of the caller's own Pulumi leaks in."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("PULUMI_") and k != "PYTHONPATH"}
        env |= {
            "PATH": actor.path,
            "PULUMI_HOME": str(self.root / "home"),
            "PULUMI_BACKEND_URL": self.backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_COMMANDS": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SENTINEL_DIR": str(self.scratch),
        }
        python_path = [str(p) for p in (actor.python_path, *self.packages) if p]
        if python_path:
            env["PYTHONPATH"] = os.pathsep.join(python_path)
        return {**env, **extra}

    def place(self, path: str) -> Path:
        """Where ``path``, relative to the case's suite, is in this copy."""
        return Path(os.path.normpath(self.root / self._suite / path))

    def _plugin(self, name: str, path: str, built: Path) -> Path:
        source = (self._checkout / self._suite / path).resolve()
        copy = self.place(path)
        if copy.exists():
            return copy
        if not any(source.glob("*.go")):
            shutil.copytree(source, copy, ignore=_IGNORED)
            _rewrite(copy / "PulumiPlugin.yaml", {})
            # The language host runs a Python plugin with the virtual environment beside it, and no other.
            (copy / "venv").symlink_to(sys.prefix)
            return copy
        copy.mkdir(parents=True)
        executable = f"pulumi-resource-{name}"
        binary = built / source.relative_to(self._checkout.resolve()) / executable
        if not binary.exists():
            _build(source, binary)
        (copy / executable).symlink_to(binary)
        return copy


def _build(source: Path, binary: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise NotHere(f"needs `go` on PATH, to build {source.name}")
    done = subprocess.run(
        [go, "build", "-o", str(binary), "."], cwd=source, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise NotHere(f"{source.name} could not be built: {done.stderr.strip().splitlines()[-1]}")


def _rewrite(file: Path, plugins: Mapping[str, str]) -> None:
    """Leave environments out of a project's or plugin's file, and name the project's plugins in it."""
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    runtime = document.get("runtime")
    if isinstance(runtime, dict):
        options = runtime.get("options") or {}
        runtime["options"] = {k: v for k, v in options.items() if k not in _OF_ENVIRONMENTS}
    if plugins:
        kept = [p for p in (document.get("plugins") or {}).get("providers", []) if p["name"] not in plugins]
        named = [{"name": name, "path": path} for name, path in plugins.items()]
        document["plugins"] = {"providers": [*kept, *named]}
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def _enter_environment(file: Path) -> None:
    """Let the project name the environment ``venv``: types are only checked where one is named."""
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    document["runtime"]["options"]["virtualenv"] = "venv"
    (file.parent / "venv").symlink_to(sys.prefix)
    file.write_text(yaml.safe_dump(document, sort_keys=False))
