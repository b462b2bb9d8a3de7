"""Answers that are not what they seem: errors with exit code 0, empty ones, and ones that are cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.slurm.real import RealSlurm
from tidepool.clients.slurm import (
    ControllerDown,
    Here,
    JobRequest,
    Malformed,
    NotFound,
    Refused,
    Slurm,
    Submitted,
    TimedOut,
    Unreachable,
)

Fake = Callable[..., Slurm]


@pytest.fixture
def command(tmp_path: Path) -> Fake:
    """A client on whose PATH one command is a fake, which says and ends as it is told."""

    def make(
        name: str,
        *,
        out: str = "",
        err: str = "",
        exit_code: int = 0,
        sleep_s: float = 0,
        timeout_s: float = 5,
    ) -> Slurm:
        script = tmp_path / name
        script.write_text(
            "#!/usr/bin/python3 -S\nimport sys, time\n"
            f"time.sleep({sleep_s})\nsys.stdout.write({out!r})\nsys.stderr.write({err!r})\nsys.exit({exit_code})\n"
        )
        script.chmod(0o755)
        return Slurm(Here({"PATH": f"{tmp_path}:/usr/bin:/bin"}), timeout_s)

    return make


DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"


def test_an_error_with_exit_code_0_is_an_error(command: Fake) -> None:
    with pytest.raises(ControllerDown):
        command("squeue", err=DOWN).jobs()
    with pytest.raises(ControllerDown):
        command("scontrol", err=DOWN).nodes()
    with pytest.raises(Refused, match="Invalid node state"):
        command("scontrol", err="slurm_update error: Invalid node state specified\n").drain("n1", "why")


def test_an_empty_answer_is_no_empty_list(command: Fake) -> None:
    with pytest.raises(Malformed):
        command("squeue").jobs()
    slurm = command("scontrol")
    for look in (slurm.nodes, slurm.partitions, slurm.reservations, slurm.version):
        with pytest.raises(Malformed):
            look()


def test_scontrols_own_words_for_nothing_are_an_empty_list(command: Fake) -> None:
    # It ends with 1 in 22.05 for nodes, with 0 for partitions, and with 0 for nodes from 23.02 on.
    assert command("scontrol", out="No nodes in the system\n", exit_code=1).nodes() == ()
    assert command("scontrol", out="No nodes in the system\n").nodes() == ()
    assert command("scontrol", out="No nodes in the system\n", err="munged was asked again").nodes() == ()
    assert command("scontrol", out="No reservations in the system\n").reservations() == ()


def test_nothing_beside_an_error_is_an_error(command: Fake) -> None:
    with pytest.raises(ControllerDown):
        command("scontrol", out="No nodes in the system\n", err=DOWN, exit_code=1).nodes()


def test_a_node_that_cannot_be_read_is_not_left_out(command: Fake) -> None:
    with pytest.raises(Malformed):
        command("scontrol", out="NodeName=n1 State=IDLE\n").nodes()


def test_the_words_of_a_submit_plugin_are_no_failure(command: Fake) -> None:
    slurm = command("sbatch", out="17\n", err="sbatch: error: lua: your job goes to the night queue\n")
    assert slurm.submit(JobRequest("#!/bin/sh\n")) == Submitted(
        17, "sbatch: error: lua: your job goes to the night queue"
    )


def test_a_submission_without_a_number_is_an_error(command: Fake) -> None:
    with pytest.raises(Malformed):
        command("sbatch").submit(JobRequest("#!/bin/sh\n"))


def test_a_command_that_hangs_is_a_time_out(command: Fake) -> None:
    with pytest.raises(TimedOut, match="squeue did not end"):
        command("squeue", sleep_s=60, timeout_s=0.5).jobs()


def test_a_command_that_is_missing_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "env").symlink_to("/usr/bin/env")
    with pytest.raises(Unreachable, match="squeue is not there"):
        Slurm(Here({"PATH": str(tmp_path)})).jobs()


def test_every_way_to_cut_an_answer_off_is_noticed(real: RealSlurm, command: Fake, tmp_path: Path) -> None:
    """Wherever the answer of the real squeue ends early, it is no shorter list."""
    slurm = Slurm(Here(real.environment))
    slurm.jobs()
    script = tmp_path / "squeue"
    cut = tmp_path / "cut"
    script.write_text(
        "#!/usr/bin/python3 -S\nimport subprocess, sys\n"
        f"answer = subprocess.run(['/usr/bin/squeue', *sys.argv[1:]], stdout=subprocess.PIPE).stdout\n"
        f"sys.stdout.buffer.write(answer[: -int(open({str(cut)!r}).read())])\n"
    )
    script.chmod(0o755)
    shortened = Slurm(Here({**real.environment, "PATH": f"{tmp_path}:/usr/bin:/bin"}))
    for length in (1, 2, 15, 20, 60, 300):
        cut.write_text(str(length))
        with pytest.raises(Malformed):
            shortened.jobs()


def test_what_users_choose_cannot_pass_for_anything_else(real: RealSlurm) -> None:
    """A job whose name and account look like the end of a record, and like other jobs."""
    slurm = Slurm(Here(real.environment))
    name = "x\x1e\x1f\n99\x1f(null)"
    # Not by JobRequest, which refuses it.
    submitted = real.command(
        [
            "sbatch",
            "--parsable",
            "--hold",
            f"--job-name={name}",
            f"--account={name}",
            "--wrap=true",
            "--output=/dev/null",
        ]
    )
    try:
        (job,) = slurm.jobs()
        assert job.job_id == int(submitted.stdout)
        assert (job.name, job.account) == (name, name)
    finally:
        slurm.cancel(int(submitted.stdout))


def test_a_mistake_in_the_configuration_is_refused_and_the_controller_lives(real: RealSlurm) -> None:
    slurm = Slurm(Here(real.environment))
    good = real.conf.read_text()
    real.conf.write_text(good + "NoSuchKey=1\n")
    try:
        with pytest.raises(Refused) as caught:
            slurm.reconfigure()
        assert "NoSuchKey" in caught.value.words
    finally:
        real.conf.write_text(good)
    assert slurm.ping()[0].is_up
    slurm.reconfigure()
    with pytest.raises(NotFound):
        slurm.nodes("nobody")
