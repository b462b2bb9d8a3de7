"""Operations forked from a warm process are what operations of a process of their own are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pulumi import automation

from tests.engine.operations.stacks import Stack, await_line
from tidepool.engine.warm import WarmPulumiCommand, warm_command

from .conftest import opened, warm_environment

TELLING = """
import os, sys
import pulumi
from fake_sdk import Item

print("said by the program")
pulumi.export("pid", os.getpid())
pulumi.export("parent", os.getppid())
pulumi.export("folder", os.getcwd())
pulumi.export("first on the path", sys.path[0])
pulumi.export("has the root on the path", "/" in sys.path)
pulumi.export("colour", os.environ.get("COLOUR", ""))
pulumi.export("ahead", "colorsys" in sys.modules)
pulumi.export("left", getattr(pulumi, "left_behind", ""))
pulumi.left_behind = "by an operation"
pulumi.export("secret", pulumi.Output.secret("hidden"))
Item("a", value=1)
"""


def outputs(up: automation.UpResult) -> dict[str, object]:
    return {name: output.value for name, output in up.outputs.items()}


def test_each_is_a_process_of_its_own(stack: Stack, command: WarmPulumiCommand) -> None:
    stack.write(TELLING)
    lines: list[str] = []
    events: list[automation.EngineEvent] = []
    blue = opened(stack, command, COLOUR="blue").up(on_output=lines.append, on_event=events.append)
    none = opened(stack, command).up()
    first, second = outputs(blue), outputs(none)
    assert (first["colour"], second["colour"]) == ("blue", "")
    assert first["folder"] == second["folder"] == str(stack.project)
    assert first["first on the path"] == str(stack.project)
    assert first["has the root on the path"] is False
    assert first["left"] == second["left"] == ""
    # Of one parent, which is neither of us.
    assert len({first["pid"], second["pid"], first["parent"], os.getpid()}) == 4
    assert first["parent"] == second["parent"]
    assert blue.outputs["secret"].secret
    assert any("said by the program" in line for line in lines)
    assert blue.stdout == "\n".join(lines)
    assert sum(event.summary_event is not None for event in events) == 1
    assert (blue.summary.resource_changes, none.summary.resource_changes) == ({"create": 2}, {"same": 2})
    assert not stack.locked()


def test_an_inline_program(stack: Stack, command: WarmPulumiCommand) -> None:
    def program() -> None:
        automation_s_own = os.getpid()
        import pulumi

        pulumi.export("pid", automation_s_own)

    inline = automation.select_stack(
        "dev",
        project_name="ops",
        program=program,
        opts=automation.LocalWorkspaceOptions(
            pulumi_command=command, env_vars=stack.env, work_dir=str(stack.project)
        ),
    )
    assert outputs(inline.up()) == {"pid": os.getpid()}


def test_failures_are_told_as_ever(stack: Stack, command: WarmPulumiCommand) -> None:
    with pytest.raises(automation.CommandError, match="create of r1 failed"):
        opened(stack, command, FAKE_FAULTS=json.dumps({"create:r1": "fail"})).up()
    stack.write("raise ValueError('it cannot be')")
    with pytest.raises(automation.errors.RuntimeError, match="it cannot be"):
        opened(stack, command).up()
    with pytest.raises(automation.CommandError, match="policy"):
        opened(stack, command).up(policy_packs=["here"])


@pytest.mark.parametrize("who", ["another thread", "whoever waits"])
def test_interrupts_reach_what_is_under_way(stack: Stack, command: WarmPulumiCommand, who: str) -> None:
    command.interrupt()  # nothing is, and that is no error
    interrupt = command.interrupt if who == "another thread" else _interrupt_main_thread
    expected = automation.CommandError if who == "another thread" else KeyboardInterrupt
    calls = stack.root / "calls"

    def hear(line: str) -> None:
        if line.strip().endswith("r1 creating (0s)"):
            until(
                lambda: any('"Create"' in call and '::r1"' in call for call in calls.read_text().splitlines())
            )
            interrupt()
        if "Interrupt again to end at once" in line:
            interrupt()

    with pytest.raises(expected):
        opened(stack, command, FAKE_FAULTS=json.dumps({"create:r1": "deaf:600"}), FAKE_LOG=str(calls)).up(
            on_output=hear
        )
    assert ("r1", "creating") in stack.pending()
    assert not stack.locked()
    opened(stack, command).up()
    stack.check_exact(3)


def test_one_that_is_killed_is_an_error_and_is_mended(stack: Stack, command: WarmPulumiCommand) -> None:
    with pytest.raises(automation.CommandError) as caught:
        opened(stack, command, FAKE_SIGNAL="create:2:after:KILL").up()
    assert "code: 137" in str(caught.value)
    opened(stack, command).up()
    stack.check_exact(3)


def test_a_key_is_derived_once(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(
        "import os\n"
        "from cryptography.hazmat.primitives.kdf import pbkdf2\n"
        "derivation = pbkdf2.PBKDF2HMAC\n"
        "def counted(*of):\n"
        "    with open(os.environ['DERIVED'], 'a') as file: file.write('x')\n"
        "    return derivation(*of)\n"
        "pbkdf2.PBKDF2HMAC = counted\n"
    )
    derived = tmp_path / "derived"
    derived.touch()
    env = {**warm_environment(stack), "PYTHONPATH": f"{tmp_path}{os.pathsep}{stack.env['PYTHONPATH']}"}
    env["DERIVED"] = str(derived)
    with warm_command(env, folder=stack.project, modules=["counting"]) as command:
        for count in "123":
            opened(stack, command, **env, COUNT=count).up()
    assert derived.read_text() == "x"


def test_what_changes_on_the_disk_is_imported_anew(stack: Stack, tmp_path: Path) -> None:
    module = tmp_path / "module_of_ours.py"
    module.write_text("WORD = 'old'\n")
    stack.write("import pulumi, module_of_ours\npulumi.export('word', module_of_ours.WORD)\n")
    env = {**warm_environment(stack), "PYTHONPATH": f"{tmp_path}{os.pathsep}{stack.env['PYTHONPATH']}"}
    with warm_command(env, folder=stack.project, modules=["module_of_ours"], watched=[tmp_path]) as command:
        assert outputs(opened(stack, command, **env).up()) == {"word": "old"}
        module.write_text("WORD = 'as it is now'\n")
        assert outputs(opened(stack, command, **env).up()) == {"word": "as it is now"}


def test_a_warm_process_that_dies_is_started_again(stack: Stack) -> None:
    stack.write(TELLING)
    with warm_command(warm_environment(stack), folder=stack.project, modules=["colorsys"]) as command:
        first = outputs(opened(stack, command).up())
        os.kill(int(str(first["parent"])), signal.SIGKILL)
        second = outputs(opened(stack, command).up())
    assert first["ahead"] is second["ahead"] is True
    assert second["parent"] not in (first["parent"], os.getpid())


def test_without_a_warm_process_it_is_slower_and_as_good(stack: Stack) -> None:
    stack.write(TELLING)
    env = warm_environment(stack)
    with warm_command(env, folder=stack.project, modules=["there_is_no_such_module"]) as command:
        told = outputs(opened(stack, command).up())
    assert told["parent"] == os.getpid()


def _interrupt_main_thread() -> None:
    """As Ctrl-C does."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


