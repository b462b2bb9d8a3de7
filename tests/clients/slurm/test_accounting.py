"""Accounts, users and qualities of service in a real slurmdbd."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.clients.slurm.database import accounted
from tests.clients.slurm.real import RealSlurm, eventually
from tests.clients.slurm.world import RealWorld, up, wait_for_job
from tidepool.clients.here import Here
from tidepool.clients.slurm import JobRequest, JobState, Slurm
from tidepool.clients.slurm.accounting import Accounting, Association, Quality
from tidepool.clients.slurm.contract import DatabaseDown, Refused
from tidepool.clients.slurm.limits import Use, holding

CLUSTER = "contract"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    with accounted(tmp_path_factory.mktemp("accounted")) as it:
        with Slurm(Here(it.environment)) as slurm:
            # Whose account Slurm does not know runs nothing; root is in Slurm's own.
            up(RealWorld(it, slurm, slurm), 1)
        yield it


@pytest.fixture
def accounting(running: RealSlurm) -> Accounting:
    return Accounting(Here(running.environment), CLUSTER)


@pytest.fixture
def name() -> str:
    """An account that no other test has."""
    return f"physics{next(_numbers)}"


def test_a_tree_is_written_at_once_and_read_as_it_was_written(accounting: Accounting, name: str) -> None:
    limits = {"GrpTRES": "cpu=5,mem=1537M", "MaxWallDurationPerJob": "90"}
    tree = [
        Association(name, shares=5, limits=limits),
        Association(f"{name}.optics", parent=name),
        Association(name, "ada"),
        Association(f"{name}.optics", "ada", shares=7, limits={"MaxJobs": "3"}, is_default=True),
        Association(f"{name}.optics", "grace", is_default=True),
    ]
    for _ in range(2):
        accounting.set_associations(tree)
        there = accounting.associations()
        top = Association(name, parent="root", shares=5, limits=limits)
        assert [there[each.key] for each in tree] == [top, *tree[1:]]


def test_what_differs_is_changed_and_limits_are_taken_away(accounting: Accounting, name: str) -> None:
    limits = {"GrpTRES": "cpu=5,node=2", "MaxJobs": "3", "GrpWall": "60"}
    accounting.set_associations([Association(name, limits=limits), Association(f"{name}.b")])
    changed = Association(name, parent=f"{name}.b", shares=9, limits={"MaxJobs": "4"})
    accounting.set_associations([changed], accounting.associations())
    found = accounting.associations()[name, ""]
    assert (found.shares, found.limits, found.parent) == (9, {"MaxJobs": "4"}, f"{name}.b")
    accounting.set_associations([Association(name, shares=9)], accounting.associations())
    assert accounting.associations()[name, ""] == Association(name, parent="root", shares=9)


def test_qualities_of_service_of_an_account_are_taken_away(accounting: Accounting, name: str) -> None:
    accounting.add_quality(Quality(name))
    accounting.set_associations([Association(name, qos=(name, "normal"), default_qos=name)])
    there = accounting.associations()[name, ""]
    assert (sorted(there.qos), there.default_qos) == (sorted((name, "normal")), name)
    for qos, default in ((("normal",), "normal"), ((), "")):
        accounting.set_associations(
            [Association(name, qos=qos, default_qos=default)], accounting.associations()
        )
        there = accounting.associations()[name, ""]
        assert (there.qos, there.default_qos) == (qos, default)


def test_users_leave_some_of_their_accounts_or_all(accounting: Accounting, name: str) -> None:
    accounts = [f"{name}.{each}" for each in "abc"]
    ada, grace, eve = users = [f"{each}.{name}" for each in ("ada", "grace", "eve")]
    accounting.set_associations(
        [
            *map(Association, accounts),
            *(
                Association(account, user, is_default=account == accounts[1])
                for user in users
                for account in accounts
            ),
        ]
    )

    def left_after(*gone: tuple[str, str]) -> dict[tuple[str, str], bool]:
        accounting.delete_users(gone, accounting.associations())
        there = accounting.associations()
        return {key: each.is_default for key, each in there.items() if key[0] in accounts and key[1]}

    # Their default, another one, and all.
    left = left_after((accounts[1], ada), (accounts[0], grace), *((account, eve) for account in accounts))
    assert left == {
        (accounts[0], ada): True,
        (accounts[2], ada): False,
        (accounts[1], grace): True,
        (accounts[2], grace): False,
    }
    assert left_after(*left, (accounts[0], "nobody")) == {}


def test_a_quality_of_service_is_made_changed_and_deleted(accounting: Accounting, name: str) -> None:
    limits = {"GraceTime": "30", "MaxTRESPerUser": "cpu=5,mem=3M", "Priority": "10", "UsageFactor": "0.5"}
    wanted = Quality(name, "for the night", ("normal",), "requeue", ("DenyOnLimit", "NoDecay"), limits)
    for _ in range(2):
        accounting.set_quality(wanted, accounting.add_quality(wanted))
        found = accounting.qualities()[name]
        assert set(found.flags) == set(wanted.flags)
        assert (found.description, found.preempts, found.preempt_mode) == (
            "for the night",
            ("normal",),
            "requeue",
        )
        assert found.limits == limits
    accounting.set_quality(Quality(name), accounting.qualities()[name])
    assert accounting.qualities()[name] == Quality(name, name)
    for _ in range(2):
        accounting.delete_quality(name)
    assert name not in accounting.qualities()


def test_a_user_of_an_account_that_is_not_there_is_refused(accounting: Accounting, name: str) -> None:
    with pytest.raises(Refused, match="add this parent"):
        accounting.set_associations([Association(f"{name}.none", "ada")])
    assert (f"{name}.none", "ada") not in accounting.associations()


def test_a_limit_holds_a_job_and_its_account_stays_until_the_job_has_ended(
    running: RealSlurm, accounting: Accounting, name: str
) -> None:
    accounting.set_associations([Association(name, limits={"GrpTRES": "cpu=1"}), Association(name, "root")])
    with Slurm(Here(running.environment)) as slurm:
        world = RealWorld(running, slurm, slurm)
        request = JobRequest("#!/bin/sh\nsleep 600\n", output="/dev/null", account=name)
        first, second = (eventually(lambda: slurm.submit(request), bool).job_id for _ in range(2))
        wait_for_job(world, first, JobState.RUNNING)
        (waits,) = eventually(lambda: slurm.job(second), lambda jobs: jobs[0].reason == "AssocGrpCpuLimit")
        assert waits.state is JobState.PENDING
        ((who, limit, use),) = holding(waits.reason, name, "root", waits.qos, slurm.limits())
        assert (str(who), limit, use) == (f"the account {name}", ("GrpTRES", "cpu"), Use("1", "1"))
        with pytest.raises(Refused, match=r"(?i)job"):
            accounting.delete_users([(name, "root")], accounting.associations())
        for job in (first, second):
            slurm.cancel(job)
        wait_for_job(world, first, JobState.CANCELLED)
    for _ in range(2):
        eventually(lambda: _is_deleted(accounting, name, "root"), bool)
        accounting.delete_accounts([name])
    assert not [key for key in accounting.associations() if key[0] == name]


def test_without_slurmdbd_nothing_is_there_to_be_taken_for_gone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with accounted(tmp_path_factory.mktemp("down")) as it:
        accounting = Accounting(Here(it.environment), CLUSTER)
        it.kill("slurmdbd")
        with pytest.raises(DatabaseDown):
            accounting.associations()
        with pytest.raises(DatabaseDown):
            accounting.set_associations([Association("physics")])


def _is_deleted(accounting: Accounting, account: str, user: str) -> bool:
    try:
        accounting.delete_users([(account, user)], accounting.associations())
    except Refused:
        return False  # slurmdbd hears of a job's end a moment later
    return True
