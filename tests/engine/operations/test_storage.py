"""Damaged states, foreign writers and full disks: refused or told by name, and nothing is lost."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .recovered import check_nothing_forgotten, recovered
from .stacks import CHAIN, MANY, Ran, Stack

pytestmark = pytest.mark.slow

KILL = "create:2:after:KILL"

#: Fills the disk when all resources are there.
FILLING = (
    MANY
    + """
import pulumi, sys
sys.path.insert(0, os.environ["FAULTS"])
from faults import fill
from pathlib import Path
def full(_):
    spare = Path(os.environ["BALLAST"] + "-spare")
    spare.write_bytes(b"x" * 4096)
    fill(Path(os.environ["BALLAST"]))
    spare.unlink()
from fake_sdk import Item
pulumi.Output.all(*(r.id for r in made)).apply(full)
"""
)


def refused(stack: Stack, *args: str) -> Ran:
    """A command that is refused without anything being changed."""
    before, effects = stack.files(), stack.effects()
    ran = stack.run(*(args or ("up",)))
    assert ran.code != 0
    assert ran.has_no_engine_frames()
    assert stack.files() == before
    assert stack.effects() == effects
    return ran


def test_a_damaged_state_is_refused_and_its_backup_named(stack: Stack) -> None:
    stack.up(COUNT="2")
    stack.up(COUNT="3")
    whole = stack.file.read_bytes()
    stack.file.write_bytes(whole[: len(whole) // 2])
    for verb in ("up", "refresh", "destroy", "preview"):
        ran = refused(stack, verb)
        assert f"the state of stack 'dev' is damaged, nothing was changed: {stack.file}" in ran.err
        assert "The newest usable backup is" in ran.err
    # The way back, as it was told.
    told = re.findall(r"^  python -m tidepool.engine (.*)$", ran.err, re.MULTILINE)
    assert len(told) == 2
    backup = Path(shlex.split(told[0])[-1])
    assert backup.read_bytes() == whole
    assert stack.run(*shlex.split(told[0])).code == 0
    assert stack.run("refresh").code == 0
    stack.up(COUNT="3")
    stack.check_exact(3)


def test_a_state_that_contradicts_itself_is_refused(stack: Stack) -> None:
    stack.up()
    whole = stack.file.read_bytes()
    document = json.loads(stack.file.read_bytes())
    document["checkpoint"]["latest"]["resources"][-1]["dependencies"] = [
        "urn:pulumi:dev::ops::fake:index:Item::lost"
    ]
    stack.file.write_text(json.dumps(document))
    ran = refused(stack)
    assert "its dependency urn:pulumi:dev::ops::fake:index:Item::lost is missing" in ran.err
    assert str(stack.file) in ran.err
    # Who wrote it kept a copy of it as well: the newest backup that is whole is the one before.
    backups = stack.backend / ".pulumi" / "backups" / "ops" / "dev"
    (backups / "dev.9999999999999999999.json").write_bytes(stack.file.read_bytes())
    ran = refused(stack)
    told = re.findall(r"^  python -m tidepool.engine (.*)$", ran.err, re.MULTILINE)
    assert Path(shlex.split(told[0])[-1]).read_bytes() == whole
    for line in told:
        assert stack.run(*shlex.split(line), *(["--yes"] if line.startswith("refresh") else [])).code == 0
    stack.check_exact(3)


@pytest.mark.parametrize("left", [b"", b"\0" * 4096, b"null", b'{"version": 3', b'{"version": 3}'])
def test_a_file_that_was_cut_off_is_refused_and_its_backup_named(stack: Stack, left: bytes) -> None:
    """As a power failure leaves what the CLI wrote, which does not wait for the disk."""
    stack.up(COUNT="2")
    whole = stack.file.read_bytes()
    stack.file.write_bytes(left)
    ran = refused(stack, "refresh")
    (backup,) = re.findall(r"The newest usable backup is (\S+) ", ran.err)
    assert Path(backup).read_bytes() == whole


def test_a_damaged_journal_is_refused(stack: Stack) -> None:
    stack.up()
    assert stack.run("up", COUNT="6", FAKE_SIGNAL=KILL).code == -9
    lines = stack.journal.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:40] + b"\n"
    stack.journal.write_bytes(b"".join(lines))
    # Breaking the dead lock is no change.
    assert stack.run("cancel", "--yes").code == 0
    ran = refused(stack)
    assert f"the journal {stack.journal} of an interrupted operation is damaged" in ran.err
    assert "Move it away and run a refresh" in ran.err


def test_a_state_that_somebody_else_changed_meanwhile_is_refused(stack: Stack) -> None:
    stack.up(COUNT="1")
    assert stack.run("up", COUNT="6", FAKE_SIGNAL=KILL).code == -9
    # What the Pulumi CLI would do, which knows no journals.
    shutil.rmtree(stack.backend / ".pulumi" / "locks")
    exported = json.loads(stack.run("stack", "export", "--stack", "dev").out)
    exported["deployment"]["manifest"]["time"] = "2020-02-02T02:02:02Z"
    (stack.root / "state.json").write_text(json.dumps(exported))
    assert stack.run("stack", "import", "--stack", "dev", "--file", str(stack.root / "state.json")).code == 0
    for verb in ("up", "preview"):
        ran = refused(stack, verb)
        assert "its state was changed by something else since" in ran.err
        assert f"records of what it did are in {stack.journal}" in ran.err
        assert "move the journal away to go on" in ran.err
    stack.journal.rename(stack.root / "journal")
    stack.up(COUNT="6")
    stack.check_exact(6)


# -- full disks ----------------------------------------------------------------------------------------


@pytest.fixture
def on_small_disk(tmp_path: Path, make_stack: Callable[..., Stack]) -> Iterator[Stack]:
    """A stack whose backend lies on a file system of its own, of two MiB; the world lies elsewhere."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    stack = make_stack()
    stack.backend.rename(tmp_path / "moved")
    subprocess.run(["cp", "-r", f"{tmp_path}/moved/.", disk], check=True)
    stack.backend.symlink_to(disk)
    ballast = disk / "ballast"
    stack.env |= {"BALLAST": str(ballast), "FAULTS": str(Path(__file__).parents[1] / "plugins" / "fake")}
    yield stack
    subprocess.run(["umount", str(disk)], check=True)


