"""What Nomad lacks, told before anything is made there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.infrastructures.nomad.fake import Allocation, FakeHost, FakeNomad, hosts, served
from tests.infrastructures.nomad.specs import spec
from tidepool.cluster.failures import Transient
from tidepool.infrastructures.nomad.api import Api, Host
from tidepool.infrastructures.nomad.preflight import There, demands, lacks, look, rights_missing
from tidepool.infrastructures.nomad.reading import read_options

ALPHA = Host("id-a", "alpha", drivers=frozenset({"raw_exec"}), version="2.0.5")
BETA, GAMMA, DELTA = (replace(ALPHA, id=f"id-{name}", name=name) for name in ("beta", "gamma", "delta"))
ALL = (ALPHA, BETA, replace(GAMMA, meta={"rack": "r1"}), DELTA)


def lack(
    found: There, offering: dict[str, Any] | None = None, /, min_nodes: int = 0, **place: Any
) -> list[str]:
    asked = spec(offering, **place)
    if min_nodes:
        fleet = asked.fleets[0].model_copy(update={"min_nodes": min_nodes})
        asked = asked.model_copy(update={"fleets": (fleet,)})
    return [*lacks(found, demands(asked, read_options(asked)), "dev")]


def test_a_nomad_that_has_all_lacks_nothing() -> None:
    assert lack(There(ALL), {"attributes": {"rack": "r1"}}, min_nodes=1) == []


@pytest.mark.parametrize(
    ("found", "offering", "min_nodes", "words"),
    [
        (
            There((BETA,)),
            {},
            0,
            "options.hosts.ctl is alpha, and no client has this name; there are beta",
        ),
        (There((replace(ALPHA, is_up=False), BETA)), {}, 0, "options.hosts.ctl is alpha, which is down"),
        (
            There((replace(ALPHA, drivers=frozenset()), BETA)),
            {},
            0,
            'alpha has no working driver raw_exec; write plugin "raw_exec"',
        ),
        (
            There((replace(ALPHA, meta={"tidepool_stack": "other"}), BETA)),
            {},
            0,
            "which is a node of the stack other",
        ),
        (
            There(ALL, {("alpha", 6817): "old-slurm-ctl"}),
            {},
            0,
            "the static port 6817 of alpha is taken by the job old-slurm-ctl: stop that",
        ),
        (
            There(ALL),
            {"attributes": {"rack": "r7"}},
            0,
            "fleets[0].infrastructures[0].options.attributes: no client has ${meta.rack} = r7",
        ),
        (
            There(ALL),
            {"attributes": {"rack": "r1"}},
            2,
            "1 clients are free and as they should be, and min_nodes is 2",
        ),
        (There((replace(ALPHA, version="1.9.3"), BETA)), {}, 0, "alpha has Nomad 1.9.3"),
    ],
)
def test_what_is_missing_is_told_with_its_key_and_the_remedy(
    found: There, offering: dict[str, Any], min_nodes: int, words: str
) -> None:
    assert any(words in each for each in lack(found, offering, min_nodes=min_nodes))


@pytest.fixture
def nomad() -> FakeNomad:
    return FakeNomad(*hosts(2))


@pytest.fixture
def api(nomad: FakeNomad) -> Iterator[Api]:
    with served(nomad) as address:
        yield Api(address, answer_s=5)


def test_asking_for_rights_changes_nothing(nomad: FakeNomad, api: Api) -> None:
    assert rights_missing(api, "default") == ()
    assert nomad.written == []
    assert nomad.host("alpha").told == {"rack": "r1"}


@pytest.mark.parametrize(
    ("denied", "words"),
    [
        ("namespace", 'namespace "default" { capabilities = ["submit-job"'),
        ("jobs", "the token may not submit jobs"),
        ("variables", 'variables { path "nomad/jobs/*"'),
        ("node:read", "the token may not read hosts"),
        ("node:write", 'node { policy = "write" }'),
    ],
)
def test_a_right_that_is_missing_is_told_with_the_rule_that_gives_it(
    nomad: FakeNomad, api: Api, denied: str, words: str
) -> None:
    nomad.denied.add(denied)
    assert words in " ".join(rights_missing(api, "default"))


def test_a_namespace_that_is_not_there_is_told_with_what_makes_it(api: Api) -> None:
    assert rights_missing(api, "physics") == (
        "the namespace physics is not there; run: nomad namespace apply physics",
    )


def test_ports_of_other_stacks_are_seen_and_its_own_are_not(nomad: FakeNomad, api: Api) -> None:
    nomad.allocations += [
        Allocation("a", "old-slurm-ctl", "id-alpha", ports=(6817,)),
        Allocation("b", "dev-slurm-ctl", "id-alpha", ports=(2222,)),
        Allocation("c", "gone-slurm-ctl", "id-alpha", "complete", (6819,)),
    ]
    assert look(api, ["alpha"], "dev").ports == {("alpha", 6817): "old-slurm-ctl"}


def test_an_api_that_nobody_answers_at_is_transient() -> None:
    with served(FakeNomad(FakeHost("i", "n"))) as address:
        pass
    with pytest.raises(Transient, match=f"Nomad does not answer GET {address}/v1/namespace/default"):
        rights_missing(Api(address, answer_s=1), "default")
