"""Accounts, users and qualities of service as resources, over a real slurmdbd."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.clients.slurm.database import accounted
from tests.clients.slurm.real import RealSlurm, eventually, free_port
from tests.provider.calls import Calls, plainly
from tidepool.clients.here import Here
from tidepool.clients.slurm import accounting as slurm_accounting
from tidepool.clients.slurm.accounting import Accounting, Association, Quality
from tidepool.clients.slurm.usage import AccountRecords, held_accounts
from tidepool.clients.transport import Completed, Transport, late
from tidepool.provider import accounting

pytestmark = pytest.mark.slow

CLUSTER = "contract"
CONTROLLER = {"kind": "local", "stack": "dev", "machine": "ctl"}
_numbers = itertools.count(1)


class Counted:
    """Commands of a machine, counted."""

    def __init__(self, other: Transport) -> None:
        self.other, self.where = other, other.where
        self.loads = 0
        #: Of each load that is to be cut off, how long it has until it is killed; None: only its answer is lost.
        self.cuts: list[float | None] = []

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if "load" not in argv:
            return self.other.run(argv, stdin=stdin, timeout_s=timeout_s)
        self.loads += 1
        cut_s = self.cuts.pop(0) if self.cuts else timeout_s
        ended = self.other.run(argv, stdin=stdin, timeout_s=timeout_s if cut_s is None else cut_s)
        if cut_s is None:
            raise late(argv, timeout_s, self.where)
        return ended

    def close(self) -> None:
        self.other.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    with accounted(tmp_path_factory.mktemp("accounted")) as it:
        here = Accounting(Here(it.environment), CLUSTER)
        # slurmctld tells slurmdbd of its cluster a moment after it started.
        eventually(here.associations, lambda found: ("root", "root") in found)
        yield it


@pytest.fixture
def there(running: RealSlurm) -> Accounting:
    """What somebody else does with sacctmgr."""
    return Accounting(Here(running.environment), CLUSTER)


@pytest.fixture
def commands(running: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Those of the controller."""
    counted = Counted(Here(running.environment))
    monkeypatch.setattr(accounting, "transport", lambda connection, data: counted)
    return counted


@pytest.fixture
def name() -> str:
    """An account that no other test has, nor one whose name begins so."""
    return f"physics{next(_numbers):03}"


class Slurmdbd:
    """The kinds, asked about one database."""

    def __init__(self, data: Path) -> None:
        self.account = Calls(data, "tidepool:slurm:Account")
        self.tree = Calls(data, "tidepool:slurm:Accounts")
        self.association = Calls(data, "tidepool:slurm:Association")
        self.qos = Calls(data, "tidepool:slurm:Qos")


@pytest.fixture
def slurmdbd(tmp_path: Path, commands: Counted, monkeypatch: pytest.MonkeyPatch) -> Slurmdbd:
    """One at which is looked anew each time."""
    monkeypatch.setattr(accounting, "_FRESH_S", 0.0)
    return Slurmdbd(tmp_path)


def inputs(**more: Any) -> Mapping[str, Any]:
    return {"controller": CONTROLLER, "cluster": CLUSTER, **more}


def created(calls: Calls, **more: Any) -> tuple[str, dict[str, Any]]:
    """The id and the state of one that was made."""
    answer = calls.create(calls.checked(inputs(**more)))
    assert answer.resource_id is not None
    return answer.resource_id, plainly(answer.properties)


