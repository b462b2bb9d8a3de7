"""Verbs on real machines with a real Slurm."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.real import STACK, RealCluster
from tests.machine_faults import pull_plug
from tidepool.cli import errors
from tidepool.cluster.boot import Service
from tidepool.infrastructures.local.kernel import create_machine

pytestmark = pytest.mark.slow


# exec


def test_a_command_has_its_own_exit_code_and_streams(real: RealCluster) -> None:
    done = real.runs("exec", "std-2", "--", "sh", "-c", "hostname; echo aside >&2; cat; exit 7", stdin="mine")
    assert (done.returncode, done.stdout, done.stderr) == (7, "std-2\nmine", "aside\n")


def test_the_controller_has_a_name_for_people(real: RealCluster) -> None:
    assert real.says("exec", "controller", "hostname") == "ctl\n"


def test_options_after_the_machine_are_the_commands(real: RealCluster) -> None:
    assert real.says("exec", "std-2", "echo", "--json", "-s", "x") == "--json -s x\n"


def test_a_command_runs_as_a_user(real: RealCluster) -> None:
    said = real.says(
        "exec", "--user", "nobody", "std-2", "--", "sh", "-c", 'id -un; echo "$HOME:$1"', "sh", "a b"
    )
    assert said == "nobody\n/nonexistent:a b\n"


def test_nothing_of_the_callers_environment_goes_in(real: RealCluster) -> None:
    assert "TIDEPOOL" not in real.says("exec", "std-2", "env")


def test_a_hostlist_runs_side_by_side_with_names_before_lines(real: RealCluster) -> None:
    # Each says that it is there, and goes on when both have said so: one after the other would never end.
    script = 'echo "is $(hostname)"; until [ -e /run/both ]; do sleep 0.05; done; test $(hostname) = std-2'
    with subprocess.Popen(
        real.command("exec", "std-[2-3]", "--", "sh", "-c", script),
        env=real.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = sorted(process.stdout.readline() for _ in range(2))
        assert told == ["std-2: is std-2\n", "std-3: is std-3\n"]
        real.says("exec", "std-[2-3]", "touch", "/run/both")
        rest = process.communicate(timeout=20)
    assert rest == ("", "std-3: exit code 1\n")
    assert process.returncode == 1


@pytest.mark.parametrize("words", [("std-9", "true"), ("std-[2-9]", "true"), ("std-[", "true"), ("std-2",)])
def test_what_cannot_be_run_has_a_code_of_its_own(real: RealCluster, words: tuple[str, ...]) -> None:
    done = real.runs("exec", *words)
    expected = errors.USAGE if len(words) == 1 else errors.EXEC_FAILED
    assert done.returncode == expected, done
    assert "Traceback" not in done.stderr


def test_a_signal_reaches_the_command(real: RealCluster) -> None:
    script = "trap 'echo ended; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        real.command("exec", "std-2", "--", "sh", "-c", script),
        env=real.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "ended\n"
        assert process.wait(20) == 3


def _on_terminal(real: RealCluster, *words: str, typed: bytes = b"") -> tuple[int, str]:
    """The exit code of a command on a terminal of its own, and all that it showed there."""
    child, terminal = pty.fork()
    if not child:
        os.execve(real.command()[0], real.command(*words), {**real.environment, "TERM": "dumb"})
    said, deadline = b"", time.monotonic() + 30
    if typed:
        os.write(terminal, typed)
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            more = os.read(terminal, 4096)
        except OSError:  # the other end was closed
            break
        if not more:
            break
        said += more
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.decode()


def test_a_command_has_the_persons_terminal(real: RealCluster) -> None:
    code, said = _on_terminal(
        real, "exec", "std-2", "--", "sh", "-c", "test -t 0 && test -t 1 && echo both; exit 4"
    )
    assert (code, said.strip()) == (4, "both")


# ssh


def test_ssh_is_by_the_stacks_key_to_a_machine_that_is_known(real: RealCluster) -> None:
    done = real.runs("ssh", "-l", "root", "login-1", "--", "hostname; exit 6")
    assert (done.returncode, done.stdout) == (6, "login-1\n"), done
    folders = (real.data, real.project)
    keys = [p for f in folders for p in f.rglob("*") if p.is_file() and _is_key(p.read_bytes())]
    own = real.data / STACK / "machines" / "login-1" / "upper/etc/ssh/ssh_host_ed25519_key"
    assert keys == [own, real.project / "outputs.json"]


def _is_key(content: bytes) -> bool:
    return b"OPENSSH PRIVATE KEY" in content


def test_a_machine_with_another_host_key_is_refused(real: RealCluster) -> None:
    public = "/etc/ssh/ssh_host_ed25519_key.pub"
    real.says("exec", "login-1", "--", "cp", public, "/kept")
    script = f"ssh-keygen -q -t ed25519 -N '' -f /other && cp /other.pub {public}"
    real.says("exec", "login-1", "--", "sh", "-c", script)
    try:
        done = real.runs("ssh", "-l", "root", "login-1", "true")
        assert done.returncode == errors.SSH_FAILED
        assert "Host key verification failed" in done.stderr
    finally:
        real.says("exec", "login-1", "--", "cp", "/kept", public)


def test_a_machine_without_sshd_is_told(real: RealCluster) -> None:
    done = real.runs("ssh", "std-2", "true")
    assert done.returncode == errors.SSH_FAILED
    assert "tidepool exec std-2" in done.stderr


# logs


def test_logs_are_of_the_boot_and_of_slurms_daemons(real: RealCluster) -> None:
    said = real.says("logs", "std-2")
    assert "==> boot.log" in said
    assert "init: all services are ready" in said
    real.says("exec", "std-2", "--", "sh", "-c", "printf '%s\\n' one two three >/var/log/slurm/slurmd.log")
    told = {log["log"]: log["lines"] for log in real.document("logs", "std-2", "-n", "2")}
    assert told["slurmd.log"] == ["two", "three"]
    assert len(told["boot.log"]) == 2


def test_logs_are_followed(real: RealCluster) -> None:
    with subprocess.Popen(
        real.command("logs", "std-3", "-f", "-n", "1"),
        env=real.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            log = real.stack.read("std-3").boot_log
            shown = process.stdout.readline()
            with log.open("a") as file:
                file.write("something new\n")
            while "something new" not in shown:
                shown = process.stdout.readline()
                assert shown, "it ended"
        finally:
            process.terminate()


# drain, resume, status


def test_drain_and_resume_say_what_changed(real: RealCluster) -> None:
    (drained,) = real.document("drain", "std-2", "--reason", "new disk")
    assert (drained["node"], drained["reason"]) == ("std-2", "new disk")
    assert "DRAIN" in drained["after"]
    assert "DRAIN" not in drained["before"]
    notes = [p for p in real.document("status")["problems"] if p["severity"] == "note"]
    assert [(n["what"], n["remedy"]) for n in notes] == [
        ("node std-2 is drained: new disk", "`tidepool resume std-2`")
    ]
    (resumed,) = real.document("resume", "std-2")
    assert "DRAIN" not in resumed["after"]
    assert "in service already: std-3" in real.runs("resume", "std-3").stderr


def test_slots_and_strangers_are_no_nodes(real: RealCluster) -> None:
    for nodes, word in (("std-5", "slot"), ("std-99", "std-99"), ("std-[", "")):
        done = real.runs("drain", nodes)
        assert done.returncode in (errors.NOT_THERE, errors.USAGE), done
        assert word in done.stderr
        assert "Traceback" not in done.stderr


def test_status_shows_all_of_it(real: RealCluster) -> None:
    real.until_idle(2)
    told = real.document("status")
    assert told["reached"]
    assert told["controllers"] == [{"role": "primary", "host": "ctl", "up": True}]
    assert told["version"].startswith(("2", "3"))
    (fleet,) = told["fleets"]
    assert (fleet["name"], fleet["up"], fleet["max"], fleet["states"]) == ("std", 2, 4, {"idle": 2})
    assert [m["name"] for m in told["machines"]] == ["ctl", "login-1", "std-2", "std-3"]
    assert told["problems"] == []
    assert "login-1" in real.says("status")


def test_status_shows_jobs(real: RealCluster) -> None:
    real.until_idle(2)
    for nodes in (2, 2):
        script = f"sbatch -N{nodes} --wrap 'sleep 60' --output=/dev/null"
        real.says("exec", "ctl", "--", "sh", "-c", script)
    try:
        told = _until_queue(real, [("RUNNING", "", 1), ("PENDING", "Resources", 1)])
        assert told["fleets"][0]["jobs"] == 1
        refused = real.runs("down", "--yes")
        assert refused.returncode == errors.JOBS
        assert "running" in refused.stderr
        assert "waiting" in refused.stderr
    finally:
        real.says("exec", "ctl", "--", "scancel", "--user=root")
        real.until_idle(2)


def _until_queue(real: RealCluster, wanted: list[tuple[str, str, int]]) -> Any:
    deadline = time.monotonic() + 20
    while True:
        told = real.document("status")
        if [(row["state"], row["reason"], row["jobs"]) for row in told["queue"]] == wanted:
            return told
        assert time.monotonic() < deadline, told


def _problems(real: RealCluster) -> list[str]:
    return [problem["what"] for problem in real.document("status")["problems"]]


def test_a_node_whose_machine_died_is_shown(real: RealCluster) -> None:
    pull_plug(real.data, STACK, "std-3")
    try:
        assert "machine std-3 is dead" in _problems(real)
        done = real.runs("exec", "std-3", "true")
        assert done.returncode == errors.EXEC_FAILED
        assert "is not running" in done.stderr
        others = real.runs("exec", "std-[2-3]", "hostname")
        assert (others.returncode, others.stdout) == (errors.EXEC_FAILED, "std-2: std-2\n")
        assert others.stderr.startswith("std-3: machine std-3")
    finally:
        real.boot(3)
    real.until_idle(2)


def test_machines_that_are_no_nodes_are_shown(real: RealCluster) -> None:
    spec = real.stack.spec(7, Service("idle", ("/usr/bin/sleep", "1000")))
    create_machine(real.data, spec)
    try:
        assert _problems(real) == ["machine cpu-7 is no node of Slurm's"]
    finally:
        from tidepool.infrastructures.local.kernel import delete_machine

        delete_machine(real.data, STACK, "cpu-7")


def test_a_controller_that_was_killed_is_shown_until_it_is_back(real: RealCluster) -> None:
    (before,) = [s for s in real.stack.read("ctl").services if s.name == "slurmctld"]
    real.says("exec", "ctl", "--", "sh", "-c", "mv /etc/slurm/slurm.conf /kept; kill -9 $(pidof slurmctld)")
    try:
        began = time.monotonic()
        done = real.runs("status", "--json")
        assert time.monotonic() - began < 8
        assert done.returncode == errors.NOT_THERE
    finally:
        real.says("exec", "ctl", "--", "mv", "/kept", "/etc/slurm/slurm.conf")
    deadline = time.monotonic() + 30
    while not (told := real.document("status"))["reached"]:
        assert time.monotonic() < deadline, told
    assert before.restarts < real.stack.read("ctl").services[1].restarts


def test_a_controller_that_does_not_answer_is_shown_with_the_machines(real: RealCluster) -> None:
    pull_plug(real.data, STACK, "ctl")
    done = real.runs("status", "--json")
    assert done.returncode == errors.NOT_THERE
    told = json.loads(done.stdout)
    assert not told["reached"]
    assert [m["state"] for m in told["machines"] if m["name"] == "ctl"] == ["dead"]
    refused = real.runs("down", "--yes")
    assert refused.returncode == errors.NOT_THERE, refused
    assert "--force" in refused.stderr


@pytest.fixture(scope="module", autouse=True)
def _last(real: RealCluster) -> Iterator[None]:
    """The cluster is down when all tests are over, by the command: nothing of it is left."""
    yield
    told: Any = real.document("down", "--yes", "--force")
    assert told["result"] == "succeeded"
    assert told["swept"] == {
        "machines": ["ctl", "login-1", "std-2", "std-3"],
        "networks": ["net"],
        "elsewhere": {},
    }
    nothing: Any = {"machines": [], "networks": [], "elsewhere": {}}
    assert real.document("down", "--yes", "--purge")["swept"] == nothing
    assert "There is nothing" in real.says("down", "--yes")
