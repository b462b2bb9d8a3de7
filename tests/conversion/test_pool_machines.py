"""Where machines of pools are, as `kubectl get poolmachines` tells it: what is said of each, and what is written of that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.contract import KubernetesError, NotFound
from tidepool.clients.kubernetes.objects import PoolMachine
from tidepool.clients.kubernetes.pool_machines import RIGHTS, body_of, read_pool_machine
from tidepool.cluster.roles import Role
from tidepool.conversion.pool_machines import pool_machine, show, without_failing
from tidepool.conversion.record import Conversion, Order, Phase

AT = datetime(2026, 11, 27, 12, tzinfo=UTC)


def conversion(phase: Phase, to: Role = "slurm", text: str = "", id: int = 1) -> Conversion:
    order = Order("shared-1", "shared", to, AT, "scaler", "job 7 needs it")
    ended = AT + timedelta(seconds=2) if phase in ("done", "stopped", "failed") else None
    return Conversion(id, order, "kubernetes", phase, ended=ended, text=text)


def told(role: Role | None, *conversions: Conversion, **more: object) -> PoolMachine:
    return pool_machine("shared-1", "shared", "dev", role, conversions, **more)  # type: ignore[arg-type]


def test_one_that_is_slurms_is_absent_since_when_for_whom_and_with_its_jobs() -> None:
    found = told("slurm", conversion("done"), jobs=(9, 7, 8, 10, 11))
    assert found == PoolMachine(
        "shared-1", "dev", "shared", "Slurm", "Absent", "7, 8, 9, 10, ...", "2026-11-27T12:00:02Z", "scaler: job 7 needs it"
    )  # fmt: skip


def test_one_on_its_way_says_how_far_it_is_and_what_holds_it() -> None:
    going = conversion("emptying", text="budget web allows no eviction", id=2)
    found = told("kubernetes", going, conversion("done", "kubernetes"), node="Held")
    assert (found.node, found.role) == ("Held", "Kubernetes")
    assert (
        found.reason == "scaler: job 7 needs it; it moves to Slurm (emptying: budget web allows no eviction)"
    )


def test_what_is_wrong_with_one_goes_before_who_ordered_it() -> None:
    held = told("kubernetes", conversion("done", "kubernetes"), node="Held", amiss="root cordoned it")
    assert (held.reason, held.since) == ("root cordoned it", "2026-11-27T12:00:02Z")
    failed = told(None, conversion("failed", text="slurmd does not start"))
    assert (failed.role, failed.reason) == ("None", "its conversion to Slurm failed: slurmd does not start")
    assert "no conversion of it is known" in told("kubernetes").reason


def test_one_that_stayed_what_it_was_says_since_when_it_is_that() -> None:
    stopped = conversion("stopped", "kubernetes", "cancelled", id=2)
    assert told("slurm", stopped, conversion("done")).since == "2026-11-27T12:00:02Z"


def test_an_object_says_all_of_it_and_no_more() -> None:
    found = told("slurm", conversion("done"))
    assert read_pool_machine(body_of(found)) == found
    assert "jobs" not in body_of(found)["status"]
    spoilt = {**body_of(found), "status": {"pool": 7}}
    assert read_pool_machine(spoilt) == PoolMachine("shared-1", "dev")


def test_what_has_changed_is_written_and_what_is_of_no_pool_any_more_goes() -> None:
    fake = FakeKubernetes()
    one, two = (PoolMachine(f"shared-{number}", "dev", "shared") for number in (1, 2))
    others = PoolMachine("cpu-1", "another")
    fake.put_pool_machine(others)
    show(fake, "dev", [one, two])
    assert set(fake.pool_machines_there.values()) == {one, two, others}
    # Somebody writes something else, and it is written again.
    fake.put_pool_machine(replace(one, role="Slurm"))
    show(fake, "dev", [one])
    assert set(fake.pool_machines_there.values()) == {one, others}


def test_nothing_is_written_where_all_is_as_it_was() -> None:
    fake = FakeKubernetes()
    one = PoolMachine("shared-1", "dev", "shared")
    show(fake, "dev", [one])
    fake.denied.update(right for right in RIGHTS if right.verb != "list")
    show(fake, "dev", [one])


def test_a_kubernetes_that_does_not_know_them_is_left_alone() -> None:
    fake = FakeKubernetes(has_pool_machines=False)
    with pytest.raises(NotFound):
        show(fake, "dev", [])
    without_failing(lambda: show(fake, "dev", []))
    fake.api = "down"
    with pytest.raises(KubernetesError):
        show(fake, "dev", [])
    without_failing(lambda: show(fake, "dev", []))
