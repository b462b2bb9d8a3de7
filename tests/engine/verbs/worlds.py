"""Folders to run command lines in."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidepool.engine.command import main
from tidepool.engine.request import World


@dataclass(frozen=True)
class Answer:
    """What a command line came to."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Folder:
    """A project, a state folder and a home of its own."""

    path: Path

    @property
    def project(self) -> Path:
        """Where ``Pulumi.yaml`` is."""
        return self.path / "project"

    @property
    def env(self) -> dict[str, str]:
        """The environment that points at it."""
        return {
            "HOME": str(self.path),
            "PULUMI_HOME": str(self.path / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.path}/state",
            "PULUMI_CONFIG_PASSPHRASE": "pass",
        }

    def run(self, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Answer:
        """Run a command line in it."""
        stdout, stderr = io.StringIO(), io.StringIO()
        code = main(
            args,
            self.project,
            {**self.env, **(env or {})},
            stdout,
            stderr,
            interactive=False,
            stdin=io.StringIO(stdin),
        )
        return Answer(code, stdout.getvalue(), stderr.getvalue())

    def ok(self, *args: str, stdin: str = "") -> str:
        """Run a command line that must succeed; its stdout."""
        answer = self.run(*args, stdin=stdin)
        assert answer.code == 0, answer.stderr
        return answer.stdout

    def world(self) -> World:
        """The same for functions that take a world."""
        return World(self.project, self.env, io.StringIO(), io.StringIO())


def make_folder(path: Path, project: str = "name: shop\nruntime: python\n") -> Folder:
    """A new folder with a project in it."""
    folder = Folder(path.resolve())
    for name in ("project", "state", "home"):
        (folder.path / name).mkdir()
    (folder.project / "Pulumi.yaml").write_text(project)
    return folder