OWNER = """
import json, os, sys
from pathlib import Path
from tests.engine.warm.conftest import opened, warm_environment
from tests.engine.operations.stacks import Stack
from tidepool.engine.warm import warm_command

stack = Stack(Path(sys.argv[1]))
with warm_command(warm_environment(stack), folder=stack.project, plugins=["fake"]) as command:
    opened(stack, command).up(on_output=lambda line: print(line, flush=True))
"""


def test_an_owner_that_is_killed_leaves_nothing_but_the_operation_which_comes_to_its_end(
    stack: Stack,
) -> None:
    stack.write(
        "import os, pulumi\nfrom fake_sdk import Item\n"
        "first = Item('r0', value=0)\nfirst.id.apply(lambda _: open(os.environ['GATE']).read())\n"
        "Item('r1', value=1, size=first.serial)\npulumi.export('parent', os.getppid())\n"
    )
    gate = stack.root / "gate"
    os.mkfifo(gate)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(stack.root)],
        env={**stack.env, "GATE": str(gate)},
        stdout=subprocess.PIPE,
        text=True,
    )
    await_line(owner, owner.stdout, "r0 created")
    children = _descendants(owner.pid)
    owner.kill()
    owner.communicate()
    with gate.open("w") as opened_gate:
        opened_gate.write("go on")
    for child in children:
        _await_end(child)
    stack.write("from fake_sdk import Item\nItem('r0', value=0)\nItem('r1', value=1, size=1)\n")
    assert sorted(stack.states()) == sorted(stack.world()) == ["r0-1", "r1-1"]
    assert not stack.locked()
    assert not stack.journal.exists()


def _descendants(pid: int) -> list[int]:
    """File descriptors of all processes below ``pid``."""
    found = []
    below = [pid]
    while below:
        parent = below.pop()
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text().split():
                below.append(int(child))
                found.append(os.pidfd_open(int(child)))
    return found


def _await_end(process: int) -> None:
    import select

    try:
        ended, _, _ = select.select([process], [], [], 30)
        assert ended, "a process is left behind"
    finally:
        os.close(process)
