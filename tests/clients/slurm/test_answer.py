"""What commands of Slurm say, judged."""

from __future__ import annotations

import pytest

from tidepool.clients.slurm import (
    Completed,
    ControllerDown,
    DatabaseDown,
    NotFound,
    PermissionDenied,
    Refused,
    SlurmError,
    TimedOut,
    Unreachable,
)
from tidepool.clients.slurm.commands import judge

WORDS: list[tuple[int, str, type[SlurmError]]] = [
    (1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", ControllerDown),
    (0, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", ControllerDown),
    (1, "slurm_load_node error: Slurm backup controller in standby mode", ControllerDown),
    (1, "slurm_load_partitions error: Controller is in standby mode, try a different controller", ControllerDown),
    (1, "squeue: error: fetch_config: DNS SRV lookup failed\nsqueue: fatal: Could not establish a configuration source", ControllerDown),
    (1, "slurm_load_node error: Zero Bytes were transmitted or received", ControllerDown),
    (1, "slurm_reconfigure error: Operation now in progress", ControllerDown),
    (1, "slurm_load_jobs error: Socket timed out on send/recv operation", TimedOut),
    (1, "slurm_load_jobs error: Invalid job id specified", NotFound),
    (1, "slurm_update error: Invalid node name specified", NotFound),
    (1, "scontrol: error: Invalid user id", Refused),
    (1, "slurm_update error: Access/permission denied", PermissionDenied),
    (1, "slurm_load_jobs error: Protocol authentication error", PermissionDenied),
    (1, "squeue: error: If munged is up, restart with --num-threads=10\nsqueue: error: Munge encode failed: Failed to access", PermissionDenied),
    (1, "sacctmgr: error: Sending PersistInit msg: Connection refused\nsacctmgr: error: Problem talking to the database: Connection refused", DatabaseDown),
    (1, "sbatch: error: Batch job submission failed: Invalid feature specification", Refused),
    (127, "env: 'squeue': No such file or directory", Unreachable),
    (1, "", Refused),
    (-9, "", Refused),
]  # fmt: skip


@pytest.mark.parametrize(("exit_code", "said", "kind"), WORDS)
def test_slurms_words_become_types(exit_code: int, said: str, kind: type[SlurmError]) -> None:
    with pytest.raises(SlurmError) as caught:
        judge(["squeue"], Completed(exit_code, "", said), "on this machine")
    assert type(caught.value) is kind
    assert "squeue on this machine" in str(caught.value)
    assert caught.value.remedy in str(caught.value)


@pytest.mark.parametrize("said", ["Node n9 not found", "Partition nix not found", "Reservation r not found"])
def test_some_refusals_are_on_stdout(said: str) -> None:
    with pytest.raises(NotFound) as caught:
        judge(["scontrol"], Completed(1, said + "\n", ""), "on this machine")
    assert caught.value.words == said


def test_warnings_are_no_errors() -> None:
    assert (
        judge(["sbatch"], Completed(0, "7\n", "sbatch: warning: can't honor --ntasks-per-node"), "") == "7\n"
    )


def test_the_words_of_a_refusal_are_slurms_own() -> None:
    with pytest.raises(Refused) as caught:
        judge(["scontrol"], Completed(1, "", "slurm_update error: Invalid node state specified\n"), "")
    assert caught.value.words == "Invalid node state specified"
