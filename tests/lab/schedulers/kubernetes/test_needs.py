"""What is missing for a scheduler on Kubernetes is said first, each with its remedy; nothing is asked of any server for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidepool.infrastructures.connection import transport
from tidepool.lab.errors import LabError
from tidepool.lab.hosting.local import LocalHosting
from tidepool.lab.schedulers import kubernetes, kueue, volcano
from tidepool.lab.schedulers.registry import SCHEDULERS, scheduler_kind
from tidepool.lab.testbed import PROGRAMS, RECORDS, Testbed


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    """A stack with a Kubernetes, by its files; nothing of it runs."""
    return Testbed(
        stack="dev",
        machines=("shared-1",),
        cpus_per_machine=1,
        memory_mib=512,
        home=tmp_path / "home",
        programs=PROGRAMS,
        records=RECORDS,
        controller=transport({"kind": "local", "stack": "dev", "machine": "ctl"}, tmp_path),
        kubeconfig=tmp_path / "kubeconfig",
        pids=lambda machine: {},
        data=tmp_path,
        hosting=LocalHosting(tmp_path, "dev"),
    )


@pytest.mark.parametrize("name", ["volcano", "kueue"])
def test_one_that_is_not_built_is_told_with_what_builds_it(
    name: str, testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (lack,) = SCHEDULERS[name].missing(testbed)
    assert "is not built for this machine" in lack
    assert f"`make {name}` builds it" in lack
    with pytest.raises(LabError, match=f"`make {name}` builds it"):
        SCHEDULERS[name].open(testbed, {})


def test_a_stack_without_kubernetes_is_told_what_to_write(testbed: Testbed) -> None:
    (lack,) = kubernetes.KIND.missing(replace(testbed, kubeconfig=None))
    assert "write `kubernetes: {}` into its spec, then `tidepool up`" in lack
    assert kubernetes.KIND.missing(testbed) == ()


def test_one_whose_access_is_gone_is_told_what_writes_it(testbed: Testbed) -> None:
    with pytest.raises(LabError, match=r"there is no access kubernetes-admin .* `tidepool up` writes it"):
        kubernetes.KIND.open(testbed, {})


def test_options_that_it_has_not_are_told_with_those_that_it_has(testbed: Testbed) -> None:
    with pytest.raises(LabError, match="scheduler kubernetes has no option speed; it has none"):
        kubernetes.KIND.open(testbed, {"speed": 1})
    with pytest.raises(LabError, match="scheduler kueue has no option speed; it has none"):
        kueue.KIND.open(testbed, {"speed": 1})
    with pytest.raises(LabError, match="no option period, speed; it has schedule_period_s"):
        volcano.KIND.open(testbed, {"speed": 1, "period": 2})


def test_a_scheduler_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(LabError, match=r"there is no scheduler 'pbs'; write one of .*kubernetes, kueue, "):
        scheduler_kind("pbs")
    for name, kind in SCHEDULERS.items():
        assert scheduler_kind(name) is kind
        assert kind.name == name
