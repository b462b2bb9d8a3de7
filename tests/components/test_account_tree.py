"""The accounts of a spec as resources: parents before children, qualities of service before both."""

from __future__ import annotations

from typing import Any

from tests.components.stack import answers, of_one_image, spec_with
from tidepool.components import AccountTree, SlurmController
from tidepool.infrastructures.local.graph import Local
from tidepool.testing import Graph, register

ACCOUNT, QOS = "tidepool:slurm:Account", "tidepool:slurm:Qos"
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


def graph() -> Graph:
    spec = spec_with(**TREE)

    def program() -> None:
        controller = SlurmController(spec.name, locations=of_one_image(spec, Local("dev")))
        AccountTree(spec.name, controller=controller)

    return register(program, answers)


def test_each_account_and_quality_of_service_is_a_resource_with_what_the_spec_says() -> None:
    registered = graph()
    assert set(registered.of_type(ACCOUNT)) == {"physics", "optics"}
    physics = registered[f"{ACCOUNT} physics"].inputs
    assert (physics["shares"], physics["qos"]) == (3, ["normal", "urgent"])
    assert physics["limits"] == {"GrpTRES": "cpu=4,mem=1024M"}
    assert registered[f"{ACCOUNT} optics"].inputs["parent"] == "physics"
    assert physics["users"] == {"ada": {"limits": {"MaxJobs": "2"}}, "grace": {}}
    assert registered[f"{ACCOUNT} optics"].inputs["users"] == {
        "ada": {"default": True},
        "grace": {"default": True},
    }
    assert registered[f"{QOS} urgent"].inputs["preempts"] == ["normal"]


def test_parents_and_qualities_of_service_come_first() -> None:
    registered = graph()

    assert f"{QOS} urgent" in registered[f"{ACCOUNT} physics"].depends_on
    assert f"{ACCOUNT} physics" in registered[f"{ACCOUNT} optics"].depends_on
