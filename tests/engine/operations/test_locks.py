"""One operation at a time on a stack: the second is told who is at work; what is left of the killed is taken over."""

from __future__ import annotations

import getpass
import json
import re
import signal
import socket

import pytest

from .stacks import Stack, at_work, ended


def assert_untouched(stack: Stack, before: dict[str, bytes]) -> None:
    """Nobody changed a file but the operation at work, which may have gone on in its journal."""
    after = stack.files()
    journal = str(stack.journal.relative_to(stack.root))
    assert after.pop(journal).startswith(before.pop(journal))
    assert after == before


def test_the_second_is_told_who_is_at_work(stack: Stack) -> None:
    with at_work(stack) as first:
        before = stack.files()
        for verb in ("up", "refresh", "destroy"):
            second = stack.run(verb)
            assert second.code != 0
            assert "the stack is currently locked by 1 lock(s)" in second.err
            assert (
                f"created by {getpass.getuser()}@{socket.gethostname()} (pid {first.pid}) at 2" in second.err
            )
            assert "delete the lock file with `pulumi cancel`" in second.err
            assert second.has_no_engine_frames()
        assert_untouched(stack, before)
    assert stack.world() == {}


def test_a_preview_beside_an_operation_takes_nothing_from_it(stack: Stack) -> None:
    """A preview needs no lock. It must not take the journal of the operation for one that was left behind."""
    with at_work(stack) as first:
        before = stack.files()
        beside = stack.run("preview")
        assert beside.code == 0, beside.text
        assert_untouched(stack, before)
        first.kill()
        ended(first)
    stack.up()
    stack.check_exact(3)


def test_a_preview_at_the_very_beginning_of_an_operation(stack: Stack) -> None:
    """A journal that holds nothing yet is that of an operation that has just begun, not rubbish."""
    stack.up()
    process = stack.start("up", COUNT="4", FAKE_FAULTS=json.dumps({"check:r0": "hang:600"}))
    try:
        while not stack.journal.exists():
            assert process.poll() is None
        beside = stack.run("preview")
        assert beside.code == 0, beside.text
        assert stack.journal.exists()
    finally:
        process.kill()
        ended(process)


def test_after_kill_the_next_goes_on_with_a_warning(stack: Stack) -> None:
    with at_work(stack) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert stack.locked()
        second = stack.up()
    assert re.search(rf"warning: took over a lock whose process is gone: .*\(pid {first.pid}\)", second.text)
    assert "the last up of this stack was cut off" in second.text
    stack.check_exact(3)


def test_cancel_breaks_the_lock(stack: Stack) -> None:
    with at_work(stack) as first:
        assert stack.run("cancel", "--yes").code == 0
        second = stack.up()
        assert "took over" not in second.text
        stack.check_exact(3)
        after_second = stack.file.read_bytes()
        # The first, whose lock was broken, ends: it must not write over what the second has saved.
        first.send_signal(signal.SIGINT)
        out, err = first.communicate(timeout=60)
        assert first.returncode != 0
        assert "was changed by somebody else" in err
        assert stack.file.read_bytes() == after_second
        (aside,) = [p for p in stack.journal.parent.iterdir() if p.suffix == ".json"]
        assert str(aside) in err
        assert "/tidepool/engine/" not in out + err
    stack.up()
    stack.check_exact(3)


@pytest.mark.parametrize("verb", [["state", "unprotect", "--all"], ["stack", "rename", "new"]])
def test_what_would_part_the_state_from_its_journal_is_refused(stack: Stack, verb: list[str]) -> None:
    stack.up()
    ran = stack.run("up", COUNT="5", FAKE_SIGNAL="create:2:after:KILL")
    assert ran.code == -9
    before = stack.file.read_bytes()
    refused = (
        stack.run(*verb, "--yes", "--stack", "dev")
        if verb[0] == "state"
        else stack.run(*verb, "--stack", "dev")
    )
    assert refused.code != 0
    assert "its last operation was cut off" in refused.err
    assert "Run `refresh` or `up` on it first" in refused.err
    assert stack.file.read_bytes() == before
    stack.up(COUNT="5")
    stack.check_exact(5)
