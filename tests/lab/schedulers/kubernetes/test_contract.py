"""Kubernetes' own scheduler, Volcano and Kueue keep the contract of schedulers: on real machines, with real pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import versions
from tests.golden import CONVERGED
from tests.lab.schedulers.contract import Bench, ProgramsContract, job
from tests.lab.schedulers.kubernetes.testbeds import CPUS, MACHINES, kubernetes_testbed
from tests.toolchain import built_tools
from tidepool import toolchain
from tidepool.lab.programs.records import read_records
from tidepool.lab.schedulers import kubernetes, kueue, volcano
from tidepool.lab.schedulers.kind import SchedulerKind
from tidepool.lab.schedulers.kubernetes.api import Api
from tidepool.lab.testbed import RECORDS, Testbed
from tidepool.lab.workload import RunKernel, Sleep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs("local", versions.slurm(CONVERGED), versions.built(toolchain.KUBERNETES)),
]


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One stack for all three, one after the other."""
    with kubernetes_testbed(tmp_path_factory.mktemp("lab")) as it:
        yield it


@contextmanager
def a_trial(testbed: Testbed, kind: SchedulerKind) -> Iterator[Bench]:
    """A trial that has begun; afterwards nothing is left of it."""
    assert kind.missing(testbed) == ()
    scheduler = kind.open(testbed, {})
    records = RECORDS / kind.name
    here = testbed.here(records)
    here.mkdir()
    scheduler.begin(f"{kind.name}.contract.1", Path(records))
    try:
        yield Bench(scheduler, MACHINES, CPUS, lambda: read_records(here, 0.0))
    finally:
        scheduler.end()
    assert left_of(testbed) == []
    assert not any(
        name in ("vc-scheduler", "vc-controllers", "kueue") for name in testbed.pids("kube").values()
    )


def left_of(testbed: Testbed) -> list[str]:
    """Names of the laboratory's objects, but for definitions of kinds."""
    api = Api.of(testbed)
    hooks = "/apis/admissionregistration.k8s.io/v1"
    paths = (
        "/api/v1/namespaces", "/api/v1/pods", "/apis/scheduling.k8s.io/v1/priorityclasses",
        f"{hooks}/mutatingwebhookconfigurations", f"{hooks}/validatingwebhookconfigurations",
    )  # fmt: skip
    try:
        things = [thing for path in paths for thing in api.get(path)["items"]]
    finally:
        api.close()
    metas = [thing["metadata"] for thing in things]
    # An empty namespace is on its way.
    return [
        meta["name"]
        for meta in metas
        if "tidepool/lab" in meta.get("labels", {}) and "deletionTimestamp" not in meta
    ]


class OnKubernetes(ProgramsContract):
    """What is the same for the three of them, beside the contract."""

    def test_a_program_of_mpi_runs_over_the_pods_of_its_job(self, bench: Bench) -> None:
        tasks = MACHINES * CPUS
        ring = job("Ring_1", RunKernel("all_reduce", (1024, 10)), tasks=tasks, memory_mib=200)
        bench.scheduler.submit([ring])
        assert bench.until_ended("Ring_1")["Ring_1"].succeeded
        there = bench.processes()["Ring_1"]
        assert sorted(process.rank for process in there) == list(range(tasks))
        assert {process.machine for process in there} == {"shared-1", "shared-2"}
        assert any(process.figures for process in there)

    def test_a_job_ends_at_its_limit_and_may_be_of_less_than_no_priority(self, bench: Bench) -> None:
        bench.scheduler.submit([job("limited", Sleep(60), limit_s=1.0), job("negative", priority=-5)])
        ended = bench.until_ended("limited", "negative")
        assert (ended["limited"].succeeded, ended["negative"].succeeded) == (False, True)
        assert all(process.ended_s is None for process in bench.processes()["limited"])


class TestKubernetes(OnKubernetes):
    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls, testbed: Testbed) -> Iterator[Bench]:
        with a_trial(testbed, kubernetes.KIND) as it:
            yield it


class TestVolcano(OnKubernetes):
    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls, testbed: Testbed) -> Iterator[Bench]:
        built_tools(toolchain.VOLCANO)
        with a_trial(testbed, volcano.KIND) as it:
            yield it


class TestKueue(OnKubernetes):
    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls, testbed: Testbed) -> Iterator[Bench]:
        built_tools(toolchain.KUEUE)
        with a_trial(testbed, kueue.KIND) as it:
            yield it
