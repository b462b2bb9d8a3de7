"""The engine seam: which engine is taken, and what the Pulumi CLI is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.standins import OUTPUTS, Person
from tests.infrastructures.local.needs import needs_machines
from tidepool.cli import errors
from tidepool.cli.engine import Embedded, Pulumi
from tidepool.cli.stack import find_stack
from tidepool.cluster.desired_state import DesiredNodes
from tidepool.cluster.hostlist import HostSet
from tidepool.engine import choice

ROOT = Path(__file__).parents[2]
#: Tells what it was given; `up` waits for a signal where it is asked to.
_PULUMI = """#!/bin/sh
echo "$@" >>"$HOME/told"
case "$*" in
*"stack output"*) cat "$HOME/outputs"; exit 0;;
*wait*) trap 'echo cancelled; exit 3' TERM; echo ready; while :; do sleep 0.05; done;;
*up*) echo "up in $PULUMI_BACKEND_URL"; exit "${CODE:-0}";;
esac
"""


@pytest.fixture
def with_pulumi(somebody: Person) -> Person:
    """Somebody with a `pulumi` on PATH."""
    folder = somebody.folder / "bin"
    folder.mkdir()
    (folder / "pulumi").write_text(_PULUMI)
    (folder / "pulumi").chmod(0o755)
    (somebody.folder / "outputs").write_text("{}")
    env = {**somebody.context.env, "PATH": f"{folder}:{somebody.context.env['PATH']}"}
    return replace(somebody, context=replace(somebody.context, env=env, engine=None))


def test_the_cli_is_taken_where_it_is_on_path(with_pulumi: Person) -> None:
    context = with_pulumi.context
    assert context.chosen_engine() == Pulumi(f"{with_pulumi.folder}/bin/pulumi")
    assert replace(context, env={**context.env, "TIDEPOOL_ENGINE": "embedded"}).chosen_engine() == Embedded(
        False, False
    )
    assert replace(context, env={**context.env, "PATH": "/usr/bin"}).chosen_engine() == Embedded(False, False)


@pytest.mark.parametrize("name", ["pulumi", "terraform"])
def test_one_that_is_not_there_is_an_error(
    somebody: Person, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "BUILT", somebody.folder / "built")
    env = {**somebody.context.env, "TIDEPOOL_ENGINE": name}
    said = somebody.runs("status", env=env, engine=None)
    assert said.exit_code == errors.FAILED
    assert "TIDEPOOL_ENGINE" in said.output


def test_a_persons_operations_go_by_their_file_whatever_is_wished(somebody: Person) -> None:
    wish = DesiredNodes({"cpu": HostSet("cpu-1")}, HostSet("cpu-1")).environment
    context = replace(somebody.context, env={**somebody.context.env, **wish})
    environment = find_stack(context, "dev", str(somebody.folder)).environment
    assert not wish.keys() & environment.keys()
    assert environment["PATH"].endswith(context.env["PATH"])  # before it, maybe, where the plugin is


def _runs(person: Person, *words: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidepool.cli", "-C", str(person.folder), *words],
        env={**person.context.env, "PYTHONPATH": str(ROOT), **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _told(person: Person) -> list[str]:
    return (person.folder / "told").read_text().splitlines()


@pytest.fixture
def able(with_pulumi: Person) -> Person:
    """The same on a host that makes machines, which `up` looks at first."""
    needs_machines(with_pulumi.context.data)
    return with_pulumi


def test_the_cli_is_told_the_same_words(able: Person) -> None:
    out, err = _runs(able, "up", "--yes", CODE="0").communicate(timeout=60)
    assert out == f"up in file://{able.context.data}/state\n", err
    assert _told(able) == [
        "--non-interactive stack output --json --stack dev",
        "up --stack dev --suppress-outputs --yes --skip-preview --refresh --parallel 256",
    ]


def test_what_the_cli_shows_goes_aside_for_json(able: Person) -> None:
    with _runs(able, "up", "--yes", "--json", CODE="5") as process:
        out, err = process.communicate(timeout=60)
        assert process.returncode == errors.FAILED
    assert '"result": "failed"' in out
    assert "up in file://" in err
    assert "--event-log" in _told(able)[1]


def test_a_signal_is_passed_on_to_the_cli(able: Person) -> None:
    with _runs(able, "up", "--yes", "--", "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "cancelled\n"
        assert process.wait(20) == errors.FAILED


def test_names_come_from_the_cli_too(with_pulumi: Person) -> None:
    import json

    (with_pulumi.folder / "outputs").write_text(json.dumps(OUTPUTS))
    said = with_pulumi.runs("drain", "cpu-1")
    assert "cpu-1" in said.output  # of the fake Slurm, that it knows no such node
    assert _told(with_pulumi) == ["--non-interactive stack output --json --stack dev"]
