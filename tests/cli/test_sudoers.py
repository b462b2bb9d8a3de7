"""Sudo's rules and the operators' program, without sudo: what is written, and what is refused before anything is."""

from __future__ import annotations

import grp
import os
import re
import subprocess
from pathlib import Path

import click
import pytest

from tests.cli.standins import Person
from tests.repository import ROOT
from tidepool.cli.main import VERBS, cli
from tidepool.cli.operator import ALLOWED, operator
from tidepool.cli.sudoers import RULES, SCRIPT, open_to_others, sudo_rules

NOBODY = 65534


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


def test_sudo_hands_on_what_a_command_needs_and_nothing_else(tmp_path: Path) -> None:
    program, rules = tmp_path / "tidepool", tmp_path / "rules"
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    program.write_text("#!/bin/sh\nexec env\n")
    program.chmod(0o755)
    group = grp.getgrgid(NOBODY).gr_name
    rules.write_text(sudo_rules(program, group, "root", nopasswd=True))
    rules.chmod(0o440)
    # With rules of the test's own, in a mount namespace: nobody else's are touched.
    command = 'mount --bind "$1" /etc/sudoers && shift && exec setpriv --reuid=65534 --regid=65534 --clear-groups sudo -n "$@"'

    def sudo(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        argv = ["unshare", "--mount", "sh", "-c", command, "sh", str(rules), *words, str(program)]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env}
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    needed = {
        **dict.fromkeys(documented("docs/command.md", "## Environment"), "a"),
        **dict.fromkeys(documented("docs/administrators.md", "## State in a shared place"), "b"),
        **dict.fromkeys(("AWS_SESSION_TOKEN", "AWS_REGION", "NOMAD_TOKEN"), "c"),
    }
    for ours in (
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION",
        "PULUMI_SKIP_UPDATE_CHECK",
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER",
    ):
        needed.pop(ours)  # which the command sets itself
    assert {
        "TIDEPOOL_DATA",
        "PULUMI_CONFIG_PASSPHRASE",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
    } <= needed.keys()
    done = sudo(**needed, PYTHONPATH="/evil", PYTHONSTARTUP="/evil", TIDEPOOL_WISH="{}", GIT_DIR="/evil")
    assert done.returncode == 0, done.stderr
    got = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert {name: got.get(name) for name in needed} == needed
    assert not {"PYTHONPATH", "PYTHONSTARTUP", "TIDEPOOL_WISH", "GIT_DIR"} & got.keys()
    # By the command line no others, either: NOSETENV.
    assert "TIDEPOOL_DATA=/x" in sudo("TIDEPOOL_DATA=/x").stdout.splitlines()
    refused = sudo("PYTHONPATH=/evil")
    assert refused.returncode == 1
    assert "not allowed to set" in refused.stderr


def documented(page: str, heading: str) -> set[str]:
    """The variables that a section of a page tells of."""
    text = (ROOT / page).read_text().partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`((?:TIDEPOOL|PULUMI|AWS|PG)_?[A-Z_]+)[`=]", text))


def test_whatever_leads_to_the_program_is_root_s_alone(tmp_path: Path) -> None:
    inner = tmp_path / "srv" / "v1"
    (inner / "bin").mkdir(parents=True)
    (inner / "bin" / "tidepool").write_text("")
    (tmp_path / "opt").symlink_to("srv/v1")
    program = tmp_path / "opt" / "bin" / "tidepool"
    assert not list(open_to_others([program], []))
    # A folder that only the link leads through.
    (tmp_path / "srv").chmod(0o777)
    (said,) = open_to_others([program], [])
    assert f"{tmp_path}/srv may be written by others than root" in said
    # There they may add names, and take away none of root's; where programs are read from, that is enough.
    (tmp_path / "srv").chmod(0o1777)
    assert not list(open_to_others([program], []))
    (inner / "bin").chmod(0o1777)
    assert not list(open_to_others([program], []))
    (said,) = open_to_others([program], [inner])
    assert f"{inner}/bin may be written" in said
    (said,) = open_to_others([program], [inner / "bin"])
    assert f"{inner}/bin may be written" in said
    (inner / "bin").chmod(0o755)
    os.lchown(tmp_path / "opt", 1234, 1234)
    (said,) = open_to_others([program], [inner])
    assert f"{tmp_path}/opt is not root's" in said


def test_what_is_read_in_folders_is_root_s_alone(tmp_path: Path) -> None:
    deep = tmp_path / "lib" / "site-packages" / "tidepool"
    deep.mkdir(parents=True)
    (tmp_path / ".lock").touch()
    (tmp_path / ".lock").chmod(0o666)  # as uv leaves it
    for number in range(5):
        (deep / f"{number}.py").touch()
    assert not list(open_to_others([], [tmp_path]))
    (deep / "3.py").chmod(0o666)
    (said,) = open_to_others([], [tmp_path])
    assert f"{deep}/3.py may be written by others than root" in said
    for each in deep.iterdir():
        os.chown(each, 1234, 1234)
    *shown, rest = open_to_others([], [tmp_path])
    assert all("is not root's" in each for each in shown)
    assert f"so are 2 more in {tmp_path}; chown -hR root {tmp_path}" in rest


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert not list(open_to_others([tmp_path / "a"], []))


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