def drift(calls: Calls, id: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a refresh finds changed."""
    read = plainly(calls.read(id, state, state).properties)
    return {key: value for key, value in read.items() if state.get(key) != value}


def test_an_account_is_made_shown_as_somebody_changed_it_and_mended(
    slurmdbd: Slurmdbd, there: Accounting, name: str
) -> None:
    created(slurmdbd.account, account=f"{name}.top")
    limits = {"GrpTRES": "cpu=64"}
    id, state = created(
        slurmdbd.account, account=name, parent=f"{name}.top", shares=3, limits=limits, qos=["normal"]
    )
    assert drift(slurmdbd.account, id, state) == {}
    theirs = Association(name, shares=9, limits={"MaxJobs": "1"})
    there.set_associations([theirs], there.associations())
    changed = {"shares": 9, "limits": {"MaxJobs": "1"}, "parent": "root", "qos": []}
    assert drift(slurmdbd.account, id, state) == changed
    slurmdbd.account.update(id, {**state, **changed}, state)
    assert drift(slurmdbd.account, id, state) == {}


def test_a_description_is_written_when_it_changes_and_with_an_account_that_was_lost(
    slurmdbd: Slurmdbd, commands: Counted, there: Accounting, name: str
) -> None:
    def description() -> str:
        argv = ["sacctmgr", "-nP", "show", "account", f"name={name}", "format=Descr"]
        return commands.run(argv, timeout_s=30).stdout.strip()

    id, state = created(slurmdbd.account, account=name, description="high energy")
    assert description() == "high energy"
    slurmdbd.account.update(id, state, {**state, "shares": 3})
    assert description() == "high energy"
    other = {**state, "description": "low energy"}
    slurmdbd.account.update(id, state, other)
    assert description() == "low energy"
    there.delete_accounts([name])
    slurmdbd.account.update(id, other, {**other, "shares": 3})
    assert description() == "low energy"


def test_the_hold_of_a_spent_budget_is_no_difference_and_stays_until_the_budget_changes(
    slurmdbd: Slurmdbd, commands: Counted, there: Accounting, name: str
) -> None:
    held, records = {"GrpJobs": "0", "MaxJobs": "5"}, AccountRecords(commands, CLUSTER)
    id, state = created(slurmdbd.account, account=name, limits={"MaxJobs": "5"}, budget={"usdPerMonth": 5})
    records.set_holding_limit([name], "0")
    assert held_accounts(records.limits())[name]
    records.set_holding_limit([f"{name}.gone"], "-1")
    assert drift(slurmdbd.account, id, state) == {}
    other = {**state, "shares": 7}
    slurmdbd.account.update(id, state, other)
    assert there.associations()[name, ""].limits == held
    raised = {**other, "budget": {"usdPerMonth": 50}}
    slurmdbd.account.update(id, other, raised)
    assert there.associations()[name, ""].limits == {"MaxJobs": "5"}
    # Without a budget it is somebody's hand.
    plain = {**other, "budget": {}}
    slurmdbd.account.update(id, raised, plain)
    records.set_holding_limit([name], "0")
    assert drift(slurmdbd.account, id, plain) == {"limits": held}


def test_a_user_of_several_accounts_has_the_default_that_is_asked_for(
    slurmdbd: Slurmdbd, there: Accounting, name: str
) -> None:
    made = {}
    for account, default in ((f"{name}.a", False), (f"{name}.b", True)):
        created(slurmdbd.account, account=account)
        made[account] = created(slurmdbd.association, account=account, user="ada", default=default)
    assert there.associations()[f"{name}.b", "ada"].is_default
    there.set_associations([Association(f"{name}.a", "ada", is_default=True)])
    id, state = made[f"{name}.b"]
    assert drift(slurmdbd.association, id, state) == {"default": False}
    assert drift(slurmdbd.association, *made[f"{name}.a"]) == {}
    slurmdbd.association.update(id, {**state, "default": False}, state)
    assert there.associations()[f"{name}.b", "ada"].is_default


def test_who_may_use_an_account_is_who_it_names(slurmdbd: Slurmdbd, there: Accounting, name: str) -> None:
    users = {"ada": {}, "grace": {"shares": 2, "limits": {"MaxJobs": "3"}, "default": True}}
    id, state = created(slurmdbd.account, account=name, users=users)
    assert drift(slurmdbd.account, id, state) == {}
    there.set_associations([Association(name, "eve"), Association(name, "ada", shares=5)])
    there.delete_users([(name, "grace")], there.associations())
    found = drift(slurmdbd.account, id, state)
    assert found == {"users": {"ada": {"shares": 5}, "eve": {}}}
    slurmdbd.account.update(id, {**state, **found}, state)
    assert drift(slurmdbd.account, id, state) == {}
    slurmdbd.account.update(id, state, {**state, "users": {"ada": {}}})
    assert {user for account, user in there.associations() if account == name} == {"", "ada"}


def test_many_at_once_are_few_writes(slurmdbd: Slurmdbd, commands: Counted, name: str) -> None:
    created(slurmdbd.account, account=name)
    before = commands.loads
    with ThreadPoolExecutor(32) as threads:
        users = [f"user{number}" for number in range(96)]
        list(threads.map(lambda user: created(slurmdbd.association, account=name, user=user), users))
    assert commands.loads - before <= 8
    assert {user for account, user in Accounting(commands, CLUSTER).associations() if account == name} == {
        "",
        *users,
    }


def test_many_go_at_once_and_slurmdbd_lives(slurmdbd: Slurmdbd, there: Accounting, name: str) -> None:
    """Of deletions side by side it would die, and might not start again."""
    with ThreadPoolExecutor(32) as threads:
        names = [f"{name}.{number}" for number in range(64)]
        made = list(
            threads.map(lambda account: created(slurmdbd.account, account=account, users={"ada": {}}), names)
        )
        list(threads.map(lambda each: slurmdbd.account.delete(*each), made))
    assert not [account for account, _ in there.associations() if account in names]


def test_one_that_is_refused_holds_up_no_other(slurmdbd: Slurmdbd, there: Accounting, name: str) -> None:
    created(slurmdbd.account, account=name)
    accounts = [name, f"{name}.none", name, name]

    def attempt(number: int) -> str:
        try:
            return created(slurmdbd.association, account=accounts[number], user=f"ada{number}")[0]
        except Exception as error:  # noqa: BLE001 - its words are what is looked at
            return str(error)

    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(attempt, range(4)))
    assert said[1].startswith(f"slurmdbd does not take {name}.none/ada1: ")
    assert {user for account, user in there.associations() if account == name} == {"", "ada0", "ada2", "ada3"}


def users_of(there: Accounting, name: str) -> dict[str, set[str]]:
    """The users of the accounts whose names begin so."""
    found: dict[str, set[str]] = {}
    for account, user in there.associations():
        if account.startswith(name):
            found.setdefault(account, set()).update([user] if user else [])
    return found


def test_a_tree_is_made_shown_as_somebody_changed_it_and_mended(
    slurmdbd: Slurmdbd, commands: Counted, there: Accounting, name: str
) -> None:
    # Children stand before their parents.
    top, below, deep = f"{name}.z", f"{name}.y", f"{name}.x"
    wanted: dict[str, dict[str, Any]] = {
        deep: {"parent": below, "users": {"ada": {}}},
        below: {"parent": top, "limits": {"MaxJobs": "5"}, "budget": {"usdPerMonth": 5}},
        top: {"shares": 3, "users": {"grace": {"default": True}}},
    }
    before = commands.loads
    id, state = created(slurmdbd.tree, accounts=wanted)
    assert commands.loads == before + 1
    assert drift(slurmdbd.tree, id, state) == {}
    assert {name: each.parent for (name, user), each in there.associations().items() if name in wanted and not user} == {
        deep: below, below: top, top: "root"
    }  # fmt: skip
    theirs = [Association(below, parent=top, limits={"MaxJobs": "9"}), Association(top, "eve")]
    there.set_associations(theirs, there.associations())
    AccountRecords(commands, CLUSTER).set_holding_limit([below], "0")
    there.delete_users([(deep, "ada")], there.associations())
    there.delete_accounts([deep])
    changed = drift(slurmdbd.tree, id, state)["accounts"]
    assert changed == {
        below: {**wanted[below], "limits": {"MaxJobs": "9"}},
        top: {**wanted[top], "users": {"eve": {}, "grace": {"default": True}}},
    }
    slurmdbd.tree.update(id, {**state, "accounts": changed}, state)
    assert drift(slurmdbd.tree, id, state) == {}
    assert users_of(there, name) == {deep: {"ada"}, below: set(), top: {"grace"}}
    assert there.associations()[below, ""].limits == {"GrpJobs": "0", "MaxJobs": "5"}
    slurmdbd.tree.delete(id, state)
    assert users_of(there, name) == {}


def test_a_tree_whose_writing_is_cut_off_anywhere_is_whole_after_the_next(
    slurmdbd: Slurmdbd, commands: Counted, there: Accounting, name: str
) -> None:
    below = {
        f"{name}.{i}": {"parent": name, "users": {f"{name}u{i}": {}, f"{name}v{i}": {}}} for i in range(100)
    }
    wanted: dict[str, dict[str, Any]] = {name: {"limits": {"MaxJobs": "5"}}, **below}
    for cut_s in (0.02, 0.05, 0.1, None):
        commands.cuts = [cut_s]
        with pytest.raises(Exception, match="did not end within"):
            created(slurmdbd.tree, accounts=wanted)
        assert set(users_of(there, name)) <= wanted.keys()
    id, state = created(slurmdbd.tree, accounts=wanted)
    assert users_of(there, name) == {account: {*each.get("users", {})} for account, each in wanted.items()}
    assert there.associations()[name, ""].limits == {"MaxJobs": "5"}
    assert drift(slurmdbd.tree, id, state) == {}
    slurmdbd.tree.delete(id, state)


def test_a_tree_that_is_too_large_for_one_load_is_written_by_several(
    slurmdbd: Slurmdbd, commands: Counted, there: Accounting, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 2,000 accounts and 10,000 users would take a minute, and no more than that is waited for."""
    monkeypatch.setattr(slurm_accounting, "_AT_A_TIME", 2)
    wanted = {
        f"{name}.{i}": {"parent": f"{name}.{i - 1}" if i else "", "users": {"ada": {}}} for i in range(4)
    }
    before = commands.loads
    id, state = created(slurmdbd.tree, accounts=wanted)
    assert commands.loads == before + 4
    assert users_of(there, name) == {account: {"ada"} for account in wanted}
    assert there.associations()[f"{name}.3", ""].parent == f"{name}.2"
    slurmdbd.tree.delete(id, state)


def test_of_a_tree_accounts_move_come_and_go_with_the_one_that_they_were_in(
    slurmdbd: Slurmdbd, there: Accounting, name: str
) -> None:
    old, new, moved = f"{name}.old", f"{name}.new", f"{name}.moved"
    wanted: dict[str, Any] = {old: {"users": {"ada": {}}}, moved: {"parent": old}}
    id, state = created(slurmdbd.tree, accounts=wanted)
    after = {**state, "accounts": {moved: {"parent": new, "users": {"ada": {}}}, new: {}}}
    slurmdbd.tree.update(id, state, after)
    assert users_of(there, name) == {moved: {"ada"}, new: set()}
    assert there.associations()[moved, ""].parent == new
    assert drift(slurmdbd.tree, id, after) == {}


def test_of_a_tree_one_that_is_refused_holds_up_no_other(
    slurmdbd: Slurmdbd, there: Accounting, name: str
) -> None:
    kept, gone, wrong = f"{name}.kept", f"{name}.gone", f"{name}.wrong"
    id, state = created(slurmdbd.tree, accounts={kept: {}, gone: {}})
    there.set_associations([Association(gone, "eve")])
    wanted = {kept: {"shares": 7}, wrong: {"qos": ["none"]}}
    with pytest.raises(Exception, match=f"the account {gone} cannot go: below it are eve") as told:
        slurmdbd.tree.update(id, state, {**state, "accounts": wanted})
    assert f"slurmdbd does not take the account {wrong}: " in str(told.value)
    assert there.associations()[kept, ""].shares == 7
    assert users_of(there, name)[gone] == {"eve"}


def test_what_a_tree_has_by_mistake_is_told_by_its_account(slurmdbd: Slurmdbd) -> None:
    wanted = inputs(accounts={"physics": {"shares": "many"}, "optics": {"colour": "red"}})
    assert set(slurmdbd.tree.failures(wanted)) == {"accounts.physics.shares", "accounts.optics.colour"}
    assert set(slurmdbd.tree.failures(inputs(accounts={"physics": "all"}))) == {"accounts.physics"}
    odd = inputs(accounts={"physics": {"parent": ["optics"]}})
    assert set(slurmdbd.tree.failures(odd)) == {"accounts.physics.parent"}
    cycle = inputs(accounts={"physics": {"parent": "optics"}, "optics": {"parent": "physics"}})
    assert "is above" in slurmdbd.tree.failures(cycle)["accounts"]


def test_accounts_of_an_older_state_that_go_are_the_trees(
    slurmdbd: Slurmdbd, there: Accounting, name: str
) -> None:
    """Once each account was a resource; the `up` that makes one of them all takes those out of the state."""
    old, state = created(slurmdbd.account, account=name, users={"ada": {}})
    tree = inputs(accounts={name: {"users": {"ada": {}}}})
    slurmdbd.tree.checked(tree)
    slurmdbd.account.delete(old, state)
    assert users_of(there, name) == {name: {"ada"}}
    id, state = created(slurmdbd.tree, accounts=tree["accounts"])
    slurmdbd.tree.delete(id, state)
    assert users_of(there, name) == {}


def test_an_account_with_users_that_nobody_here_made_stays(
    slurmdbd: Slurmdbd, there: Accounting, name: str
) -> None:
    id, state = created(slurmdbd.account, account=name)
    there.set_associations([Association(name, "eve")])
    with pytest.raises(Exception, match=f"the account {name} cannot go: below it are eve"):
        slurmdbd.account.delete(id, state)
    there.delete_users([(name, "eve")], there.associations())
    for _ in range(2):
        slurmdbd.account.delete(id, state)
    assert (name, "") not in there.associations()
    assert slurmdbd.account.read(id, state, state).resource_id is None


def test_a_quality_of_service_is_made_shown_as_it_is_mended_and_deleted(
    slurmdbd: Slurmdbd, there: Accounting, name: str
) -> None:
    wanted = {"qos": name, "preempts": ["normal"], "preemptMode": "requeue", "limits": {"Priority": "10"}}
    calls = slurmdbd.qos
    answer = calls.create(calls.checked({"controller": CONTROLLER, **wanted}))
    id, state = str(answer.resource_id), plainly(answer.properties)
    assert drift(calls, id, state) == {}
    there.set_quality(Quality(name, flags=("NoDecay",), limits={"GraceTime": "30"}), there.qualities()[name])
    changed = drift(calls, id, state)
    assert changed == {
        "preempts": [],
        "preemptMode": "cluster",
        "flags": ["NoDecay"],
        "limits": {"GraceTime": "30"},
    }
    calls.update(id, {**state, **changed}, state)
    assert drift(calls, id, state) == {}
    for _ in range(2):
        calls.delete(id, state)
    assert name not in there.qualities()


def test_without_slurmdbd_nothing_is_gone(
    slurmdbd: Slurmdbd, commands: Counted, running: RealSlurm, tmp_path: Path
) -> None:
    conf = Path(running.environment["SLURM_CONF"]).read_text()
    (tmp_path / "slurm.conf").write_text(
        re.sub(r"AccountingStoragePort=\d+", f"AccountingStoragePort={free_port()}", conf)
    )
    commands.other = Here({**running.environment, "SLURM_CONF": str(tmp_path / "slurm.conf")})
    state = plainly(slurmdbd.account.checked(inputs(account="physics")))
    assert drift(slurmdbd.account, "contract/physics", state) == {}
