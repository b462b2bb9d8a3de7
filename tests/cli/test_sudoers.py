"""Sudo's rules and the operators' program, without sudo: what is written, and what is refused before anything is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest

from tests.cli.standins import Person
from tidepool.cli.main import VERBS, cli
from tidepool.cli.operator import ALLOWED, operator
from tidepool.cli.sudoers import RULES, SCRIPT, sudo_rules


def test_rules_are_such_as_visudo_takes(tmp_path: Path) -> None:
    for nopasswd in (False, True):
        rules = tmp_path / "rules"
        rules.write_text(sudo_rules(Path("/opt/x/bin/tidepool"), "ada", "ben", nopasswd=nopasswd))
        subprocess.run(
            ["/usr/sbin/visudo", "--check", "--strict", "--file", rules], check=True, capture_output=True
        )
        assert ("NOPASSWD" in rules.read_text()) is nopasswd


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_written(somebody: Person) -> None:
    env = {**somebody.context.env, "TIDEPOOL_JOURNAL": "postgresql://me:hunter2@db/x"}
    somebody.folder.chmod(0o777)
    before = [path.exists() for path in (RULES, SCRIPT)]
    said = somebody.runs("sudoers", "--admins", "Ada!", "--operators", "no-such-group", env=env)
    assert said.exit_code == 2
    for words in (
        "'Ada!' is no name of a group",
        "there is no group no-such-group; make it: groupadd --system no-such-group",
        "TIDEPOOL_JOURNAL has a password in it",
        f"{somebody.folder} may be written by others than root",
    ):
        assert words in said.output + said.stderr
    assert "hunter2" not in said.output + said.stderr
    assert [path.exists() for path in (RULES, SCRIPT)] == before


def test_what_would_be_written_can_be_seen(somebody: Person) -> None:
    said = somebody.runs("sudoers", "--print")
    assert said.exit_code == 0
    assert "%tidepool-operators ALL = (root) NOSETENV: TIDEPOOL_OPERATOR" in said.output
    assert f"main('{somebody.folder}'" in said.output


@pytest.mark.parametrize("name", ALLOWED)
def test_what_operators_may_is_there_and_names_no_file(name: str) -> None:
    command: click.Command | None = cli
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    options = {option: each for each in command.params for option in each.opts}
    assert ALLOWED[name] - {"--help"} <= options.keys()
    allowed = [options[option] for option in ALLOWED[name] if option in options]
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    assert not any(isinstance(each.type, click.Path | click.File) for each in (*allowed, *arguments))


def test_verbs_that_change_are_not_among_them() -> None:
    assert operator.list_commands(click.Context(operator)) == [
        "status",
        "watch",
        "why",
        "plan",
        "pool",
        "logs",
        "drain",
        "resume",
    ]
    assert {name.split()[0] for name in ALLOWED} <= VERBS.keys()
