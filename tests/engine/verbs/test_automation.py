"""Pulumi's Automation API, driving the embedded engine: everything but the operations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pulumi import automation as auto

from tests.engine.verbs.worlds import Folder
from tidepool.engine import EmbeddedPulumiCommand, choice, choose_command
from tidepool.engine.errors import EngineError


@pytest.fixture
def workspace(folder: Folder) -> auto.LocalWorkspace:
    return auto.LocalWorkspace(
        work_dir=str(folder.project), pulumi_command=EmbeddedPulumiCommand(), env_vars=folder.env
    )


@pytest.fixture
def dev(workspace: auto.LocalWorkspace) -> auto.Stack:
    return auto.Stack.create("dev", workspace)


def test_stacks(workspace: auto.LocalWorkspace) -> None:
    assert workspace.pulumi_version == "3.260.0"
    assert workspace.stack() is None
    with pytest.raises(auto.StackNotFoundError):
        auto.Stack.select("dev", workspace)
    auto.Stack.create_or_select("dev", workspace)
    auto.Stack.create_or_select(auto.fully_qualified_stack_name("organization", "shop", "dev"), workspace)
    with pytest.raises(auto.StackAlreadyExistsError):
        auto.Stack.create("dev", workspace)
    workspace.create_stack("qa")
    assert [(s.name, s.current, s.resource_count) for s in workspace.list_stacks()] == [
        ("dev", False, 0),
        ("qa", True, 0),
    ]
    assert [s.name for s in workspace.list_stacks(include_all=True)] == ["dev", "qa"]
    current = workspace.stack()
    assert current is not None
    assert current.name == "qa"
    workspace.remove_stack("qa")
    assert [s.name for s in workspace.list_stacks()] == ["dev"]


def test_who_am_i(workspace: auto.LocalWorkspace, folder: Folder) -> None:
    assert workspace.who_am_i().url == folder.env["PULUMI_BACKEND_URL"]


def pair(value: auto.ConfigValue | auto.OutputValue) -> tuple[object, bool]:
    """What the SDK keeps in a class that does not compare."""
    return value.value, bool(value.secret)


def test_config(dev: auto.Stack) -> None:
    dev.set_config("plain", auto.ConfigValue("-a value"))
    dev.set_config("hidden", auto.ConfigValue("s3cr3t", secret=True))
    dev.set_config("a.b[0]", auto.ConfigValue("1"), path=True)
    dev.set_all_config({"x": auto.ConfigValue("1"), "aws:y": auto.ConfigValue("b=c", secret=True)})
    dev.set_all_config({"p.q": auto.ConfigValue("z")}, path=True)
    dev.set_all_config_json(
        json.dumps({"shop:j": {"value": '{"k":[1]}', "objectValue": {"k": [1]}, "secret": False}})
    )
    assert pair(dev.get_config("hidden")) == ("s3cr3t", True)
    assert pair(dev.get_config("a.b[0]", path=True)) == ("1", False)
    assert {k: pair(v) for k, v in dev.get_all_config().items()} == {
        "shop:plain": ("-a value", False),
        "shop:hidden": ("s3cr3t", True),
        "shop:a": ('{"b":[1]}', False),
        "shop:x": ("1", False),
        "aws:y": ("b=c", True),
        "shop:p": ('{"q":"z"}', False),
        "shop:j": ('{"k":[1]}', False),
    }
    dev.remove_config("plain")
    dev.remove_all_config(["x", "aws:y"])
    dev.remove_all_config(["p.q"], path=True)
    assert sorted(dev.get_all_config()) == ["shop:a", "shop:hidden", "shop:j", "shop:p"]
    with pytest.raises(auto.CommandError, match="not found"):
        dev.get_config("nope")


def test_environments_are_refused_by_name(dev: auto.Stack) -> None:
    with pytest.raises(
        auto.CommandError, match="`pulumi config env` is not supported by the embedded engine"
    ):
        dev.add_environments("base")


def test_tags(dev: auto.Stack) -> None:
    dev.set_tag("owner", "me")
    assert dev.get_tag("owner") == "me"
    assert dev.list_tags() == {"owner": "me"}
    dev.remove_tag("owner")
    assert dev.list_tags() == {}


def test_state(dev: auto.Stack) -> None:
    assert dev.outputs() == {}
    assert dev.history() == []
    assert dev.info() is None
    state = dev.export_stack()
    assert state.version == 3
    assert isinstance(state.deployment, dict)
    state.deployment["resources"] = [
        {
            "urn": "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev",
            "custom": False,
            "type": "pulumi:pulumi:Stack",
            "outputs": {
                "a": 1,
                "b": {
                    "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
                    "plaintext": '{"c":[2]}',
                },
            },
        }
    ]
    dev.import_stack(state)
    assert {k: pair(v) for k, v in dev.outputs().items()} == {"a": (1, False), "b": ({"c": [2]}, True)}
    dev.cancel()
    dev.workspace.remove_stack("dev", force=True)


def test_listeners_get_each_line(workspace: auto.LocalWorkspace, folder: Folder) -> None:
    lines: list[str] = []
    errors: list[str] = []
    result = EmbeddedPulumiCommand().run(
        ["stack", "ls"], str(folder.project), folder.env, lines.append, errors.append
    )
    assert lines == ["NAME  LAST UPDATE  RESOURCE COUNT"] == [result.stdout]
    EmbeddedPulumiCommand().run(
        ["stack", "init", "dev"], str(folder.project), folder.env, None, errors.append
    )
    assert errors == ["Created stack 'dev'"]


def test_operations_run_in_a_process_of_their_own(folder: Folder) -> None:
    lines: list[str] = []
    with pytest.raises(auto.StackNotFoundError):
        EmbeddedPulumiCommand().run(
            ["preview", "--stack", "nope"], str(folder.project), folder.env, None, lines.append
        )
    assert lines == ["error: no stack named 'nope' found"]


def test_the_callers_words_are_left_alone(folder: Folder) -> None:
    words = ["stack", "ls"]
    EmbeddedPulumiCommand().run(words, str(folder.project), folder.env)
    assert words == ["stack", "ls"]


def test_choice_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "BUILT", tmp_path / "built")
    assert isinstance(
        choose_command({"TIDEPOOL_ENGINE": "embedded", "PATH": str(tmp_path)}), EmbeddedPulumiCommand
    )
    assert isinstance(choose_command({"PATH": str(tmp_path)}), EmbeddedPulumiCommand)
    with pytest.raises(EngineError, match="TIDEPOOL_ENGINE is 'embeded': expected 'pulumi' or 'embedded'"):
        choose_command({"TIDEPOOL_ENGINE": "embeded"})
    with pytest.raises(EngineError, match="no `pulumi` command on PATH"):
        choose_command({"TIDEPOOL_ENGINE": "pulumi", "PATH": str(tmp_path)})


def test_the_cli_is_taken_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "pulumi"
    command.write_text("#!/bin/sh\necho v3.260.0\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for env in ({"PATH": str(tmp_path)}, {"PATH": str(tmp_path), "TIDEPOOL_ENGINE": "pulumi"}):
        chosen = choose_command(env)
        assert type(chosen) is auto.PulumiCommand
        assert str(chosen.version) == "3.260.0"
    command.write_text("#!/bin/sh\necho v3.0.0\n")
    with pytest.raises(
        EngineError, match=r"pulumi does not fit the package pulumi: .*3\.0\.0.*`make pulumi`"
    ):
        choose_command({"PATH": str(tmp_path)})


def test_the_cli_that_was_built_is_taken_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "BUILT", tmp_path)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "pulumi"
    command.write_text("#!/bin/sh\necho v3.255.0\n")
    command.chmod(0o755)
    env = {"PATH": "/usr/bin", "TIDEPOOL_ENGINE": "pulumi"}
    assert choose_command(env).command == str(command)
    assert isinstance(choose_command({"PATH": "/usr/bin"}), EmbeddedPulumiCommand)
    # As programs are that do not only stand for another one.
    command.write_bytes(b"\x7fELF")
    with pytest.raises(EngineError, match=r"no language host for Python: .*`make pulumi`"):
        choose_command(env)
