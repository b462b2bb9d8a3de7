"""What releases of Slurm wrote (`record`), read by the parsers of today; no Slurm is needed here."""

from __future__ import annotations

import pytest

from tests.clients.slurm.record import FOLDER, MARK
from tidepool.clients.slurm import JobState, NodeBase, NodeFlag
from tidepool.clients.slurm.job import parse_queue
from tidepool.clients.slurm.scontrol import parse_node, parse_partition, parse_reservation

RELEASES = sorted(folder.name for folder in FOLDER.iterdir())


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_of_every_kind(release: str) -> None:
    draining, down, without_gpu, slot = map(parse_node, (FOLDER / release / "node").read_text().splitlines())
    assert (draining.state.base, draining.state.is_draining, draining.state.is_drained) == (
        NodeBase.ALLOCATED,
        True,
        False,
    )
    assert draining.reason is not None
    assert (draining.reason.text, draining.reason.user) == ("being replaced: [new image]", "root")
    assert (draining.features, draining.cpus_alloc, draining.memory_alloc_mib) == (("std", "avx2"), 2, 100)
    assert down.state.base is NodeBase.DOWN
    # One that registers without its GPU stays FUTURE, with a reason.
    assert without_gpu.state.is_slot
    assert {NodeFlag.INVALID_REG, NodeFlag.DRAIN} <= without_gpu.state.flags
    assert without_gpu.reason is not None
    assert "gres/gpu count reported lower than configured" in without_gpu.reason.text
    assert (slot.state.is_slot, slot.gres, slot.boot_time) == (True, "gpu:2", None)


@pytest.mark.parametrize("release", RELEASES)
def test_jobs_of_every_kind(release: str) -> None:
    jobs = parse_queue((FOLDER / release / "queue").read_text(), MARK)
    running = next(job for job in jobs if job.state is JobState.RUNNING)
    waiting = next(job for job in jobs if job.state is JobState.PENDING)
    assert (running.name, running.cpus, running.memory_mib, running.time_limit_s) == ("runs", 2, 100, 3600)
    assert running.nodelist
    assert (waiting.name, waiting.account, waiting.size, waiting.gpus) == (
        "waits|, really",
        "physics",
        334,
        2,
    )
    assert (waiting.memory_mib, waiting.min_memory_mib) == (100, 50)


@pytest.mark.parametrize("release", RELEASES)
def test_partitions_and_reservations(release: str) -> None:
    default, hidden = map(parse_partition, (FOLDER / release / "partition").read_text().splitlines())
    assert (default.name, default.is_default, default.max_time_s) == ("all", True, None)
    assert (hidden.name, hidden.is_default, hidden.max_time_s) == ("hidden", False, 3600)
    (reservation,) = map(parse_reservation, (FOLDER / release / "reservation").read_text().splitlines())
    assert (reservation.name, reservation.node_count, reservation.is_active) == ("upkeep", 1, True)
