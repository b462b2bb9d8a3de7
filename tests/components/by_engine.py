"""A cluster of components on this machine: the repository's own program, run by the embedded engine."""

from __future__ import annotations

import shutil

from tests.forking import fork_server
from tests.whole.cluster import LONG_S, Cluster
from tidepool.infrastructures.local.kernel import list_machines


class ByEngine(Cluster):
    """As `tests.whole` has it, without the command `tidepool` between."""

    def write_spec(self) -> None:
        # Without the command, the engine keeps the salt of the stack's secrets in the file.
        kept = self.file.read_text().splitlines() if self.file.exists() else []
        super().write_spec()
        salt = [line for line in kept if line.startswith("encryptionsalt:")]
        self.file.write_text("\n".join([*salt, self.file.read_text()]))

    def engine(self, verb: str, *arguments: str, timeout_s: float = LONG_S) -> str:
        """An operation on the stack, which must succeed; gives what it said."""
        state = self.data / "state"
        state.mkdir(parents=True, exist_ok=True)
        env = {
            **self.environment,
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE": "of a test",
            "PULUMI_HOME": str(self.folder.parent / "home"),
        }
        words = ["-m", "tidepool.engine", *verb.split(), "--stack", self.stack, *arguments]
        done = fork_server().run(words, self.folder, env, timeout_s=timeout_s)
        assert done.returncode == 0, f"{verb}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def machines(self) -> set[str]:
        """The names of those that run."""
        there = list_machines(self.data, self.stack)
        return {machine.name for machine in there if machine.state == "running"}

    def up(self, *more: str, timeout_s: float = LONG_S) -> str:
        self.write_spec()
        return self.engine("up", "--yes", "--skip-preview", *more, timeout_s=timeout_s)

    def down(self, timeout_s: float = LONG_S) -> None:
        self.engine("destroy", "--yes", "--skip-preview", timeout_s=timeout_s)
        # What is kept on purpose, and what belongs to no stack.
        shutil.rmtree(self.data)
