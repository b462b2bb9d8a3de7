"""Bad options of Nomad: all of them at once, each with its key and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infrastructures.nomad.specs import mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.nomad.reading import read_options

PLACE = "controller.infrastructure.options"
FLEET = "fleets[0].infrastructures[0].options"


def told(offering: dict[str, Any] | None = None, /, **place: Any) -> str:
    with pytest.raises(SpecError) as raised:
        read_options(spec(offering, **place))
    return str(raised.value)


def test_a_plain_spec_is_right() -> None:
    options = read_options(spec({"attributes": {"rack": ["r1", "r2"], "attr.cpu.arch": "amd64"}}))
    assert options.place.namespace == "default"
    assert options.offerings["cpu", "nomad"].attributes == {"rack": ("r1", "r2"), "attr.cpu.arch": ("amd64",)}


@pytest.mark.parametrize(
    ("offering", "place", "words"),
    [
        ({}, {"hosts": {"ctl": "alpha"}}, f"{PLACE}.hosts.login-1: it is missing: name the host of login-1"),
        (
            {},
            {"hosts": {"ctl": "a", "login-1": "b", "dbd": "c"}},
            f"{PLACE}.hosts.dbd = 'c': the cluster's own machines here are ctl, login-1",
        ),
        (
            {},
            {"hosts": {"ctl": "alpha", "login-1": "alpha"}},
            f"{PLACE}.hosts.login-1: the static port 2222 of alpha is ctl's: a host gives it once",
        ),
        (
            {},
            {"containers": [{"name": "exporter", "image": "e:1", "host": "alpha", "port": 6817}]},
            f"{PLACE}.containers[0].port = 6817: the static port 6817 of alpha is ctl's",
        ),
        (
            {},
            {"containers": [{"name": "exporter", "image": "e:1", "fleet": "cpu", "port": 6818}]},
            "the static port 6818 of fleet cpu is a node of cpu's",
        ),
        (
            {},
            {"containers": [{"name": "x", "image": "e:1", "fleet": "gpu"}]},
            f"{PLACE}.containers[0].fleet = 'gpu': fleets are cpu",
        ),
        (
            {},
            {"containers": [{"name": "munge", "image": "e:1", "host": "alpha"}]},
            "another job of the cluster has this name",
        ),
        ({}, {"containers": [{"name": "x", "image": "e:1"}]}, "name a host or a fleet, and not both"),
        ({}, {"volumes": {"home": "/home"}}, f"{PLACE}.volumes.slurmctld: it is missing"),
        (
            {},
            {"volumes": {"home": "home", "slurmctld": "/s"}},
            "write the path of a folder that hosts have",
        ),
        ({}, {"address": "alpha:4646"}, f"{PLACE}.address = 'alpha:4646'"),
        ({}, {"roll_out": {"canary_percent": 10}}, "a canary of slurmctld would be a second one"),
        (
            {"roll_out": {"min_healthy_s": 60, "healthy_deadline_s": 30}},
            {},
            f"{FLEET}.roll_out: min_healthy_s is to be less than healthy_deadline_s",
        ),
        ({"rack": "r1"}, {}, f"{FLEET}.rack = 'r1': no such key; known here: attributes, roll_out"),
    ],
)
def test_a_mistake_is_told_with_its_key_and_the_remedy(
    offering: dict[str, Any], place: dict[str, Any], words: str
) -> None:
    assert words in told(offering, **place)


def test_what_is_missing_says_what_it_is_for() -> None:
    wrong = mapping()
    del wrong["controller"]["infrastructure"]["options"]["interface"]
    with pytest.raises(SpecError) as raised:
        read_options(ClusterSpec.model_validate(wrong))
    assert f"{PLACE}.interface: missing. The hosts' link to each other" in str(raised.value)


def test_all_mistakes_are_told_at_once() -> None:
    said = told({"rack": "r1"}, hosts={"ctl": "alpha"}, volumes={"home": "/home"})
    assert "3 mistakes" in said