def make_room(stack: Stack) -> None:
    Path(stack.env["BALLAST"]).unlink()


def check_told(ran: Ran, stack: Stack) -> None:
    assert ran.code != 0
    assert ran.has_no_engine_frames()
    assert "No space left on device" in ran.text


@pytest.mark.parametrize("parallel", ["1", "8"])
def test_a_disk_that_fills_while_journaling(on_small_disk: Stack, parallel: str) -> None:
    stack = on_small_disk
    stack.write(CHAIN)
    faults = json.dumps({"create:r2": f"fill:{stack.env['BALLAST']}"})
    ran = stack.run("up", "--parallel", parallel, COUNT="20", FAKE_FAULTS=faults)
    check_told(ran, stack)
    assert f"cannot write the journal {stack.journal}" in ran.text.replace(
        str(stack.backend.resolve()), str(stack.backend)
    )
    # Not a step was begun that the journal does not know.
    check_nothing_forgotten(recovered(stack.backend), stack.world())
    # The last page of the file may still take some.
    assert 3 <= len(stack.world()) < 20
    assert not stack.locked()
    make_room(stack)
    again = stack.up(COUNT="20")
    assert "the last up of this stack was cut off" in again.text
    stack.check_exact(20)


def test_a_disk_that_fills_before_saving(on_small_disk: Stack) -> None:
    stack = on_small_disk
    stack.up(COUNT="4")
    before = stack.file.read_bytes()
    stack.write(
        FILLING.replace('    Item(f"r{i}"', '    made.append(Item(f"r{i}"')
        .replace("value=i)", "value=i))")
        .replace("for i", "made = []\nfor i")
    )
    ran = stack.run("up", COUNT="8")
    check_told(ran, stack)
    assert str(stack.file.name) in ran.text
    assert stack.file.read_bytes() == before
    assert len(stack.world()) == 8
    assert not stack.locked()
    make_room(stack)
    stack.write(MANY)
    again = stack.up(COUNT="8")
    assert "the last up of this stack was cut off" in again.text
    assert "8 unchanged" in again.text or "9 unchanged" in again.text
    stack.check_exact(8)


def test_a_disk_that_is_full_from_the_beginning(on_small_disk: Stack) -> None:
    stack = on_small_disk
    stack.up(COUNT="2")
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={stack.env['BALLAST']}", "bs=4096"], check=False, capture_output=True
    )
    before = stack.file.read_bytes()
    ran = stack.run("up", COUNT="6")
    check_told(ran, stack)
    assert stack.file.read_bytes() == before
    assert len(stack.world()) == 2
    make_room(stack)
    stack.up(COUNT="6")
    stack.check_exact(6)
