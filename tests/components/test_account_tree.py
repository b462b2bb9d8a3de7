"""The accounts of a spec as resources: one for all of them, behind one for each quality of service."""

from __future__ import annotations

from typing import Any

from tests.components.stack import answers, of_one_image, spec_with
from tidepool.components import AccountTree, SlurmController
from tidepool.infrastructures.local.graph import Local
from tidepool.testing import Graph, register

ACCOUNTS, QOS = "tidepool:slurm:Accounts", "tidepool:slurm:Qos"
TREE: dict[str, Any] = {
    "controller": {"accounting": {}},
    "users": [{"name": "ada", "uid": 3001}, {"name": "grace", "uid": 3002}],
    "qos": [{"name": "urgent", "preempts": ["normal"], "limits": {"Priority": 100}}],
    # The child stands before its parent.
    "accounts": [
        {"name": "optics", "parent": "physics", "users": ["ada", {"name": "grace", "default": True}]},
        {
            "name": "physics",
            "shares": 3,
            "limits": {"GrpTRES": "mem=1G,cpu=4"},
            "qos": ["normal", "urgent"],
            "users": [{"name": "ada", "limits": {"MaxJobs": 2}}, "grace"],
        },
    ],
}


def graph(**changes: Any) -> Graph:
    spec = spec_with(**{**TREE, **changes})

    def program() -> None:
        controller = SlurmController(spec.name, locations=of_one_image(spec, Local("dev")))
        AccountTree(spec.name, controller=controller)

    return register(program, answers)


def test_accounts_are_one_resource_with_what_the_spec_says_behind_qualities_of_service() -> None:
    registered = graph()
    tree = registered[f"{ACCOUNTS} physics"]
    assert tree.inputs["accounts"] == {
        "physics": {
            "shares": 3,
            "qos": ["normal", "urgent"],
            "limits": {"GrpTRES": "cpu=4,mem=1024M"},
            "users": {"ada": {"limits": {"MaxJobs": "2"}}, "grace": {}},
        },
        "optics": {"parent": "physics", "users": {"ada": {"default": True}, "grace": {"default": True}}},
    }
    assert f"{QOS} urgent" in tree.depends_on
    assert registered[f"{QOS} urgent"].inputs["preempts"] == ["normal"]


def test_without_accounts_there_is_none() -> None:
    assert not graph(accounts=[]).of_type(ACCOUNTS)
