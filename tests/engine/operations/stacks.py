"""A stack in folders of its own, with a program of fake resources, and the engine run on it as people do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from tests.forking import fork_server

_CHECKOUT: Final = Path(__file__).parents[3]
_PLUGINS: Final = _CHECKOUT / "tests" / "engine" / "plugins"
_DEADLINE_S: Final = 60
PASSPHRASE: Final = "correct horse"

#: A program of so many resources as ``$COUNT`` says: ``r0`` to ``rN``. The SDK registers them in any order.
MANY: Final = """
import os
from fake_sdk import Item
for i in range(int(os.environ.get("COUNT", "3"))):
    Item(f"r{i}", value=i)
"""

#: As many, each of which waits for the one before it.
CHAIN: Final = """
import os
from fake_sdk import Item
before = None
for i in range(int(os.environ.get("COUNT", "3"))):
    before = Item(f"r{i}", value=i, size=before.serial if before else 0)
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that a person saw."""
        return self.out + self.err

    def has_no_engine_frames(self) -> bool:
        """Whether no traceback of ours is in what a person saw."""
        return "/tidepool/engine/" not in self.text and "asyncio" not in self.text


@dataclass
class Stack:
    """The stack ``dev`` of the project ``ops``, below ``root``."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    #: What commands are run by.
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.project = self.root / "project"
        self.backend = self.root / "backend"
        self.world_folder = self.root / "world"
        below = self.backend / ".pulumi"
        self.file = below / "stacks" / "ops" / "dev.json"
        self.journal = below / "journals" / "ops" / "dev.journal"
        self.locks = below / "locks" / "organization" / "ops" / "dev"
        self.history = below / "history" / "ops" / "dev"
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("PULUMI_", "FAKE_")) and k != "PYTHONPATH"
        }
        self.env = env | {
            # The person's Python is this one; the engine is found as an installed package would be.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join([str(_CHECKOUT), str(_PLUGINS)]),
            "PULUMI_HOME": str(self.root / "home"),
            "PULUMI_BACKEND_URL": self.backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PYTHONFAULTHANDLER": "1",
            "FAKE_WORLD": str(self.world_folder),
            "FAKE_IDEMPOTENT": "1",
            **self.env,
        }

    def make(self, program: str = MANY) -> Stack:
        """Make the folders and the program."""
        for folder in (self.project, self.backend, self.world_folder, self.root / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        (self.project / "Pulumi.yaml").write_text(
            f"name: ops\nruntime: python\nplugins:\n  providers:\n    - name: fake\n      path: {_PLUGINS}/fake\n"
        )
        self.write(program)
        return self

    def write(self, program: str) -> None:
        """Replace the program."""
        (self.project / "__main__.py").write_text(program)

    # -- running ---------------------------------------------------------------------------------------

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """Start a command line in the project's folder. ``env`` is added to the environment."""
        return self.start_script(("-m", "tidepool.engine"), *args, **env)

    def start_script(self, script: tuple[str, ...], *args: str, **env: str) -> subprocess.Popen[str]:
        """As :meth:`start`, but for the words that start the engine."""
        return subprocess.Popen(
            [*self.by, sys.executable, *script, *_words(args)],
            cwd=self.project,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, **env: str) -> Ran:
        """Run a command line to its end."""
        if self.by:
            return ended(self.start(*args, **env))
        words = ["-m", "tidepool.engine", *_words(args)]
        done = fork_server().run(words, self.project, {**self.env, **env}, timeout_s=_DEADLINE_S)
        return Ran(done.returncode, done.stdout, done.stderr)

    def up(self, **env: str) -> Ran:
        """``up``, which is to succeed."""
        ran = self.run("up", **env)
        assert ran.code == 0, ran.text
        return ran

    # -- looking ---------------------------------------------------------------------------------------

    def deployment(self) -> dict[str, Any]:
        """The deployment in the stack's file."""
        latest: dict[str, Any] = json.loads(self.file.read_bytes())["checkpoint"].get("latest", {})
        return latest

    def states(self) -> dict[str, dict[str, Any]]:
        """What the state has of the fake provider, by id."""
        resources = self.deployment().get("resources", [])
        real = [r for r in resources if r["type"].startswith("fake:")]
        assert len({r["id"] for r in real}) == len(real), "a resource is twice in the state"
        return {r["id"]: r for r in real}

    def pending(self) -> list[tuple[str, str]]:
        """What is pending: the names of resources, and what was being done to them."""
        operations = self.deployment().get("pending_operations") or []
        return [(op["resource"]["urn"].rpartition("::")[2], op["type"]) for op in operations]

    def world(self) -> dict[str, dict[str, Any]]:
        """What the fake provider has, by id."""
        return world_in(self.world_folder)

    def lose(self, id: str) -> None:
        """Let something be gone from outside."""
        with (self.world_folder / "world.jsonl").open("a") as file:
            file.write(json.dumps({"op": "delete", "id": id}) + "\n")

    def effects(self) -> int:
        """How many effects the fake provider ever had."""
        return len(_lines(self.world_folder))

    def locked(self) -> bool:
        """Whether somebody left a lock."""
        return self.locks.is_dir() and any(p.suffix == ".json" for p in self.locks.iterdir())

    def check_exact(self, count: int) -> None:
        """The state, the world and the program of :data:`MANY` are one: none twice, none forgotten."""
        world, states = self.world(), self.states()
        assert sorted(world) == sorted(states)
        assert sorted(t["name"] for t in world.values()) == sorted(f"r{i}" for i in range(count))
        assert all(states[id]["inputs"]["value"] == t["props"]["value"] for id, t in world.items())
        assert not self.locked()
        assert not self.journal.exists()

    def files(self) -> dict[str, bytes]:
        """All files of backend and project, by path."""
        roots = (self.backend, self.project)
        found = [p for root in roots for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        return {str(p.relative_to(self.root)): p.read_bytes() for p in found}


def _words(args: Sequence[str]) -> list[str]:
    """A command line with what each would need besides."""
    words = [*args]
    if args and args[0] in ("up", "refresh", "destroy"):
        words += ["--yes"] if "--yes" in args else ["--yes", "--skip-preview"]
    if args and args[0] in ("up", "preview", "refresh", "destroy", "cancel"):
        words += ["--stack", "dev"]
    return words


def world_in(folder: Path) -> dict[str, dict[str, Any]]:
    """What exists in the world in ``folder``, by id."""
    found: dict[str, dict[str, Any]] = {}
    for line in _lines(folder):
        effect = json.loads(line)
        match effect.pop("op"):
            case "create":
                found[effect["id"]] = effect
            case "update":
                found[effect["id"]] |= {"props": effect["props"]}
            case "delete":
                del found[effect["id"]]
    return found


def _lines(folder: Path) -> list[bytes]:
    try:
        return (folder / "world.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []


def ended(process: subprocess.Popen[str]) -> Ran:
    """What a command came to; one that does not end is killed, and fails the test."""
    try:
        out, err = process.communicate(timeout=_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{process.args!r} did not end:\n{out}{err}") from None
    return Ran(process.returncode, out, err)


def await_line(process: subprocess.Popen[str], stream: IO[str] | None, wanted: str) -> None:
    """Wait until a line of ``stream`` holds ``wanted``; fails where the process ends before, or takes too long."""
    assert stream is not None
    late = threading.Timer(_DEADLINE_S, process.kill)
    late.start()
    seen: list[str] = []
    try:
        for line in stream:
            seen.append(line)
            if wanted in line:
                return
    finally:
        late.cancel()
    raise AssertionError(f"{wanted!r} never came: {''.join(seen)}{ended(process).text}")


@contextmanager
def at_work(stack: Stack, name: str = "r0", count: int = 1) -> Iterator[subprocess.Popen[str]]:
    """An ``up`` that is in the middle of the create of ``name``, and stays there."""
    process = stack.start("up", COUNT=str(count), FAKE_FAULTS=json.dumps({f"create:{name}": "hang:600"}))
    await_line(process, process.stdout, f"{name} creating")
    try:
        yield process
    finally:
        process.kill()
        ended(process)
