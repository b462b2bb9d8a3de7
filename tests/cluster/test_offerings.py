"""Offerings of a spec: what names one is as if it said all of it itself, and all mistakes in them are told at once."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.specs import spec_mapping
from tests.properties import runs
from tidepool.cluster.offering import MAKING_DISKS, OfferedMachines, Offering
from tidepool.cluster.offerings import expanded
from tidepool.cluster.spec import ClusterSpec, Controller
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.components import FleetArgs, Shape, cluster_spec
from tidepool.infrastructures.libvirt.reading import read_options
from tidepool.infrastructures.registry import BUILT_IN

_SPEC: dict[str, Any] = yaml.safe_load(
    """
name: physics
network: 10.80.0.0/16
controller: {offering: small, infrastructure: {name: aws, options: {region: eu-central-1}}}
offerings:
  - name: small
    shape: {cpus: 2, memory: 4GiB}
    infrastructures: [{name: aws, options: {instance_type: m7i.large}, price_usd_per_hour: 0.1}]
  - name: c7i
    shape: {cpus: 8, memory: 14GiB, threads_per_core: 2}
    price_usd_per_hour: 0.36
    features: [avx512, ib]
    disk: 40GiB
    infrastructures: [local, {name: aws, image: debian-12-cloud, options: {instance_type: c7i.2xlarge}}]
  - name: spot
    extends: c7i
    features: [avx512]
    infrastructures: [{name: aws, options: {market: spot}, price_usd_per_hour: 0.12}]
fleets:
  - {name: cpu, subnet: 10.80.1.0/24, max_nodes: 8, features: [std], offering: [spot, c7i]}
