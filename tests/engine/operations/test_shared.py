"""Two people on two machines, whose one stack is in a shared place: S3 and PostgreSQL, real ones."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.shared import SHARED, Place

from .stacks import MANY, Ran, Stack, at_work, await_line, ended

pytestmark = pytest.mark.slow


class Person(Stack):
    """Somebody with a home and a copy of the project of their own. Both reach the same machines."""

    place: Place

    def check(self, count: int) -> None:
        """The state, the world and the program of :data:`MANY` are one."""
        backend = self.place.backend()
        (ref,) = backend.references()
        resources = backend.export(ref)["deployment"]["resources"]
        real = {r["id"]: r for r in resources if r["type"].startswith("fake:")}
        assert sorted(real) == sorted(self.world())
        assert sorted(t["name"] for t in self.world().values()) == sorted(f"r{i}" for i in range(count))
        assert backend.bucket.names(backend.layout.locks(ref)) == []
        assert backend.journal(ref).read() is None


@pytest.fixture(params=SHARED)
def people(
    request: pytest.FixtureRequest, make_stack: Callable[..., Stack], tmp_path: Path
) -> tuple[Person, Person]:
    """Two people; the stack is made, and is in what both see."""
    place: Place = request.getfixturevalue(f"in_{request.param}")
    made: list[Person] = []
    for name in ("ada", "ben"):
        template = make_stack(root=tmp_path / "template" / name)
        shutil.copytree(template.root / "project", tmp_path / name / "project")
        shutil.copytree(template.root / "home", tmp_path / name / "home")
        env = {**place.environment, "FAKE_WORLD": str(tmp_path / "world"), "USER": name, "LOGNAME": name}
        person = Person(tmp_path / name, env)
        person.world_folder = tmp_path / "world"
        person.place = place
        person.make(MANY)
        made.append(person)
    ada, ben = made
    ran = ada.run("stack", "init", "dev")
    assert ran.code == 0, ran.text
    # As with a stack whose file they share by git.
    shutil.copy(ada.project / "Pulumi.dev.yaml", ben.project / "Pulumi.dev.yaml")
    return ada, ben


#: On a machine of another name, where no process of this one is seen.
ELSEWHERE = (
    "unshare",
    "--pid",
    "--fork",
    "--mount-proc",
    "--uts",
    "sh",
    "-c",
    'hostname other; exec "$@"',
    "-",
)


def elsewhere(person: Person, *args: str, **env: str) -> Ran:
    """A command of theirs, on another machine."""
    person.by = ELSEWHERE
    try:
        return person.run(*args, **env)
    finally:
        person.by = ()


def test_one_goes_on_where_the_other_stopped(people: tuple[Person, Person]) -> None:
    ada, ben = people
    ada.up(COUNT="3")
    ran = ben.run("up", "--expect-no-changes", COUNT="3")
    assert ran.code == 0, ran.text
    ben.up(COUNT="5")
    ben.check(5)
    history = json.loads(ada.run("stack", "history", "--stack", "dev", "--json").out)
    assert [each["resourceChanges"].get("create") for each in history] == [2, None, 4]
    assert "dev" in ada.run("stack", "ls").out
    ran = ada.run("destroy", "--yes", "--remove")
    assert ran.code == 0, ran.text
    assert ben.run("stack", "ls", "--json").out.strip() == "[]"


def test_one_changes_it_at_a_time_and_the_other_looks(people: tuple[Person, Person]) -> None:
    ada, ben = people
    ada.up(COUNT="2")
    with at_work(ada, "r2", 3) as process:
        for verb in ("up", "refresh", "destroy"):
            refused = elsewhere(ben, verb)
            assert refused.code != 0
            assert "the stack is currently locked by 1 lock(s)" in refused.err
            assert f"created by ada@{socket.gethostname()} (pid {process.pid}) at 2" in refused.err
            assert (
                f"{ben.place.bucket().location(Path('.pulumi/locks/organization/ops/dev'))}/" in refused.err
            )
            assert refused.has_no_engine_frames()
        looked = ben.run("preview", COUNT="2")
        assert looked.code == 0, looked.text
        assert ben.run("stack", "output", "--stack", "dev").code == 0
    assert len(ada.world()) == 2


def test_what_the_one_made_before_the_machine_was_gone_the_other_takes_up(
    people: tuple[Person, Person],
) -> None:
    ada, ben = people
    ada.up(COUNT="2")
    killed = ada.run("up", COUNT="9", FAKE_SIGNAL="create:3:after:KILL")
    assert killed.code == -9, killed.text
    made = len(ada.world())
    assert made > 2
    # Of a machine that is not this one nobody knows whether it lives.
    refused = elsewhere(ben, "up", COUNT="9")
    assert "the stack is currently locked" in refused.err
    cancelled = elsewhere(ben, "cancel", "--yes")
    assert cancelled.code == 0, cancelled.text
    ran = elsewhere(ben, "up", COUNT="9")
    assert ran.code == 0, ran.text
    assert "was cut off" in ran.text
    assert "records of its journal were recovered" in ran.text
    ben.check(9)


def test_a_lock_that_was_broken_under_an_operation_is_told_by_it(people: tuple[Person, Person]) -> None:
    ada, ben = people
    with at_work(ada, "r2", 3) as process:
        cancelled = elsewhere(ben, "cancel", "--yes")
        assert cancelled.code == 0, cancelled.text
        went_on = elsewhere(ben, "up", COUNT="1")
        assert went_on.code == 0, went_on.text
        process.send_signal(signal.SIGINT)
        await_line(process, process.stdout, "Interrupt again to end at once")
        process.send_signal(signal.SIGINT)
        ran = ended(process)
    assert ran.code != 0
    assert "was changed by somebody else while this operation was at work" in ran.text
    assert "so it was not overwritten. What this operation came to is in" in ran.text


def test_a_server_that_goes_while_an_operation_is_under_way_loses_nothing(
    people: tuple[Person, Person],
) -> None:
    ada, ben = people
    place = ada.place
    assert place.stop is not None
    assert place.start is not None
    process = ada.start("up", COUNT="3", FAKE_FAULTS=json.dumps({"create:r2": "hang:5"}))
    await_line(process, process.stdout, "r2 creating")
    place.stop()
    try:
        ran = ended(process)
    finally:
        place.start()
    assert ran.code != 0
    assert "cannot be" in ran.text
    assert "see whether the server runs" in ran.text
    assert "pulumi cancel" in ran.text
    assert ran.has_no_engine_frames()
    again = ben.run("up", COUNT="3")
    assert again.code == 0, again.text
    assert "took over a lock whose process is gone" in again.text  # on this machine that is seen
    ben.check(3)
