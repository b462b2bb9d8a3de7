"""The front: faults, streams, start-up cost, and what each verb does beyond what the CLI recorded."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.verbs.worlds import Folder, make_folder
from tidepool.engine.command import main
from tidepool.engine.request import World
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.store import UpdateInfo
from tidepool.engine.verbs import about

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"


def test_a_fault_of_ours_is_one_line_and_a_private_file(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(world: World) -> int:
        raise ZeroDivisionError("value of a secret")

    monkeypatch.setattr(about, "version", broken)
    monkeypatch.setenv("TMPDIR", str(folder.path))
    monkeypatch.setattr("tempfile.tempdir", None)
    answer = folder.run("version")
    assert answer.code == 255
    assert "fault of the embedded engine, not yours: ZeroDivisionError" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "value of a secret" not in answer.stderr
    match = re.search(r"Details are in (\S+);", answer.stderr)
    assert match is not None
    details = Path(match[1])
    assert details.stat().st_mode & 0o777 == 0o600
    assert "ZeroDivisionError" in details.read_text()


def test_interrupted(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(world: World) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(about, "version", interrupted)
    assert folder.run("version").code == 130


def test_other_folder(folder: Folder) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(["-C", "project", "stack", "init", "dev"], folder.path, folder.env, stdout, stderr, False)
    assert (code, stderr.getvalue()) == (0, "Created stack 'dev'\n")
    assert (folder.project / "Pulumi.dev.yaml").exists()


@pytest.mark.parametrize(
    "args", [["version"], ["stack", "ls", "--json"], ["config", "--json"], ["config", "get", "a"]]
)
def test_quick_verbs_import_nothing_slow(stack: Folder, args: list[str]) -> None:
    stack.ok("config", "set", "a", "b")
    program = (
        "import sys, os; from pathlib import Path; from tidepool.engine.command import main;"
        "code = main(sys.argv[1:], Path.cwd(), os.environ, sys.stdout, sys.stderr, False);"
        "slow = {'pulumi', 'grpc', 'google', 'rich', 'ruamel', 'cryptography', 'asyncio'} & set(sys.modules);"
        "sys.exit(f'imported {slow}' if slow else code)"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=stack.project,
        env={**stack.env, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_as_a_module(folder: Folder) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidepool.engine", "stack", "nope"],
        cwd=folder.project,
        env={**folder.env, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith('error: unknown command "nope" for "pulumi stack"')


def deployment_with_secret(salt: str, secret: dict[str, str]) -> dict[str, Any]:
    return {
        "version": 3,
        "deployment": {
            "manifest": {"time": "2024-05-01T10:00:00Z", "magic": "", "version": ""},
            **({"secrets_providers": {"type": "passphrase", "state": {"salt": salt}}} if salt else {}),
            "resources": [
                {
                    "urn": "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev",
                    "custom": False,
                    "type": "pulumi:pulumi:Stack",
                    "outputs": {
                        "plain": 1,
                        "hidden": {SIGNATURE: SECRET, **secret},
                        "deep": {"x": [{SIGNATURE: SECRET, **secret}]},
                    },
                }
            ],
            "metadata": {},
        },
    }


def exported(folder: Folder, *args: str) -> Any:
    return json.loads(folder.ok("stack", "export", *args))


@pytest.mark.parametrize("with_passphrase", [True, False])
def test_secrets_through_import_and_export(stack: Folder, with_passphrase: bool) -> None:
    salt = exported(stack)["deployment"]["secrets_providers"]["state"]["salt"] if with_passphrase else ""
    document = deployment_with_secret(salt, {"plaintext": '"hush"'})
    stack.ok("stack", "import", stdin=json.dumps(document))
    assert "hush" not in json.dumps(exported(stack))
    shown = exported(stack, "--show-secrets")["deployment"]["resources"][0]["outputs"]["hidden"]
    assert shown == {SIGNATURE: SECRET, "plaintext": '"hush"'}
    assert json.loads(stack.ok("stack", "output", "--json")) == {
        "deep": {"x": ["[secret]"]},
        "hidden": "[secret]",
        "plain": 1,
    }
    plain = json.loads(stack.ok("stack", "output", "--json", "--show-secrets"))
    assert plain == {"deep": {"x": ["hush"]}, "hidden": "hush", "plain": 1}
    assert stack.run("stack", "output", "--json", env={"PULUMI_CONFIG_PASSPHRASE": "wrong"}).code == 0
    wrong = stack.run("stack", "output", "--show-secrets", env={"PULUMI_CONFIG_PASSPHRASE": "wrong"})
    assert wrong.code == 1
    assert "incorrect passphrase" in wrong.stderr
    assert "hush" not in wrong.stdout


def test_new_passphrase(stack: Folder) -> None:
    stack.ok("stack", "import", stdin=json.dumps(deployment_with_secret("", {"plaintext": '"hush"'})))
    stack.ok("config", "set", "--secret", "token", "t0k3n")
    stack.ok("config", "set", "--secret", "--path", "obj.token", "t0k3n")
    before = (stack.project / "Pulumi.dev.yaml").read_text()
    wrong = stack.run(
        "stack",
        "change-secrets-provider",
        "passphrase",
        stdin="new\n",
        env={"PULUMI_CONFIG_PASSPHRASE": "wrong"},
    )
    assert wrong.code == 1
    assert (stack.project / "Pulumi.dev.yaml").read_text() == before
    stack.ok("stack", "change-secrets-provider", "passphrase", stdin="new\n")
    new = {"PULUMI_CONFIG_PASSPHRASE": "new"}
    assert stack.run("config", "get", "token", env=new).stdout == "t0k3n\n"
    assert stack.run("config", "get", "--path", "obj.token", env=new).stdout == "t0k3n\n"
    assert stack.run("stack", "output", "hidden", "--show-secrets", env=new).stdout == "hush\n"
    assert stack.run("config", "get", "token").code == 1


def test_value_from_stdin(stack: Folder) -> None:
    stack.ok("config", "set", "a", stdin="two\nlines\n")
    assert stack.ok("config", "get", "a") == "two\nlines\n"
    stack.ok("config", "set", "a", "--raw", stdin="two\nlines\n")
    assert stack.ok("config", "get", "a") == "two\nlines\n\n"


def test_secret_never_reaches_the_file(stack: Folder) -> None:
    stack.ok("config", "set", "--secret", "token", "t0k3n")
    assert "t0k3n" not in (stack.project / "Pulumi.dev.yaml").read_text()
    assert "t0k3n" not in stack.ok("config")


def test_salt_is_made_where_there_is_none(stack: Folder) -> None:
    (stack.project / "Pulumi.dev.yaml").unlink()
    stack.ok("config", "set", "--secret", "token", "t0k3n")
    assert stack.ok("config", "get", "token") == "t0k3n\n"


def test_salt_of_the_state_where_asked_for(stack: Folder) -> None:
    salt = exported(stack)["deployment"]["secrets_providers"]["state"]["salt"]
    (stack.project / "Pulumi.dev.yaml").unlink()
    fallback = {"PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true"}
    assert stack.run("config", "set", "--secret", "token", "t0k3n", env=fallback).code == 0
    assert f"encryptionsalt: {salt}" in (stack.project / "Pulumi.dev.yaml").read_text()


def test_operation_with_the_salt_of_the_state_leaves_the_file_alone(stack: Folder) -> None:
    file = stack.project / "Pulumi.dev.yaml"
    file.write_text("config:\n  shop:a: b  # as a person wrote it\n")
    before = file.stat()
    fallback = {"PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true"}
    ran = stack.run("refresh", "--yes", "--skip-preview", env=fallback)
    assert ran.code == 0, ran
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_key_service_is_refused_by_name(stack: Folder) -> None:
    (stack.project / "Pulumi.dev.yaml").write_text(
        "secretsprovider: awskms://alias/x\nconfig: {shop:a: {secure: C}}\n"
    )
    assert stack.ok("config") == "KEY  VALUE\na    [secret]\n"
    answer = stack.run("config", "get", "a")
    assert answer.code == 1
    assert "the secrets provider 'awskms://alias/x'" in answer.stderr
    init = stack.run("stack", "init", "other", "--secrets-provider", "awskms://alias/x")
    assert init.code == 1
    assert "'awskms'" in init.stderr
    assert json.loads(stack.ok("stack", "ls", "--json"))[0]["name"] == "dev"


def test_config_of_the_last_update_comes_back(stack: Folder) -> None:
    stack.ok("config", "set", "a", "old")
    backend = DiyBackend.from_url(stack.env["PULUMI_BACKEND_URL"], stack.path, stack.project)
    ref = StackReference("shop", "dev")
    update = UpdateInfo("update", 1, 2, "succeeded", config={"shop:a": "old", "shop:s": {"secure": "v1:x:y"}})
    backend.add_history(ref, update)
    stack.ok("config", "set", "a", "new")
    said = stack.ok("config", "refresh")
    assert "backed up existing configuration file" in said
    assert stack.ok("config", "get", "a") == "old\n"
    assert "new" in (stack.project / "Pulumi.dev.yaml.bak").read_text()
    stack.ok("config", "set", "a", "new")
    assert stack.ok("config", "refresh", "--force") == ""
    assert stack.ok("config", "get", "a") == "old\n"


def test_cancel_takes_the_locks_away(stack: Folder) -> None:
    backend = DiyBackend.from_url(stack.env["PULUMI_BACKEND_URL"], stack.path, stack.project)
    lock = backend.lock(StackReference("shop", "dev"))
    lock.acquire()
    assert "the stack is currently locked by" in stack.run("stack", "rm", "--yes").stderr
    stack.ok("cancel", "--yes")
    stack.ok("stack", "rm", "--yes")


def test_selection_is_where_the_cli_keeps_it(stack: Folder) -> None:
    (file,) = (stack.path / "home" / "workspaces").iterdir()
    assert re.fullmatch(r"shop-[0-9a-f]{40}-workspace\.json", file.name)
    name = "organization/shop/dev"
    assert json.loads(file.read_text()) == {
        "stack": name,  # for the CLI 3.255
        "stacks": {stack.env["PULUMI_BACKEND_URL"]: name},
    }
    file.write_text(json.dumps({"stack": name}))
    assert stack.ok("stack", "--show-name") == "dev\n"
    # What was selected in another backend is not selected in this one.
    file.write_text(json.dumps({"stack": name, "stacks": {"file:///elsewhere": name}}))
    assert "no stack selected" in stack.run("stack", "--show-name").stderr
    # What is deselected in one backend stays selected in another.
    elsewhere = {"file:///elsewhere": name}
    file.write_text(
        json.dumps({"stack": name, "stacks": {**elsewhere, stack.env["PULUMI_BACKEND_URL"]: name}})
    )
    stack.ok("stack", "unselect")
    assert json.loads(file.read_text()) == {"stack": name, "stacks": elsewhere}
    file.write_text("{")
    assert "could not parse file" in stack.run("stack", "--show-name").stderr


def test_where_nothing_was_made_nothing_is_left(folder: Folder) -> None:
    for line in ("stack init a/b/c/d", "stack init dev --teams x", "up --plan x", "stack rm nope --yes"):
        assert folder.run(*line.split()).code != 0
    assert list((folder.path / "state").iterdir()) == []
    assert [p.name for p in folder.project.iterdir()] == ["Pulumi.yaml"]


def test_json_stack_file(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder.project / "Pulumi.yaml").unlink()
    (folder.project / "Pulumi.json").write_text('{"name": "shop", "runtime": "python"}')
    folder.ok("stack", "init", "dev")
    folder.ok("config", "set", "--path", "a.b", "1")
    document = json.loads((folder.project / "Pulumi.dev.json").read_text())
    assert document["config"] == {"shop:a": {"b": 1}}
    assert list(document) == ["encryptionsalt", "config"]


def test_about_says_that_it_is_not_the_cli(stack: Folder) -> None:
    assert "tidepool, embedded" in stack.ok("about")
    assert json.loads(stack.ok("about", "--json"))["stack"] == "organization/shop/dev"


def test_installed_plugins(folder: Folder) -> None:
    assert json.loads(folder.ok("plugin", "ls", "--json")) == []
    plugin = folder.path / "home" / "plugins" / "resource-random-v4.16.0"
    plugin.mkdir(parents=True)
    (plugin / "pulumi-resource-random").write_text("12345")
    (plugin.parent / "resource-half-v1.0.0").mkdir()
    (plugin.parent / "resource-half-v1.0.0.partial").touch()
    (only,) = json.loads(folder.ok("plugin", "ls", "--json"))
    assert (only["name"], only["kind"], only["version"], only["size"]) == ("random", "resource", "4.16.0", 5)
    assert "random  resource  4.16.0   5 B" in folder.ok("plugin", "ls")