partitions: [{name: main}]
"""
)


def _spec(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(_SPEC) | changes


def _fleet(**keys: Any) -> dict[str, Any]:
    return {"name": "cpu", "subnet": "10.80.1.0/24", "max_nodes": 8, **keys}


def _mistakes(mapping: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as error:
        read_spec(mapping)
    return [str(mistake) for mistake in error.value.mistakes]


def test_a_fleet_is_as_if_it_said_what_its_offerings_say() -> None:
    said = _fleet(
        features=["std", "avx512"],
        shape={"cpus": 8, "memory": "14GiB", "threads_per_core": 2},
        infrastructures=[
            {
                "name": "aws",
                "offering": "spot",
                "image": "debian-12-cloud",
                "options": {"disk": 40960, "instance_type": "c7i.2xlarge", "market": "spot"},
                "price_usd_per_hour": 0.12,
            },
            {"name": "local", "offering": "c7i", "price_usd_per_hour": 0.36},
            {
                "name": "aws",
                "offering": "c7i",
                "image": "debian-12-cloud",
                "options": {"disk": 40960, "instance_type": "c7i.2xlarge"},
                "price_usd_per_hour": 0.36,
            },
        ],
    )
    assert read_spec(_spec()).fleets == read_spec(_spec(fleets=[said])).fleets


def test_the_controller_and_pools_have_theirs() -> None:
    pool = {
        "name": "shared",
        "subnet": "10.80.2.0/24",
        "machines": 2,
        "offering": "c7i",
        "infrastructure": "local",
    }
    spec = read_spec(_spec(pools=[pool], kubernetes={"kubeconfig": "/k"}))
    assert spec.controller.shape.cpus == 2
    assert spec.controller.infrastructure.options["machines"] == {"instance_type": "m7i.large"}
    assert spec.controller.infrastructure.price_usd_per_hour == 0.1
    assert spec.pools[0].shape.memory_mib == 14336
    assert spec.pools[0].features == ("avx512", "ib")


def test_an_entry_says_what_it_wants_otherwise() -> None:
    """Its own options, image and price stand; a fleet may have a smaller shape, and others of no offering beside it."""
    entry = {
        "name": "aws",
        "offering": "c7i",
        "max_nodes": 2,
        "price_usd_per_hour": 0.2,
        "options": {"zone": "eu-central-1b", "disk": "8GiB"},
    }
    fleet = _fleet(infrastructures=[entry, "local"], shape={"cpus": 4, "memory": "2GiB"})
    (found,) = read_spec(_spec(fleets=[fleet])).fleets
    first, other = found.infrastructures
    assert first.options == {"disk": "8GiB", "instance_type": "c7i.2xlarge", "zone": "eu-central-1b"}
    assert (first.key, first.price_usd_per_hour, first.max_nodes) == ("aws/c7i", 0.2, 2)
    assert (other.key, found.shape.cpus, found.features) == ("local", 4, ())


def test_a_spec_without_offerings_names_its_entries_as_it_likes() -> None:
    mapping = spec_mapping()
    mapping["fleets"][0]["infrastructures"] = ["local", {"name": "local", "offering": "mine"}]
    assert read_spec(mapping).fleets[0].infrastructures[1].key == "local/mine"
    assert expanded(mapping) == mapping


def test_programs_have_them_too() -> None:
    large = Offering(
        name="large",
        shape=Shape(cpus=4, memory_mib=8192),
        infrastructures=(OfferedMachines(name="local", price_usd_per_hour=0.5),),
    )
    spec = cluster_spec(
        "physics",
        network="10.80.0.0/16",
        offerings=[large],
        fleets=[FleetArgs(name="cpu", max_nodes=4, offering=("large",))],
    )
    assert spec.fleets[0].shape == large.shape
    built = ClusterSpec(**{**spec.model_dump(), "controller": Controller(offering="large")})
    assert built.controller.shape == large.shape


def test_mistakes_are_told_all_at_once_where_they_stand() -> None:
    mapping = _spec()
    mapping["offerings"][0]["shape"]["cpus"] = 0
    mapping["offerings"] += [
        {"name": "a", "extends": "b"},
        {"name": "b", "extends": "a"},
        {"name": "c", "extends": "c7j"},
        {"name": "none"},
        {"name": "huge", "shape": {"cpus": 64, "memory": "1T"}, "infrastructures": ["libvirt"]},
        {"name": "huge", "infrastructures": ["libvirt"]},
    ]
    mapping["fleets"] = [
        _fleet(offering=["spott", "c7i", "c7i"]),
        _fleet(
            name="b", subnet="10.80.2.0/24", infrastructures=[{"name": "aws", "offering": "huge"}, "libvirt"]
        ),
        _fleet(name="c", subnet="10.80.3.0/24", offering=["c7i", "huge"]),
        _fleet(
            name="d",
            subnet="10.80.4.0/24",
            offering="c7i",
            shape={"cpus": 16, "memory": "1G", "gres": ["lic:2"]},
        ),
        _fleet(name="e", subnet="10.80.5.0/24", offering="c7i", infrastructures=["aws"]),
        _fleet(name="f", subnet="10.80.6.0/24", offering="small"),
    ]
    known = "known here: small, c7i, spot, a, b, c, none, huge"
    described = {name: field.description for name, field in Offering.model_fields.items()}
    assert set(_mistakes(mapping)) == {
        f"offerings[0].shape.cpus = 0: it should be greater than or equal to 1. {Shape.model_fields['cpus'].description}",
        "offerings[3].extends = 'b': they go in a circle: a extends b extends a; leave one out",
        f"offerings[5].extends = 'c7j': there is no such offering; did you mean c7i? {known}",
        f"offerings[6].shape: missing. {described['shape']}",
        f"offerings[6].infrastructures: missing. {described['infrastructures']}",
        "offerings[8].name = 'huge': offerings[7] has this name already; give each its own",
        f"fleets[0].offering[0] = 'spott': there is no such offering; did you mean spot? {known}",
        "fleets[0].offering[2] = 'c7i': this offering is named twice; leave one out",
        (
            "fleets[1].infrastructures[0].offering = 'huge': this offering is not on aws, but on libvirt; name another, or add aws "
            "to offerings[7].infrastructures"
        ),
        "fleets[2].shape: missing, and c7i, huge have different ones: write what all of them have: {cpus: 8, memory: 14336MiB}",
        (
            "fleets[3].shape: the offering c7i has 8 cpus, and 16 are wanted, no lic, and 2 are wanted; lower it, leave it out, "
            "or name another offering"
        ),
        (
            "fleets[4].offering = 'c7i': it says where machines come from, and so does infrastructures; write one of them, or name "
            "an offering with each infrastructure: {name: aws, offering: c7i}"
        ),
    }


def test_the_controller_and_pools_name_offerings_that_are_there() -> None:
    pool = {"name": "shared", "subnet": "10.80.2.0/24", "machines": 2, "offering": "smal"}
    mapping = _spec(pools=[pool], kubernetes={"kubeconfig": "/k"})
    mapping["controller"]["infrastructure"] = "libvirt"
    told = _mistakes(mapping)
    assert any(
        line.startswith("pools[0].offering = 'smal': there is no such offering; did you mean small?")
        for line in told
    )
    assert any(
        line.startswith("controller.offering = 'small': this offering is not on libvirt, but on aws")
        for line in told
    )


def test_what_follows_from_a_wrong_offering_is_not_told() -> None:
    budget = {"name": "astro", "budget": {"usd_per_month": 5}}
    options = {"infrastructures": {"libvirt": {}}, "accounts": [budget]}
    mapping = _spec(fleets=[_fleet(offering="spott")], **options)
    mapping["controller"] |= {"accounting": {}}
    (told,) = _mistakes(mapping)
    assert told.startswith("fleets[0].offering = 'spott': there is no such offering")


def test_a_mistake_in_options_is_told_once_where_the_offering_has_them() -> None:
    offering = {
        "name": "vm",
        "shape": {"cpus": 1, "memory": "1GiB"},
        "infrastructures": [{"name": "libvirt", "options": {"dsk": 1}}],
    }
    fleets = [_fleet(name=name, subnet=f"10.80.{i}.0/24", offering="vm") for i, name in enumerate("abc", 1)]
    volumes = {"home": "10.80.0.1:/home", "slurmctld": "10.80.0.1:/slurmctld"}
    controller = {"infrastructure": {"name": "libvirt", "options": {"volumes": volumes}}}
    spec = read_spec(_spec(offerings=[offering], fleets=fleets, controller=controller))
    with pytest.raises(SpecError) as error:
        read_options(spec)
    (mistake,) = error.value.mistakes
    assert mistake.path == "offerings[0].infrastructures[0].options.dsk"


def test_options_are_where_the_first_says_them_that_names_the_infrastructure() -> None:
    spec = read_spec(_spec())
    assert [found.options_path for found in spec.entries("aws")] == [
        "offerings[2].infrastructures[0].options",
        "offerings[1].infrastructures[1].options",
    ]


def test_infrastructures_whose_machines_are_made_with_a_disk_are_those_that_have_the_option() -> None:
    with_options = {*BUILT_IN} - {"local"}
    models = {
        name: import_module(f"tidepool.infrastructures.{name}.options").Offering for name in with_options
    }
    with_disks = {
        name
        for name, model in models.items()
        if any(field.validation_alias == "disk" for field in model.model_fields.values())
    }
    assert with_disks == MAKING_DISKS


_NAMES = st.sampled_from(["small", "c7i", "spot", "none"])
_ENTRIES = st.lists(
    st.builds(
        lambda name, offering: {"name": name, **({"offering": offering} if offering else {})},
        st.sampled_from(["aws", "local", "libvirt"]),
        st.none() | _NAMES,
    ),
    max_size=3,
)


@given(
    offering=st.none() | _NAMES | st.lists(_NAMES, max_size=3),
    entries=st.none() | _ENTRIES,
    shaped=st.booleans(),
)
@runs(200)
def test_offerings_that_were_given_are_given_once(offering: Any, entries: Any, shaped: bool) -> None:
    """A spec that was read says all of it, in outputs and elsewhere: read again it is the same."""
    fleet = _fleet(
        **({"offering": offering} if offering is not None else {}),
        **({"infrastructures": entries} if entries is not None else {}),
        **({"shape": {"cpus": 1, "memory": "1GiB"}} if shaped else {}),
    )
    mapping = _spec(fleets=[fleet])
    whole = expanded(mapping)
    assert expanded(whole) == whole
    try:
        spec = read_spec(mapping)
    except SpecError:
        return
    written = spec.model_dump(mode="json", exclude_unset=True)
    again = read_spec(written)
    assert again == spec
    assert again.model_dump(mode="json", exclude_unset=True) == written
    assert ClusterSpec(**spec.model_dump()) == spec
