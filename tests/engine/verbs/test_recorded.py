"""The engine's answers compared with what the Pulumi CLI answered to the same command lines.

Everything must be the same: stdout, stderr and the exit code, but for the differences named here.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.engine.verbs.record import RECORDED, environment, normalized, prepare
from tests.engine.verbs.scenarios import SCENARIOS, Scenario
from tidepool.engine import yaml_reading
from tidepool.engine.command import main
from tidepool.engine.errors import INCORRECT_PASSPHRASE

#: Where our text is deliberately another one: a part of the CLI's stderr, and what ours must match instead.
#: The exit code must be the CLI's all the same, unless a number says which is ours.
TEXTS: tuple[tuple[str, str], ...] = (
    # We name the nearest known word; the CLI names none, or ones of other groups.
    (r"unknown flag: --jsn", r"unknown flag: --jsn; did you mean --json\?"),
    (r"unknown flag: --nope", r"unknown flag: --nope"),
    (
        r'unknown command "stck"',
        r'unknown command "stck" for "pulumi"\n\nDid you mean this\?\n\tpulumi stack\n',
    ),
    (r'unknown command "nope" for "pulumi"\n', r'unknown command "nope" for "pulumi"\n'),
    # Go's words for its own parsers.
    (
        r'invalid argument "(\w+)" for "(.*)" flag: strconv',
        r'invalid argument "\w+" for ".*" flag: expected ',
    ),
    (
        r'output "yaml" not supported',
        r'invalid argument "yaml" for "--output" flag: expected default or json',
    ),
    (r"strconv.Atoi", r'parsing "x": invalid syntax for an int'),
    (
        r"strconv.ParseInt: parsing \"x\"",
        r"invalid config key path: property path 'names\[x\]': 'x' is not an index",
    ),
    (r"missing closing bracket in array index", r"missing closing bracket in an index"),
    (r"could not parse --json argument", r"could not parse --json argument: Expecting value"),
    (
        r"invalid character 'v'",
        r"it is an object with secrets in it. Set its parts with: config set --path --secret",
    ),
    # We name the file, and the remedy.
    (r"unable to open state directory", r'unable to open state directory "file://\$DIR/missing": .*mkdir -p'),
    (r"organization name must be", r"organization name must be 'organization'"),
    (
        r"stack x uses the .* does not support --teams",
        r"the flag --teams is not supported by the embedded engine",
    ),
    (
        r"open \$DIR/nope.txt: no such file",
        r"unable to read PULUMI_CONFIG_PASSPHRASE_FILE \(\$DIR/nope.txt\)",
    ),
    (f"error: {INCORRECT_PASSPHRASE}", f"{INCORRECT_PASSPHRASE}: set PULUMI_CONFIG_PASSPHRASE"),
    (r"unexpected EOF", r"\$DIR/bad.json is not JSON: line 1, column 2"),
    (r"is newer than what this version", r"schema version 9; this engine reads versions 3 and 4"),
    (
        r"does not provide the ability to export",
        r"does not provide the ability to export previous deployments",
    ),
    (r"does not support environments", r"Pulumi ESC environments.* is not supported by the embedded engine"),
    (
        r"^error: invalid YAML file: yaml: line 1",
        r"'\$DIR/project/Pulumi.dev.yaml': invalid YAML file: yaml: line \d",
    ),
    (
        r"could not unmarshal map",
        r"'\$DIR/project/Pulumi.dev.yaml': could not parse a:b:c:d as a configuration key",
    ),
    (r"^error: expected project to be an object", r"'\$DIR/project/Pulumi.dev.yaml': expected an object"),
    (r"saving stack config", r"no Pulumi.yaml project file found"),
    (r"No such resource", r"No such resource"),
    (r"each URN must be followed", r"the flag --import-pending-creates is not supported"),
    (r"--strict cannot be used", r"the flag --strict is not supported"),
    # The schema validator's lists of everything that failed, Go's YAML parser, Go's names of types.
    (r"#/runtime: oneOf failed", r"#/runtime: expected string or object, but got number"),
    (
        r"additionalProperties 'urll'",
        r"#/backend: additionalProperties 'urll' not allowed; did you mean 'url'\?",
    ),
    (
        r"#/config/a: oneOf failed",
        r"#/config/a: additionalProperties 'typ' not allowed; did you mean 'type'\?",
    ),
    (r"expected project to be an object, was", r"expected project to be an object, was array"),
    (
        r"did not find expected node content",
        r"could not unmarshal '\$DIR/project/Pulumi.yaml': invalid YAML file",
    ),
)

#: Command lines whose exit code is not the CLI's: the scenario and the line, and our code.
CODES = {
    # The CLI makes the stack and fails afterwards; we look first and make nothing.
    ("nowhere", "stack output --stack organization/p/dev --json"): 6,
    ("nowhere", "stack rm organization/p/dev --yes"): 6,
    ("nowhere", "stack select organization/p/dev"): 6,
}


def answer(scenario: Scenario, args: list[str], folder: Path, extra: dict[str, str]) -> dict[str, Any]:
    """What the engine answers to one command line."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(args, folder / "project", environment(folder, extra), stdout, stderr, False, io.StringIO())
    return {
        "stdout": normalized(stdout.getvalue(), folder),
        "stderr": normalized(stderr.getvalue(), folder),
        "code": code,
    }


