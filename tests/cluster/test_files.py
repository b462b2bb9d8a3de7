"""What a spec says of people's files: all mistakes at once, with where and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.specs import spec_mapping
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec


def mistakes(**keys: Any) -> str:
    with pytest.raises(SpecError) as refused:
        read_spec(spec_mapping(**keys))
    return str(refused.value)


def test_quotas_are_amounts() -> None:
    spec: ClusterSpec = read_spec(
        spec_mapping(
            home={"quota": "50GiB"}, users=[{"name": "ada", "uid": 3001, "quota": "1.5T"}], scratch={}
        )
    )
    assert (spec.home.quota_mib, spec.users[0].quota_mib) == (50 * 1024, 1024 * 1536)
    assert spec.scratch is not None
    assert (spec.scratch.path, spec.scratch.wipe_after_days, spec.scratch.warn_days) == ("/scratch", 30, 7)


def test_all_mistakes_are_told_at_once() -> None:
    said = mistakes(
        home={"quota": "50 parsecs"},
        users=[{"name": "bob", "uid": 3001, "quota": 0}],
        scratch={"path": "/home/scratch", "wipe_after_days": 7, "wipe": 3},
        file_server={"shape": {"cpus": 0, "memory": "1GiB"}},
    )
    for told in (
        "home.quota = '50 parsecs': write a number of MiB, or a number and a unit",
        "users[0].quota = 0",
        "scratch.path = '/home/scratch': /home is the machine's own; take another, such as /scratch",
        "scratch.wipe = 3: no such key",
        "file_server.shape.cpus = 0",
        "scratch.wipe_after_days = 7: files go after 7 days, and people are told 7 days before",
    ):
        assert told in said, said
    assert said.startswith("6 mistakes")


@pytest.mark.parametrize(
    "path", ["scratch", "/", "/etc/x", "/scratch/", "/a/../home", "/sc ratch", "/scratch,ro"]
)
def test_scratch_is_at_a_place_of_its_own(path: str) -> None:
    assert "scratch.path" in mistakes(scratch={"path": path})


@pytest.mark.parametrize("infrastructure", ["aws", {"name": "ssh", "options": {}}])
def test_a_file_server_is_of_infrastructures_whose_machines_can_be_one(infrastructure: Any) -> None:
    said = mistakes(controller={"infrastructure": infrastructure}, file_server={})
    assert "file_server: machines of" in said
    assert "local or libvirt" in said
