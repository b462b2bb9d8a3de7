"""Nomad is asked in each check for all that a stack needs, and what it lacks is told: before anything is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.nomad.fake import Allocation, FakeNomad, hosts, served
from tests.provider.calls import Preflights
from tidepool.infrastructures.nomad.api import ApiLocation
from tidepool.resources.values import UNKNOWN

OWN: dict[str, Any] = {
    "path": "options.hosts.ctl",
    "host": "alpha",
    "drivers": ["raw_exec"],
    "ports": [6817],
}
FLEET: dict[str, Any] = {
    "path": "fleets[0].options.attributes",
    "count": 2,
    "constraints": [{"left": "${meta.rack}", "right": "r1", "operand": "="}],
    "drivers": ["raw_exec"],
}


@dataclass
class There:
    """A Nomad of three hosts, and the kind that asks it."""

    nomad: FakeNomad
    address: str
    calls: Preflights

    @property
    def inputs(self) -> dict[str, Any]:
        api = {"address": self.address}
        return {"api": api, "namespace": "default", "stack": "dev", "demands": [OWN, FLEET]}


@pytest.fixture
def there(tmp_path: Path) -> Iterator[There]:
    nomad = FakeNomad(*hosts(3))
    with served(nomad) as address:
        yield There(nomad, address, Preflights(tmp_path, "nomad"))


def test_a_nomad_that_has_all_is_there_by_the_stacks_name_and_nothing_is_changed(there: There) -> None:
    clusters = there.calls
    assert clusters.failures(there.inputs) == {}
    assert there.nomad.written == []
    assert [host.told for host in there.nomad.hosts.values()] == [{"rack": "r1"}] * 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"demands": [{**OWN, "host": "omega"}]}, "options.hosts.ctl is omega, and no client has this name"),
        ({"demands": [OWN]}, "the static port 6817 of alpha is taken by the job old-ctl: stop that"),
        ({"demands": [{**OWN, "ports": [], "drivers": ["docker"]}]}, "alpha has no working driver docker"),
        ({"demands": [{**FLEET, "count": 9}]}, "attributes: 3 clients are free and as they should be, and"),
    ],
)
def test_what_nomad_lacks_fails_the_check_with_its_key(
    there: There, change: dict[str, Any], words: str
) -> None:
    there.nomad.allocations.append(Allocation("a", "old-ctl", "id-alpha", ports=(6817,)))
    assert words in there.calls.failures({**there.inputs, **change})["path"]


def test_a_right_that_the_token_has_not_is_told_with_the_rule_that_gives_it(there: There) -> None:
    there.nomad.denied.add("variables")
    assert 'variables { path "nomad/jobs/*"' in there.calls.failures(there.inputs)["path"]


def test_hosts_that_nobody_may_look_at_are_not_asked_for(there: There) -> None:
    there.nomad.denied.add("node:read")
    told = there.calls.failures(there.inputs)
    assert told == {"path": 'the token may not read hosts: node { policy = "write" }'}


def test_a_namespace_that_is_not_there_is_told_with_what_makes_it(there: There) -> None:
    told = there.calls.failures({**there.inputs, "namespace": "physics"})
    assert told["path"].endswith("run: nomad namespace apply physics")


def test_a_nomad_that_does_not_answer_is_told_with_what_to_try(there: There, tmp_path: Path) -> None:
    with served(FakeNomad()) as silent:
        pass
    told = there.calls.failures({**there.inputs, "api": {"address": silent}})["path"]
    assert told.startswith(f"Nomad does not answer GET {silent}/v1/namespace/default: ")
    assert told.endswith(f"is the agent up, and the address right? try: nomad status -address={silent}")


def test_a_token_that_others_can_read_is_refused_with_the_remedy_alone(there: There, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s.3cret")
    file.chmod(0o644)
    api = {"address": there.address, "tokenFile": str(file)}
    told = there.calls.failures({**there.inputs, "api": api})["path"]
    assert told == f"others can read the token in {file}; run: chmod 600 {file}"
    assert there.nomad.requests == []


def test_certificates_that_cannot_be_read_are_named(there: There, tmp_path: Path) -> None:
    for file, words in ((tmp_path / "none", "No such file"), (tmp_path / "empty", "")):
        (tmp_path / "empty").touch()
        api = {"address": "https://127.0.0.1:1", "caFile": str(file)}
        told = there.calls.failures({**there.inputs, "api": api})["path"]
        assert told.startswith(f"the certificates in {file} cannot be read: {words}")


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"demands": [{**FLEET, "count": -1}]}, "demands[0].count", "at least 0"),
        ({"demands": [{**FLEET, "colour": "red"}]}, "demands[0].colour", "there is no such input"),
        ({"demands": [{**FLEET, "constraints": ["rack"]}]}, "demands[0].constraints[0]", "a map is wanted"),
        ({"demands": [{**OWN, "ports": ["ssh"]}]}, "demands[0].ports[0]", "a whole number is wanted"),
        ({"api": {}}, "api.address", "it is missing"),
        ({"api": {"address": "http://a", "token": "s.3cret"}}, "api.token", "there is no such input"),
    ],
)
def test_what_is_no_demand_is_refused(there: There, change: dict[str, Any], key: str, words: str) -> None:
    assert words in there.calls.failures({**there.inputs, **change})[key]
    assert there.nomad.requests == []


def test_a_nomad_that_is_not_known_yet_is_not_asked(there: There) -> None:
    assert there.calls.failures({**there.inputs, "namespace": UNKNOWN}) == {}
    assert there.nomad.requests == []


def test_the_token_is_of_a_file_or_the_environment_and_in_no_input(there: There, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-a-file\n")
    file.chmod(0o600)
    environment = {"NOMAD_TOKEN": "of-the-environment"}
    place = ApiLocation(there.address, None, None, None)
    assert place.open(environment).token == "of-the-environment"
    assert ApiLocation(there.address, None, str(file), None).open(environment).token == "of-a-file"
    assert "of-a-file" not in repr(ApiLocation(there.address, None, str(file), None).open(environment))