def expected_stderr(recorded: str) -> re.Pattern[str]:
    for theirs, ours in TEXTS:
        if re.search(theirs, recorded):
            return re.compile(ours)
    return re.compile(re.escape(recorded) + r"\Z")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_same_as_recorded(scenario: Scenario, tmp_path: Path) -> None:
    recording = json.loads((RECORDED / f"{scenario.name}.json").read_text())
    assert recording["cli_version"].endswith("3.260.0")
    assert len(recording["answers"]) == len(scenario.steps), "scenarios changed: run record.py again"
    folder = tmp_path.resolve()
    prepare(scenario, folder)
    wrong = []
    for step, recorded in zip(scenario.steps, recording["answers"], strict=True):
        if step.write is not None:
            path = folder / step.write[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.write[1])
        elif step.read is not None:
            path = folder / step.read
            text = normalized(path.read_text(), folder) if path.exists() else None
            if not same_file(step.read, text, recorded):
                wrong.append(f"{step.read}:\n{text}\n--- instead of ---\n{recorded}")
        else:
            assert step.run is not None
            args = [a.replace("$DIR", str(folder)) for a in step.run]
            got = answer(scenario, args, folder, dict(step.env))
            mistake = difference(scenario, recorded, got)
            if mistake:
                wrong.append(f"$ {recorded['run']}: {mistake}\n{got}\n--- instead of ---\n{recorded}")
    assert not wrong, "\n\n".join(wrong)


def difference(scenario: Scenario, recorded: dict[str, Any], got: dict[str, Any]) -> str:
    """What is different, and should not be; empty where all is well."""
    code = CODES.get((scenario.name, recorded["run"]))
    if code is not None:
        return "" if got["code"] == code else f"exit code, expected {code}"
    if got["code"] != recorded["code"]:
        return "exit code"
    if not expected_stderr(recorded["stderr"]).search(got["stderr"]):
        return "stderr"
    stdout = recorded["stdout"]
    if stdout == "<help>":
        return "" if "\nUsage:\n" in got["stdout"] else "stdout: no help"
    if "--shell" in recorded["run"]:
        # Quoted in another way; a shell reads the same.
        return "" if shlex.split(got["stdout"]) == shlex.split(stdout) else "stdout"
    return "" if got["stdout"] == stdout else "stdout"


def same_file(name: str, text: str | None, recorded: str | None) -> bool:
    """Whether a file says what the CLI's says. YAML: the same values; a new file the very same text."""
    if text == recorded or text is None or recorded is None or not name.endswith(".yaml"):
        return text == recorded
    return bool(meaning(text) == meaning(recorded))


def meaning(text: str) -> Any:
    from tidepool.engine.config import from_document, parse_key

    document = yaml_reading.load(text) or {}
    config = {parse_key(k, "shop"): from_document(v) for k, v in (document.get("config") or {}).items()}
    return {**document, "config": config}


def test_host_is_normalized(tmp_path: Path) -> None:
    # Otherwise the recordings would hold on one machine only.
    assert normalized(f"Managed by {socket.gethostname()}", tmp_path) == "Managed by $HOST"


def test_a_salt_that_holds_the_hosts_name_is_a_salt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "vm")
    salt = "v1:GOqLkJ2UgkA=:v1:lG6CNi2p5FcuO+Xg:vm+qYdUbNyy7QgOGQWIyUBwZJ1IWTw=="
    assert normalized(f"encryptionsalt: {salt}", tmp_path) == "encryptionsalt: <salt>"
