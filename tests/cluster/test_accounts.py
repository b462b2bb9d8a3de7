"""Accounts of a spec: what is read, in which form limits are kept, and what is said of mistakes."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.specs import spec_mapping
from tidepool.cluster import slurm_limits
from tidepool.cluster.accounts import Account, default_accounts
from tidepool.cluster.slurm_limits import ASSOCIATION, QOS, canonical, cleared, read_limits
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec

#: Users are no matter here.
_DIRECTORY: Final = {"directory": {"system": True}}


def _spec(**keys: Any) -> dict[str, Any]:
    return {**spec_mapping(), "controller": {"accounting": {}}, **_DIRECTORY, **keys}


def _read(**keys: Any) -> ClusterSpec:
    return read_spec(_spec(**keys))


def _said(**keys: Any) -> list[str]:
    with pytest.raises(SpecError) as refused:
        read_spec(_spec(**keys))
    return [str(mistake) for mistake in refused.value.mistakes]


def test_accounts_are_read_with_their_users_and_limits() -> None:
    spec = _read(
        qos=[
            {
                "name": "urgent",
                "preempts": ["normal"],
                "limits": {"priority": 100, "MaxTRESPU": "mem=1T,cpu=64"},
            }
        ],
        accounts=[
            {"name": "optics", "parent": "physics", "users": ["ada", {"name": "grace", "shares": 3}]},
            {
                "name": "physics",
                "shares": 60,
                "limits": {"MaxWall": "1-12", "GrpTRES": "cpu=512"},
                "qos": ["urgent"],
            },
        ],
    )
    (urgent,) = spec.qos
    assert urgent.limits == {"MaxTRESPerUser": "cpu=64,mem=1048576M", "Priority": "100"}
    optics, physics = spec.accounts
    assert physics.limits == {"GrpTRES": "cpu=512", "MaxWallDurationPerJob": "2160"}
    assert [(user.name, user.shares) for user in optics.users] == [("ada", 1), ("grace", 3)]


def test_the_default_account_is_the_first_or_the_one_that_says_so() -> None:
    accounts = [
        Account.model_validate({"name": "a", "users": ["ada", "grace"]}),
        Account.model_validate({"name": "b", "users": ["ada", {"name": "grace", "default": True}]}),
    ]
    assert default_accounts(accounts) == {"ada": "a", "grace": "b"}


@pytest.mark.parametrize(
    ("limit", "written", "form"),
    [
        ("MaxJobs", 10, "10"),
        ("MaxJobs", "010", "10"),
        ("MaxWall", "90", "90"),
        ("MaxWall", "1:30", "2"),
        ("MaxWall", "1:30:00", "90"),
        ("MaxWall", "1-2", "1560"),
        ("GrpTRES", "node=4, cpu=64", "cpu=64,node=4"),
        ("GrpTRES", "mem=4T,gres/gpu:a100=8", "gres/gpu:a100=8,mem=4194304M"),
        ("GrpTRES", "mem=1.5G", "mem=1536M"),
    ],
)
def test_a_limit_has_one_form(limit: str, written: str | int, form: str) -> None:
    assert canonical(ASSOCIATION[limit.lower()], written) == form


@given(st.sampled_from([*ASSOCIATION.values(), *QOS.values()]), st.data())
def test_the_form_of_a_form_is_itself(limit: slurm_limits.Limit, data: st.DataObject) -> None:
    count = st.integers(0, 2**32 - 3)
    values: dict[str, st.SearchStrategy[Any]] = {
        "count": count,
        "minutes": st.builds(
            "{}-{:02}:{:02}:{:02}".format, *(st.integers(0, most) for most in (40, 23, 59, 59))
        ),
        "seconds": st.builds("{}:{:02}:{:02}".format, *(st.integers(0, most) for most in (40, 59, 59))),
        "factor": st.floats(0, 1e4, allow_nan=False).map(lambda each: f"{each:.3f}"),
        "tres": st.dictionaries(st.sampled_from(["cpu", "mem", "node", "gres/gpu"]), count, min_size=1).map(
            lambda each: ",".join(f"{name}={amount}" for name, amount in each.items())
        ),
    }
    form = canonical(limit, data.draw(values[limit.kind]))
    assert canonical(limit, form) == form
    assert cleared(limit, form)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"MaxJob": 3}, "the nearest that there is is MaxJobs"),
        ({"MaxJobs": -1}, "whole number from 0"),
        ({"MaxJobs": True}, "one number or text"),
        ({"GrpTRES": "64"}, "counts by resource"),
        ({"GrpTRES": "cpu=64,cpu=3"}, "cpu twice"),
        ({"GrpTRES": "mem=many"}, "a size such as 512G"),
        ({"MaxWall": "soon"}, "minutes, hours:minutes:seconds"),
        ({"MaxWall": 10, "MaxWallDurationPerJob": 20}, "which stands here already"),
        ("MaxJobs=3", "by their names in Slurm"),
    ],
)
def test_a_limit_that_slurm_does_not_take_is_told_with_the_remedy(limits: Any, word: str) -> None:
    (said,) = _said(accounts=[{"name": "physics", "limits": limits}])
    assert said.startswith("accounts[0].limits")
    assert word in said


@pytest.mark.parametrize(
    ("keys", "path", "word"),
    [
        ({"controller": {}, "accounts": [{"name": "a"}]}, "accounts", "controller: {accounting: {}}"),
        ({"accounts": [{"name": "a"}, {"name": "a"}]}, "accounts[1].name", "has this name already"),
        ({"accounts": [{"name": "a", "parent": "b"}]}, "accounts[0].parent", "there is no such account"),
        (
            {"accounts": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
            "accounts[0].parent",
            "in a circle: a -> b -> a",
        ),
        ({"accounts": [{"name": "a", "qos": ["fast"]}]}, "accounts[0].qos[0]", "no such quality of service"),
        ({"accounts": [{"name": "a", "default_qos": "normal"}]}, "accounts[0].default_qos", "add it there"),
        ({"accounts": [{"name": "a", "users": ["ada", "ada"]}]}, "accounts[0].users[1].name", "already"),
        (
            {
                "accounts": [
                    {"name": "a", "users": [{"name": "ada", "default": True}]},
                    {"name": "b", "users": [{"name": "ada", "default": True}]},
                ]
            },
            "accounts[1].users[0].default",
            "accounts[0] is their default already",
        ),
        ({"accounts": [{"name": "root"}]}, "accounts[0].name", "Slurm's own account"),
        ({"accounts": [{"name": "Physics"}]}, "accounts[0].name", "small letters"),
        ({"accounts": [{"name": "a", "users": ["Ada"]}]}, "accounts[0].users[0].name", "small letter"),
        ({"qos": [{"name": "fast", "preempts": ["fast"]}]}, "qos[0].preempts", "itself"),
        ({"qos": [{"name": "fast"}, {"name": "fast"}]}, "qos[1].name", "already"),
        ({"accounts": [{"name": "a", "budget": {}}]}, "accounts[0].budget", "it limits nothing"),
        (
            {"accounts": [{"name": "a", "budget": {"node_hours_per_month": -1}}]},
            "accounts[0].budget.node_hours_per_month",
            "greater than or equal to 0",
        ),
        (
            {"accounts": [{"name": "a", "budget": {"usd_per_month": 10}}]},
            "accounts[0].budget.usd_per_month",
            "give their infrastructures a price_usd_per_hour",
        ),
        (
            {
                "controller": {"accounting": {"enforce": ["associations"]}},
                "accounts": [{"name": "a", "budget": {"node_hours_per_month": 10}}],
            },
            "accounts[0].budget",
            "add `limits` to controller.accounting.enforce",
        ),
        (
            {
                "slurm_conf": {"AccountingStorageEnforce": "associations,qos"},
                "accounts": [{"name": "a", "budget": {"node_hours_per_month": 10}}],
            },
            "accounts[0].budget",
            "add `limits`",
        ),
        (
            {
                "accounts": [{"name": "physics"}],
                "partitions": [{"name": "main", "options": {"AllowAccounts": "physics,phisics"}}],
            },
            "partitions[0].options",
            "AllowAccounts: there is no account phisics; did you mean physics?",
        ),
    ],
)
def test_accounts_that_do_not_fit_together_are_told(keys: dict[str, Any], path: str, word: str) -> None:
    (said,) = _said(**keys)
    assert said.partition(" ")[0].rstrip(":") == path
    assert word in said


def test_all_mistakes_are_told_at_once() -> None:
    said = _said(
        qos=[{"name": "fast", "preempts": ["slow"]}],
        accounts=[{"name": "a", "parent": "z", "qos": ["x"]}, {"name": "b", "parent": "b"}],
    )
    assert len(said) == 4


def test_limits_of_one_kind_are_not_of_the_other() -> None:
    assert read_limits(QOS, {"MaxJobsPU": 1}) == {"MaxJobsPerUser": "1"}
    with pytest.raises(ValueError, match="Slurm has no limit MaxJobsPU here"):
        read_limits(ASSOCIATION, {"MaxJobsPU": 1})
