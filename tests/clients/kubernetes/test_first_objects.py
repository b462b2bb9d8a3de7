"""What a new control plane is told first: who may join, and that Tidepool may do what it needs and no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidepool.clients.kubernetes.contract import BOOTSTRAPPERS, NEEDED
from tidepool.clients.kubernetes.first_objects import TIDEPOOL_USER, FirstObject, first_objects, shown_objects
from tidepool.clients.kubernetes.objects import Right

WORDS = st.sampled_from(["", "a", "b"])
RIGHTS = st.builds(
    Right, st.sampled_from(["get", "list"]), st.sampled_from(["x", "y", "x/z"]), WORDS, WORDS, WORDS
)


def granted(objects: tuple[FirstObject, ...]) -> Iterator[Right]:
    """The rights that the roles of Tidepool's own user hold, read as the API server reads them."""
    roles = {(each.body["kind"], each.path): each.body for each in objects if "rules" in each.body}
    for (_, path), role in roles.items():
        _, _, within = path.partition("/namespaces/")
        namespace = within.partition("/")[0]
        for rule in role["rules"]:
            for verb in rule["verbs"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        for name in rule.get("resourceNames", [""]):
                            yield Right(verb, resource, group, namespace, name)


def test_tidepool_has_exactly_the_rights_that_it_needs() -> None:
    assert sorted(map(str, granted(first_objects()))) == sorted(map(str, NEEDED))


@given(st.lists(RIGHTS, unique=True))
def test_any_rights_become_roles_with_exactly_those(rights: list[Right]) -> None:
    objects = first_objects(rights)
    assert set(granted(objects)) == set(rights)
    # Each role is bound to that user, where it is.
    bound = {
        each.path.rpartition("/")[0].removesuffix("bindings") + "s"
        for each in objects
        if each.body.get("subjects")
        == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TIDEPOOL_USER}]
    }
    assert bound == {each.path.rpartition("/")[0] for each in objects if "rules" in each.body}


def test_who_joins_may_ask_and_nobody_is_approved_but_who_is_known() -> None:
    given_to = {
        (subject["kind"], subject["name"]): each.body["roleRef"]["name"]
        for each in first_objects()
        for subject in each.body.get("subjects", ())
        if each.body["roleRef"]["name"] != TIDEPOOL_USER
    }
    assert given_to == {
        ("Group", BOOTSTRAPPERS): "system:node-bootstrapper",
        ("Group", "system:nodes"): "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        ("User", "tidepool:kube-apiserver"): "system:kubelet-api-admin",
    }


def test_an_object_is_as_it_should_be_whatever_the_server_added() -> None:
    for each in (*first_objects(), *shown_objects()):
        there = {**each.body, "metadata": {**each.body["metadata"], "uid": "1"}, "more": 1}
        if "spec" in each.body:
            there["spec"] = {**each.body["spec"], "conversion": {"strategy": "None"}}
        assert each.is_as_in(there)
        key = next(key for key in ("rules", "subjects", "spec") if key in each.body)
        assert not each.is_as_in({**there, key: []})
        assert not each.is_as_in({})


def test_what_is_shown_is_written_with_no_more_rights_than_that_needs() -> None:
    own, viewer = (each.body for each in shown_objects() if "rules" in each.body)
    assert {rule["resources"][0]: rule["verbs"] for rule in own["rules"]} == {
        "poolmachines": ["create", "delete", "list", "patch"]
    }
    assert {rule["resources"][0]: rule["verbs"] for rule in viewer["rules"]} == {
        "poolmachines": ["get", "list", "watch"]
    }


def test_the_page_for_administrators_has_the_same_objects() -> None:
    text = (Path(__file__).parents[3] / "docs/kubernetes.md").read_text()
    needed, shown = (
        list(yaml.safe_load_all(part.partition("```")[0])) for part in text.split("```yaml\n")[1:]
    )
    # Which user an API server is to kubelets is that cluster's own affair.
    assert needed == [
        each for each in map(on_page, first_objects()) if each["metadata"]["name"] != "tidepool:kubelet-api"
    ]
    assert shown == [*map(on_page, shown_objects())]


def on_page(thing: FirstObject) -> Mapping[str, Any]:
    """Return an object as the page has it: with labels that say something alone."""
    _, _, within = thing.path.partition("/namespaces/")
    namespace = {"namespace": within.partition("/")[0]} if within else {}
    labels = {
        key: value for key, value in thing.body["metadata"]["labels"].items() if "managed-by" not in key
    }
    meta = {"name": thing.body["metadata"]["name"], **namespace, **({"labels": labels} if labels else {})}
    return {**thing.body, "metadata": meta}
