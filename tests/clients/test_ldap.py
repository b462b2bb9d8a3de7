"""Users of a real OpenLDAP: slapd of Debian's, on the loopback, with a certificate of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.directory import KEY, PASSWORD
from tests.clients.directory import directory as a_directory
from tidepool.clients.ldap import LdapError, search
from tidepool.cluster.users import Ldap
from tidepool.components.user_directory import user_list


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ldap]:
    with a_directory(tmp_path_factory.mktemp("ldap") / "slapd") as it:
        yield it.ldap


def test_users_and_groups_are_as_a_spec_has_them(directory: Ldap) -> None:
    found, left_out = search(directory, PASSWORD)
    known = user_list(found)
    assert {each.name: each.to_inputs() for each in known.users} == {
        "ada": {
            "uid": 3001,
            "groups": ["optics"],
            "keys": [f"{KEY} ada@laptop"],
            "comment": "Ada room 1 optics",
        },
        "grace": {"uid": 3002, "gid": 4000},
        "alan": {"uid": 3003, "groups": ["optics"]},
    }
    assert [(each.name, each.gid) for each in known.groups] == [("optics", 4000)]
    (said,) = left_out
    assert "a key of ada is left out" in said


def test_a_filter_says_who_is_of_this_cluster(directory: Ldap) -> None:
    found, _ = search(
        directory.model_copy(update={"filter": "(&(uid=grace)(objectClass=posixAccount))"}), PASSWORD
    )
    assert [each["name"] for each in found["users"]] == ["grace"]


@pytest.mark.parametrize(
    ("changes", "password", "word"),
    [
        ({"uri": "ldaps://127.0.0.1:1"}, PASSWORD, "it does not answer"),
        ({"ca_file": None}, PASSWORD, "its certificate is not trusted"),
        ({}, "another", "it does not know `bind_dn`"),
        ({}, None, "`pulumi config set --secret cluster:ldapPassword`"),
        ({"base": "ou=nowhere,dc=site"}, PASSWORD, "there is no such entry"),
        ({"filter": "(uid=)x)"}, PASSWORD, "cannot be read"),
        ({"bind_dn": None}, None, "it gave a part of its entries"),
    ],
)
def test_what_is_no_whole_answer_is_an_error_with_the_remedy(
    directory: Ldap, changes: dict[str, Any], password: str | None, word: str
) -> None:
    with pytest.raises(LdapError, match=word.replace("(", r"\(")) as refused:
        search(directory.model_copy(update=changes), password)
    assert PASSWORD not in str(refused.value)
