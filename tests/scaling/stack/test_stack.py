"""The stack through the Automation API, in front of an engine whose answers are given."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import CommandResult
from pulumi.automation.errors import create_command_error
from semver import VersionInfo

from tests.scaling.journal.values import SPEC
from tests.scaling.stack.test_deployment import PLACE, document, machine, node
from tests.scaling.stack.test_outcome import made
from tidepool.cluster.desired_state import DesiredNodes
from tidepool.cluster.hostlist import HostSet
from tidepool.engine.automation import is_operation
from tidepool.engine.errors import EngineError
from tidepool.scaling.ports import NotUp, Occupied, StackError
from tidepool.scaling.stack.operation import Terms, Unattended, clear
from tidepool.scaling.stack.pulumi_stack import PulumiStack, StackLocation
from tidepool.scaling.stack.turn import person_turn, try_turn

FILE, CONFIG = "Pulumi.dev.yaml", "config: {cluster:spec: {name: dev}} # a person's\n"
WISHED = {"cpu": HostSet("cpu-[1-2]")}


class Engine:
    """A warm engine: what it was asked for, and what it answers."""

    command, version = "engine", VersionInfo.parse("3.260.0")

    def __init__(self) -> None:
        self.state: Any = document(machine("cpu-1"), node("cpu-1"))
        self.events: Sequence[Mapping[str, Any]] = ()
        self.code, self.stderr = 0, ""
        self.asked: list[list[str]] = []
        self.env: Mapping[str, str] = {}
        self.meanwhile: Callable[[tuple[int, ...]], object] = lambda _: None
        self.interrupted = threading.Event()
        #: What each operation found in the stack's file that it was told of.
        self.configs: list[str] = []

    def run(
        self,
        args: list[str],
        cwd: str,
        env: Mapping[str, str],
        _on_output: Any = None,
        _on_error: Any = None,
        descriptors: Sequence[int] = (),
    ) -> CommandResult:
        self.asked.append(args)
        return self.operate(args, env, descriptors) if is_operation(args) else self.query()

    def query(self) -> CommandResult:
        return self._answer(json.dumps(self.state))

    def operate(self, args: list[str], env: Mapping[str, str], descriptors: Sequence[int]) -> CommandResult:
        self.env = env
        config = Path(args[args.index("--config-file") + 1])
        self.configs.append(config.read_text())
        config.write_text("encryptionsalt: v1:...")  # as both engines do
        log = Path(args[args.index("--event-log") + 1])
        log.write_text("".join(f"{json.dumps(event)}\n" for event in self.events) + '{"cut off')
        self.meanwhile(tuple(descriptors))
        return self._answer("a preview")

    def interrupt(self) -> None:
        self.interrupted.set()

    def _answer(self, stdout: str) -> CommandResult:
        result = CommandResult(stdout=stdout, stderr=self.stderr, code=self.code)
        if self.code:
            raise create_command_error(result)
        return result


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def stack(engine: Engine, tmp_path: Path) -> PulumiStack:
    checkpoint = tmp_path / "dev.json"
    checkpoint.write_text("{}")
    location = StackLocation(
        "dev",
        "cluster",
        tmp_path,
        tmp_path / "data",
        {"A": "1"},
        checkpoint,
        tmp_path / "locks",
        file=tmp_path / FILE,
    )
    (tmp_path / FILE).write_text(CONFIG)
    return PulumiStack(location, engine, lambda: SPEC)  # type: ignore[arg-type]


def test_it_is_read_once_until_it_changes_and_without_secrets(
    engine: Engine, stack: PulumiStack, tmp_path: Path
) -> None:
    assert stack.read() is stack.read()
    assert engine.asked == [["stack", "export", "--stack", "dev"]]
    (tmp_path / "dev.json").write_text("{ }")
    assert set(stack.read().recorded) == {"cpu-1"}
    assert len(engine.asked) == 2


def test_what_cannot_be_read_is_an_error_and_no_stack_no_cluster(
    engine: Engine, stack: PulumiStack, tmp_path: Path
) -> None:
    engine.code, engine.stderr = 255, "error: the checkpoint is truncated"
    with pytest.raises(StackError, match="truncated") as error:
        stack.read()
    assert not isinstance(error.value, NotUp)
    engine.stderr = "error: no stack named 'dev' found"
    with pytest.raises(NotUp):
        stack.read()
    (tmp_path / "dev.json").unlink()
    with pytest.raises(NotUp):
        stack.read()


def test_an_up_is_of_its_nodes_alone(engine: Engine, stack: PulumiStack) -> None:
    engine.events = made("cpu-2")
    told = stack.up(WISHED, {"cpu-2"})
    assert told.made == {"cpu-2"}
    args = engine.asked[-1]
    assert args[0] == "up"
    targets = [args[at + 1] for at, word in enumerate(args) if word == "--target"]
    kinds = ("tidepool:local:Machine", "tidepool:slurm:Node")
    assert targets == [f"{PLACE}{kind}::cpu-2" for kind in kinds]
    assert "--continue-on-error" in args
    assert "--refresh" not in args
    assert DesiredNodes(WISHED, HostSet("cpu-2")).environment.items() <= engine.env.items()
    assert engine.env["A"] == "1"
    # What was asked of it beside: nothing that shows a secret.
    assert not [word for asked in engine.asked for word in asked if "secret" in word]


def test_what_died_is_looked_at_first(engine: Engine, stack: PulumiStack) -> None:
    stack.up(WISHED, (), refresh={"cpu-1"})
    assert "--refresh" in engine.asked[-1]
    assert len([word for word in engine.asked[-1] if word.endswith("::cpu-1")]) == 2


def test_what_it_was_read_before_an_up_is_read_again(engine: Engine, stack: PulumiStack) -> None:
    before = stack.read()
    stack.up(WISHED, {"cpu-2"})
    assert stack.read() is not before


def test_the_operation_has_the_turn(engine: Engine, stack: PulumiStack, tmp_path: Path) -> None:
    held: list[bool] = []

    def meanwhile(descriptors: tuple[int, ...]) -> None:
        (turn,) = descriptors
        os.fstat(turn)
        held.append(try_turn(tmp_path / "data") is None and stack.is_busy())

    engine.meanwhile = meanwhile
    stack.up(WISHED, {"cpu-2"})
    assert held == [True]
    assert not stack.is_busy()
    # The last file that could be read is kept.
    assert [path.name for path in (tmp_path / "data" / "scaler").iterdir()] == [FILE]


def test_a_persons_operation_is_respected(engine: Engine, stack: PulumiStack, tmp_path: Path) -> None:
    with person_turn(tmp_path / "data", lambda: None):
        assert stack.is_busy()
        with pytest.raises(Occupied):
            stack.up(WISHED, {"cpu-2"})
    assert [args[0] for args in engine.asked] == []
    # Of one with plain `pulumi`, its own lock tells.
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "1.json").write_text("{}")
    assert stack.is_busy()
    engine.code, engine.stderr = 255, "error: the stack is currently locked by 1 lock(s): alice (pid 7)"
    engine.query = lambda: CommandResult(stdout=json.dumps(engine.state), stderr="", code=0)  # type: ignore[method-assign]
    with pytest.raises(Occupied, match="alice"):
        stack.up(WISHED, {"cpu-2"})


def test_a_program_that_fails_is_told(engine: Engine, stack: PulumiStack) -> None:
    stack.read()
    engine.code, engine.stderr = 255, "error: Program exited with code 1"
    with pytest.raises(StackError, match="Program exited"):
        stack.up(WISHED, {"cpu-2"})


def test_an_engine_that_cannot_begin_is_told(engine: Engine, stack: PulumiStack) -> None:
    def meanwhile(_: tuple[int, ...]) -> None:
        raise EngineError("the plugin tidepool does not start")

    engine.meanwhile = meanwhile
    with pytest.raises(StackError, match="does not start"):
        stack.up(WISHED, {"cpu-2"})


def test_a_preview_is_in_pulumis_words(engine: Engine, stack: PulumiStack) -> None:
    assert stack.preview(WISHED, {"cpu-2"}) == "a preview"
    assert engine.asked[-1][0] == "preview"


def test_an_operation_that_takes_too_long_is_interrupted(engine: Engine, tmp_path: Path) -> None:
    engine.meanwhile = lambda _: engine.interrupted.wait(20)
    (tmp_path / FILE).write_text(CONFIG)
    terms = Terms(0.01, tmp_path / "events", config=tmp_path / FILE)
    command = Unattended(engine, terms)  # type: ignore[arg-type]
    command.run(["up"], str(tmp_path), {})
    assert engine.interrupted.is_set()


def test_which_stack_a_person_has_selected_is_theirs(engine: Engine, stack: PulumiStack) -> None:
    stack.up(WISHED, {"cpu-2"})
    assert not [asked for asked in engine.asked if "select" in asked]


def test_what_a_killed_daemon_left_goes_with_the_next_up(
    engine: Engine, stack: PulumiStack, tmp_path: Path
) -> None:
    left = tmp_path / "data" / "scaler" / "operation-killed"
    left.mkdir(parents=True)
    stack.up(WISHED, {"cpu-2"})
    assert not left.exists()


@pytest.mark.parametrize("what", ["up", "preview"])
def test_a_disk_without_room_is_told(engine: Engine, stack: PulumiStack, tmp_path: Path, what: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "scaler").write_text("in the place of the folder, which can so not be made")
    stack.read()
    before = len(engine.asked)
    with pytest.raises(StackError, match="scaler"):
        stack.up(WISHED, {"cpu-2"}) if what == "up" else stack.preview(WISHED, {"cpu-2"})
    assert len(engine.asked) == before


def test_a_preview_that_ends_while_others_are_cleared_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "preview-ending").mkdir()
    found = Path.glob

    def glob(folder: Path, pattern: str) -> list[Path]:
        there = [*found(folder, pattern)]
        for each in there:
            each.rmdir()
        return there

    monkeypatch.setattr(Path, "glob", glob)
    clear(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_what_somebody_previews_is_not_cleared_by_an_up(
    engine: Engine, stack: PulumiStack, tmp_path: Path
) -> None:
    scaler = tmp_path / "data" / "scaler"

    def meanwhile(_: object) -> None:
        engine.meanwhile = lambda _: None
        there = [*scaler.glob("preview-*")]
        assert len(there) == 1
        stack.up(WISHED, {"cpu-2"})
        assert [*scaler.glob("preview-*")] == there

    engine.meanwhile = meanwhile
    stack.preview(WISHED, {"cpu-2"})
    assert [*scaler.glob("preview-*")] == []
    left = scaler / "preview-killed"
    left.mkdir()
    os.utime(left, (0, 0))
    stack.up(WISHED, {"cpu-2"})
    assert not left.exists()


def test_the_stacks_file_is_a_persons_and_left_as_it_is(
    engine: Engine, stack: PulumiStack, tmp_path: Path
) -> None:
    stack.up(WISHED, {"cpu-2"})
    stack.preview(WISHED, {"cpu-2"})
    engine.state["deployment"]["pending_operations"] = [
        {"type": "creating", "resource": machine("cpu-2")},
    ]
    (tmp_path / "dev.json").write_text("{ }")
    stack.up(WISHED, {"cpu-2"})
    operations = [args[0] for args in engine.asked if "--config-file" in args]
    assert operations == ["up", "preview", "refresh", "up"]
    assert engine.configs == [CONFIG] * 4
    assert (tmp_path / FILE).read_text() == CONFIG


@pytest.mark.parametrize("broken", ["config: {", "config: []", "- a", None, "\xff"])
def test_a_file_that_cannot_be_read_holds_up_nothing(
    engine: Engine, stack: PulumiStack, tmp_path: Path, broken: str | None
) -> None:
    file = tmp_path / FILE
    if broken is None:
        file.unlink()
    else:
        file.write_bytes(broken.encode("latin-1"))
    # A daemon that has seen no other has none.
    stack.up(WISHED, {"cpu-2"})
    whole = "config: {cluster:a: whole}\n"
    file.write_text(whole)
    stack.up(WISHED, {"cpu-2"})
    if broken is None:
        file.unlink()
    else:
        file.write_bytes(broken.encode("latin-1"))
    stack.up(WISHED, {"cpu-2"})
    assert engine.configs == ["{}\n", whole, whole]
