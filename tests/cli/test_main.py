"""The command line itself: help, verbs, which stack, errors, completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.cli.standins import OUTPUTS, FakeEngine, Person
from tidepool.cli import errors
from tidepool.cli.main import VERBS, cli
from tidepool.cli.stack import find_stack

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command.md").read_text()


def test_help_names_all_verbs_and_exit_codes(somebody: Person) -> None:
    said = somebody.runs("--help")
    assert said.exit_code == 0
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", said.output, re.MULTILINE), verb
    for code, _ in errors.EXIT_CODES:
        assert re.search(rf"^  {code} ", said.output, re.MULTILINE), code


def test_the_list_of_verbs_says_what_the_verbs_say() -> None:
    context = click.Context(cli)
    for name, (_, what) in VERBS.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert (command.help or "").splitlines()[0].startswith(what[:-1]), name


def test_help_does_not_import_the_verbs() -> None:
    script = (
        "import sys; from tidepool.cli.main import cli; cli.main(['--help'], standalone_mode=False)\n".replace(
            "; cli.main", "\ntry:\n    cli.main"
        )
        + "except SystemExit:\n    pass\n"
        "slow = {'pulumi', 'pydantic', 'rich', 'grpc', 'tidepool.infrastructures.local.kernel', 'tidepool.clients.slurm'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, timeout=60)


def test_the_page_tells_of_every_verb_option_and_exit_code() -> None:
    context = click.Context(cli)
    missing = []
    for name in VERBS:
        command = cli.get_command(context, name)
        assert command is not None
        section = PAGE.partition(f"\n## {name}")[2].partition("\n## ")[0]
        everywhere = PAGE.partition("\n## Options of all verbs")[2].partition("\n## ")[0]
        commands = [command]
        if isinstance(command, click.Group):
            commands = [
                one for each in command.list_commands(context) if (one := command.get_command(context, each))
            ]
        for parameter in (each for one in commands for each in one.params):
            if isinstance(parameter, click.Option):
                missing += [
                    f"{name} {opt}" for opt in parameter.opts if f"`{opt}" not in section + everywhere
                ]
    assert missing == []
    for code, _ in errors.EXIT_CODES:
        assert f"| {code} |" in PAGE


def test_an_unknown_verb_is_refused_with_the_nearest_one(somebody: Person) -> None:
    said = somebody.runs("sttaus")
    assert said.exit_code == errors.USAGE
    assert "`status`" in said.output


def test_an_unknown_option_is_refused(somebody: Person) -> None:
    said = somebody.runs("status", "--jsn")
    assert said.exit_code == errors.USAGE
    assert "--json" in said.output


# Which stack


def test_the_only_stack_is_taken(somebody: Person) -> None:
    somebody.runs("status")
    assert somebody.engine.asked[0][-1] == "dev"


def test_one_of_several_has_to_be_named(somebody: Person) -> None:
    somebody.write("chemistry")
    said = somebody.runs("status")
    assert said.exit_code == errors.USAGE
    assert "chemistry, dev" in said.output


def test_of_several_the_only_one_that_was_made_is_taken(somebody: Person) -> None:
    somebody.write("chemistry")
    context = replace(
        somebody.context, engine=None, env={**somebody.context.env, "TIDEPOOL_ENGINE": "embedded"}
    )
    with pytest.raises(errors.Failure, match="which stack"):
        find_stack(context, None, None)
    assert not (context.data / "state").exists(), "nothing is made by asking"
    stack = find_stack(context, "chemistry", None)
    stack.prepare()
    stack.create()
    assert find_stack(context, None, None).name == "chemistry"


@pytest.mark.parametrize("made", [("chemistry", "dev"), None])
def test_where_none_of_several_is_the_only_one_it_has_to_be_named(
    somebody: Person, made: tuple[str, ...] | None
) -> None:
    somebody.write("chemistry")
    somebody.write("physics")
    somebody.engine.made = made
    (somebody.context.data / "state").mkdir(parents=True)
    said = somebody.runs("status")
    assert said.exit_code == errors.USAGE
    assert "chemistry, dev, physics" in said.output


@pytest.mark.parametrize(
    "words", [("-s", "chemistry", "status"), ("status", "-s", "chemistry"), ("status", "--stack=chemistry")]
)
def test_it_is_named_before_or_after_the_verb(somebody: Person, words: tuple[str, ...]) -> None:
    somebody.write("chemistry")
    somebody.runs(*words)
    assert somebody.engine.asked[0][-1] == "chemistry"


def test_the_environment_names_it(somebody: Person) -> None:
    somebody.write("chemistry")
    somebody.runs("status", env={**somebody.context.env, "TIDEPOOL_STACK": "chemistry"})
    assert somebody.engine.asked[0][-1] == "chemistry"


def test_the_selected_one_is_taken(somebody: Person) -> None:
    from tidepool.engine.command import main

    somebody.write("chemistry")
    env = {
        **somebody.context.env,
        "PULUMI_BACKEND_URL": f"file://{somebody.context.data}/state",
        "PULUMI_CONFIG_PASSPHRASE": "",
    }
    (somebody.context.data / "state").mkdir(parents=True)
    with Path(os.devnull).open("w") as nowhere:
        for words in (["stack", "init", "chemistry"], ["stack", "select", "chemistry"]):
            assert main(words, somebody.folder, env, nowhere, nowhere, interactive=False) == 0
    somebody.runs("status")
    assert somebody.engine.asked[0][-1] == "chemistry"


def test_the_project_may_be_elsewhere(somebody: Person, tmp_path: Path) -> None:
    for words in (("-C", "project", "status"), ("status", "--cwd", "project")):
        said = somebody.runs(*words, cwd=tmp_path)
        assert said.exit_code == errors.NOT_THERE, said.output
    assert somebody.runs("-C", "elsewhere", "status", cwd=tmp_path).exit_code == errors.USAGE


def test_without_a_project_it_is_said(somebody: Person, tmp_path: Path) -> None:
    said = somebody.runs("status", cwd=tmp_path)
    assert said.exit_code == errors.USAGE
    assert "Pulumi.yaml" in said.output


@pytest.mark.parametrize("name", ["Dev", "images", "state", "a/b", "../x"])
def test_a_name_that_is_no_folder_of_a_stacks_is_refused(somebody: Person, name: str) -> None:
    said = somebody.runs("-s", name, "status")
    assert said.exit_code == errors.USAGE, said.output
    assert somebody.engine.asked == []


# Errors


def test_a_cluster_that_is_not_up_is_an_error_with_its_remedy(somebody: Person) -> None:
    for words in (["drain", "cpu-1"], ["ssh", "cpu-1"], ["logs", "controller"], ["status"]):
        said = somebody.runs(*words)
        assert said.exit_code in (errors.NOT_THERE, errors.SSH_FAILED), said.output
        assert "tidepool up" in said.output


def test_outputs_of_something_else_are_an_error(somebody: Person) -> None:
    somebody.engine.outputs = {"bucket": "x"}
    said = somebody.runs("drain", "cpu-1")
    assert said.exit_code == errors.FAILED
    assert "`controller`" in said.output


def test_what_the_engine_does_not_tell_is_an_error_and_no_empty_cluster(somebody: Person) -> None:
    class Broken(FakeEngine):
        def ask(self, *_: object, **__: object):  # type: ignore[no-untyped-def]
            from tidepool.cli.engine import Answer

            return Answer(1, "", "error: the state is damaged\n")

    said = somebody.runs("status", engine=Broken())
    assert said.exit_code == errors.FAILED
    assert "the state is damaged" in said.output


def test_a_fault_of_ours_is_told_as_such(somebody: Person) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    somebody.engine.outputs = OUTPUTS
    said = somebody.runs("drain", "cpu-1", open_slurm=broken)
    assert isinstance(said.exception, ZeroDivisionError)
    assert "fault of Tidepool" in said.output


def test_who_has_read_enough_ends_it_quietly() -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m tidepool.cli completion bash | true"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(somebody: Person, shell: str) -> None:
    said = somebody.runs("completion", shell)
    assert said.exit_code == 0
    assert f"_TIDEPOOL_COMPLETE={shell}_complete" in said.output


def _completions(somebody: Person, *words: str) -> list[str]:
    line = ["tidepool", *words]
    env = {
        "_TIDEPOOL_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        said = somebody.runs()
    return [line.partition(",")[2] for line in said.output.split()]


def test_words_are_completed(somebody: Person) -> None:
    somebody.engine.outputs = OUTPUTS
    assert _completions(somebody, "st") == ["status"]
    assert _completions(somebody, "drain", "cpu") == ["cpu-1", "cpu-2"]
    assert _completions(somebody, "ssh", "") == ["controller", "cpu-1", "cpu-2", "ctl", "login-1"]
    assert _completions(somebody, "status", "--stack", "") == ["dev"]
    somebody.engine.outputs = None
    assert _completions(somebody, "ssh", "") == []
