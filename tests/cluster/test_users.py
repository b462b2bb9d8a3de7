"""Users of a spec: what can be said of them, what does not go together, and the files by which machines know them."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.specs import spec_mapping
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.cluster.user_files import leaving_uids, malformed, read_user_files, user_files
from tidepool.cluster.users import User, ssh_key

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFPHqMvlfHPfJ4dvKXcY4u+FDTZg6Rb1dSLrgQK8bLkG ada@laptop"
ADA: dict[str, Any] = {"name": "ada", "uid": 3001}


def _said(**keys: Any) -> list[str]:
    with pytest.raises(SpecError) as refused:
        read_spec(spec_mapping(**keys))
    return [str(mistake) for mistake in refused.value.mistakes]


def _key(kind: str, *fields: bytes) -> str:
    blob = b"".join(len(each).to_bytes(4, "big") + each for each in (kind.encode(), *fields))
    return f"{kind} {base64.b64encode(blob).decode()}"


@pytest.mark.parametrize(
    ("keys", "where", "word"),
    [
        ({"users": [ADA, {**ADA, "name": "grace"}]}, "users[1].uid", "users[0] has this uid already"),
        ({"users": [ADA, {**ADA, "uid": 3002}]}, "users[1].name", "users[0] has this name already"),
        ({"users": [{**ADA, "uid": 500}]}, "users[0].uid", "greater than or equal to 1000"),
        ({"users": [{**ADA, "uid": 64030}]}, "users[0].uid", "images have this number"),
        ({"users": [{"name": "ada"}]}, "users[0].uid", "missing"),
        ({"users": [{"name": "slurm", "uid": 3001}]}, "users[0].name", "one of the system's own"),
        ({"users": [{"name": "Ada L", "uid": 3001}]}, "users[0].name", "a small letter"),
        ({"users": [{**ADA, "groups": ["optik"]}]}, "users[0].groups[0]", "there is no such group"),
        ({"users": [{**ADA, "gid": 4000}]}, "users[0].gid", "no group of the spec has this number"),
        (
            {"users": [ADA], "groups": [{"name": "ada", "gid": 4000}]},
            "users[0].name",
            "groups[0] has it",
        ),
        (
            {"users": [ADA], "groups": [{"name": "x", "gid": 3001}]},
            "users[0].uid",
            "groups[0] has it",
        ),
        ({"users": [{**ADA, "comment": "a:b"}]}, "users[0].comment", "without ':'"),
        ({"directory": {}}, "directory", "name one of `file`, `ldap` and `system`"),
        ({"directory": {"ldap": {"uri": "http://x", "base": "dc=x"}}}, "directory.ldap.uri", "ldaps"),
    ],
)
def test_what_cannot_be_is_told_with_the_remedy(keys: dict[str, Any], where: str, word: str) -> None:
    (said,) = _said(**keys)
    assert said.startswith(where), said
    assert word in said


def test_a_private_key_in_the_wrong_place_is_not_shown() -> None:
    (said,) = _said(users=[{**ADA, "keys": ["-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0"]}])
    assert said.startswith("users[0].keys[0] = (not shown): this is a private key")


def test_all_mistakes_of_users_and_accounts_are_told_at_once() -> None:
    said = _said(
        controller={"accounting": {}},
        users=[
            ADA,
            {"name": "grace", "uid": 3001, "keys": ["ssh-ed25519 half"]},
            {"name": "idle", "uid": 3003},
        ],
        accounts=[
            {"name": "a", "parent": "b", "users": ["ada"]},
            {"name": "b", "parent": "a", "users": ["nobody1"]},
        ],
    )
    assert [line.partition(" ")[0].rstrip(":") for line in said] == [
        "users[1].keys[0]",
        "accounts[0].parent",
        "users[1].uid",
        "accounts[1].users[0]",
        "users[1].name",
        "users[2].name",
    ]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("ssh-ed25519", "one line as in a .pub file"),
        (f"from=10.0.0.1 {KEY}", "one line as in a .pub file"),
        (KEY.replace("AAAAC3Nz", "AAAAC3N"), "cut off or changed"),
        (KEY[:60], "cut off or changed"),
        (KEY.replace("ssh-ed25519 ", "ssh-rsa "), "no key of the type ssh-rsa"),
        (_key("ssh-rsa", b"\1\0\1", b"\0" + b"\xff" * 128), "fewer than 2,048 bits"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0", "a private key"),
    ],
)
def test_a_key_that_is_none_is_told_without_itself(line: str, word: str) -> None:
    with pytest.raises(ValueError, match=re.escape(word)) as refused:
        ssh_key(line)
    assert "c2VjcmV0" not in str(refused.value)
    assert ssh_key(f"  {KEY}\n") == KEY
    assert ssh_key(_key("ssh-rsa", b"\1\0\1", b"\0" + b"\xff" * 256))


names = st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True)
numbers = st.integers(1000, 2**31 - 1)
users = st.dictionaries(
    names,
    st.fixed_dictionaries(
        {"uid": numbers},
        optional={
            "groups": st.lists(st.sampled_from(["optics", "lasers"]), min_size=1, unique=True).map(sorted),
            "keys": st.lists(st.text("abc =+/", min_size=1), min_size=1),
            "comment": st.text("abc äö.", min_size=1),
            "shell": st.just("/bin/zsh"),
        },
    ),
    max_size=5,
)


@given(users)
def test_files_say_what_they_were_written_from(known: dict[str, dict[str, Any]]) -> None:
    groups = {"optics": 4000, "lasers": 4001}
    known = {name: each for name, each in known.items() if name not in groups}
    assert list(malformed(known, groups)) == []
    assert read_user_files(user_files(known, groups)) == (known, groups)


def test_a_hand_that_broke_a_line_hides_one_user_and_no_other() -> None:
    files = user_files({"ada": {"uid": 3001, "keys": [KEY]}, "grace": {"uid": 3002}}, {})
    broken = {**files, "passwd": files["passwd"].replace("ada:*:3001", "ada:*:many")}
    assert read_user_files(broken)[0] == {"grace": {"uid": 3002}}


def test_nobody_else_s_processes_end_with_a_line_that_a_hand_wrote() -> None:
    files = {
        "passwd": "toor:*:0:0::/home/toor:/bin/sh\nmallory:*:3001:3001::/home/mallory:/bin/sh\neve:*:3009:3009::/:/bin/sh\n"
    }
    by_hand, _ = read_user_files(files)
    assert {name: each["uid"] for name, each in by_hand.items()} == {"toor": 0, "mallory": 3001, "eve": 3009}
    assert leaving_uids(by_hand, {"ada": {"uid": 3001}}) == [3009]


def test_a_user_is_written_as_the_spec_says() -> None:
    ada = User.model_validate(
        {**ADA, "gid": 4000, "groups": ["optics", "lasers"], "keys": [KEY], "comment": "Ada L."}
    )
    files = user_files({"ada": ada.to_inputs()}, {"optics": 4000, "lasers": 4001})
    assert files["passwd"] == "ada:*:3001:4000:Ada L.:/home/ada:/bin/bash\n"
    assert files["group"] == "optics:*:4000:ada\nlasers:*:4001:ada\n"
    assert files["keys/ada"] == f"{KEY}\n"
