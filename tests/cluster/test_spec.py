"""Specs: what is read, what is said of mistakes, and what a person is told beforehand."""

from __future__ import annotations

import copy
import json
import pickle
import time
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.cluster.spec_page import EXAMPLE, spec_page
from tests.cluster.specs import spec_mapping, with_fleet, with_pool
from tests.properties import runs
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec, Partition
from tidepool.cluster.spec_reading import SpecError, concerns, read_spec

PAGE = Path(__file__).parent.parent.parent / "docs/cluster-spec.md"
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


def said(mapping: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as refused:
        read_spec(mapping)
    assert all(str(mistake) in str(refused.value) for mistake in refused.value.mistakes)
    return [str(mistake) for mistake in refused.value.mistakes]


def test_a_spec_is_read_with_its_units_and_defaults() -> None:
    spec = read_spec(spec_mapping())
    cpu, gpu = spec.fleets
    assert spec.slurm_version == "22.05"
    assert cpu.shape.memory_mib == 4096
    assert cpu.shape.layout == (1, 2, 2)
    assert gpu.shape.layout == (2, 4, 1)
    assert [str(gres) for gres in gpu.shape.gres] == ["gpu:a100:2", "lic:3"]
    assert [infrastructure.name for infrastructure in gpu.infrastructures] == ["local", "aws"]
    assert (cpu.min_nodes, cpu.idle_timeout_s, cpu.infrastructures[0].name) == (0, 300, "local")
    assert spec.partitions[0].max_time == "UNLIMITED"
    assert spec.fleet("gpu") is gpu
    with pytest.raises(KeyError):
        spec.fleet("fpga")


def test_a_spec_is_frozen_to_its_depth_and_still_a_value() -> None:
    spec = read_spec(spec_mapping(slurm_conf={"KillWait": 60}))
    with pytest.raises(ValidationError):
        spec.name = "chemistry"
    with pytest.raises(TypeError, match="frozen"):
        spec.slurm_conf["KillWait"] = 1
    options = spec.fleets[1].infrastructures[1].options
    assert options["zones"] == ("a", "b")
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec
    assert hash(spec) == hash(read_spec(spec_mapping(slurm_conf={"KillWait": 60})))
    assert ClusterSpec.model_validate(json.loads(spec.model_dump_json())) == spec
    assert ClusterSpec.model_json_schema()["additionalProperties"] is False


def test_five_mistakes_are_told_at_once() -> None:
    mapping = with_fleet(0, shaep=1, min_nodes=20)
    mapping["fleets"][1]["subnet"] = "10.77.10.128/25"
    mapping["partitions"][1]["fleets"] = ["gpus"]
    mapping["slurm_conf"] = {"SlurmdTimout": 60}
    mistakes = said(mapping)
    assert [mistake.partition(":")[0].partition(" ")[0] for mistake in mistakes] == [
        "fleets[0].max_nodes",
        "fleets[0].shaep",
        "fleets[1].max_nodes",
        "fleets[1].subnet",
        "partitions[1].fleets[0]",
        "slurm_conf.SlurmdTimout",
    ]


GPU = {"name": "gpu", "count": 2, "files": "/dev/nvidia[0-1]"}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing at all": (
        {},
        "partitions: missing. The queues that jobs are submitted to; `[{name: main}]` is enough to begin with.",
    ),
    "unknown key": (
        with_fleet(0, shaep=1),
        "fleets[0].shaep = 1: no such key; did you mean shape? known here: name,",
    ),
    "unknown key, nothing near": (
        spec_mapping(zzz="x"),
        "zzz = 'x': no such key; known here: name, network,",
    ),
    "unknown key of a nested part": (
        with_fleet(0, shape={"cpus": 1, "memory": 99, "memory_mb": 4}),
        "fleets[0].shape.memory_mb = 4: no such key; did you mean memory? known here: cpus, memory,",
    ),
    "not a mapping": (
        spec_mapping(fleets=["cpu"]),
        "fleets[0] = 'cpu': write keys and values here, those of Fleet",
    ),
    "not a list": (spec_mapping(fleets={"cpu": 1}), "fleets = {'cpu': 1}: write a list here. The nodes that"),
    "no number": (
        with_fleet(0, max_nodes="many"),
        "fleets[0].max_nodes = 'many': it should be a valid integer. How many nodes there may be",
    ),
    "true for a number": (
        with_fleet(0, max_nodes=True),
        "fleets[0].max_nodes = True: it should be a valid integer.",
    ),
    "a list for an option": (
        spec_mapping(slurm_conf={"KillWait": [1]}),
        "slurm_conf.KillWait = [1]: write one text, number, yes or no, as it is to stand in Slurm's file",
    ),
    "a key that is no text": (
        spec_mapping(slurm_conf={1: 2}),
        "slurm_conf[1] = 1: it should be a valid string",
    ),
    "no partition": (
        spec_mapping(partitions=[]),
        "partitions = []: at least one is needed. The queues that jobs",
    ),
    "a release": (
        spec_mapping(slurm_version=20.11),
        "slurm_version = '20.11': it should be '22.05', '24.11' or '26.05'",
    ),
    "a release that was never run": (
        spec_mapping(slurm_version="25.05"),
        "slurm_version = '25.05': it should be '22.05', '24.11' or '26.05'",
    ),
    "nodes of a release that is too old for the controller": (
        with_fleet(0, slurm_version=22.05) | {"slurm_version": "24.11"},
        "fleets[0].slurm_version = '22.05': slurmctld of 24.11 serves nodes of 24.11, 24.05, 23.11, 23.02 alone; take",
    ),
    "machines of a newer release than the controller's": (
        with_pool(slurm_version="26.05") | {"slurm_version": "24.11"},
        "pools[0].slurm_version = '26.05': slurmctld of 24.11 serves nodes of 24.11, 24.05,",
    ),
    "an option that nodes of an older release do not know": (
        with_fleet(0, slurm_version="24.11")
        | {"slurm_version": "26.05", "slurm_conf": {"HttpParserType": "http_parser/libhttp_parser"}},
        "slurm_conf.HttpParserType = 'http_parser/libhttp_parser': Slurm 24.11 does not know HttpParserType",
    ),
    "a huge amount": (
        with_fleet(0, shape={"cpus": 1, "memory": "9" * 400 + "G"}),
        "999...: write a number of MiB, or a number and a unit",
    ),
    "a cluster's name": (
        spec_mapping(name="Physics"),
        "name = 'Physics': a cluster's name is a small letter, then",
    ),
    "a fleet's name": (
        with_fleet(0, name="cpu_1"),
        "fleets[0].name = 'cpu_1': a fleet's name begins the host names",
    ),
    "like a node": (
        with_fleet(0, name="cpu-1"),
        "fleets[0].name = 'cpu-1': a fleet's name must not look like a node's",
    ),
    "a word of Slurm's": (
        spec_mapping(partitions=[{"name": "DEFAULT"}]),
        "partitions[0].name = 'DEFAULT': 'DEFAULT' is a word of Slurm's own; take another",
    ),
    "a feature": (
        with_fleet(0, features=["a&b"]),
        "fleets[0].features[0] = 'a&b': a feature is a letter or '_', then",
    ),
    "a feature twice": (
        with_fleet(0, features=["a", "a"]),
        "fleets[0].features = ['a', 'a']: 'a' stands here 2 times; name each feature once",
    ),
    "a feature that is a fleet": (
        with_fleet(0, features=["gpu"]),
        "fleets[0].features[0] = 'gpu': this is a fleet's name, which is a feature of that fleet's nodes alone",
    ),
    "max below min": (
        with_fleet(0, min_nodes=17),
        "fleets[0].max_nodes = 16: less than min_nodes, which is 17; raise max_nodes or lower min_nodes",
    ),
    "more nodes than addresses": (
        with_fleet(0, max_nodes=255),
        "fleets[0].max_nodes = 255: the subnet 10.77.10.0/24 has addresses for 254 nodes; lower max_nodes, or take",
    ),
    "no subnet": (
        spec_mapping(
            fleets=[{"name": "a", "max_nodes": 9, "shape": {"cpus": 1, "memory": 99}}],
            partitions=[{"name": "main"}],
        ),
        "leave room to grow. Here, 10.77.1.0/24 is free.",
    ),
    "a subnet outside": (
        with_fleet(0, subnet="10.78.0.0/24"),
        "fleets[0].subnet = '10.78.0.0/24': not within the network 10.77.0.0/16; 10.77.1.0/24 is free",
    ),
    "a subnet of the cluster's own": (
        with_fleet(0, subnet="10.77.0.0/24"),
        "fleets[0].subnet = '10.77.0.0/24': overlaps 10.77.0.0/26, where the cluster's own machines are; 10.77.1.0/24",
    ),
    "overlapping subnets": (
        with_fleet(1, subnet="10.77.8.0/21"),
        "fleets[1].subnet = '10.77.8.0/21': overlaps 10.77.10.0/24 of fleets[0] (cpu); 10.77.2.0/23 is free",
    ),
    "bits beyond the prefix": (
        with_fleet(0, subnet="10.77.10.5/24"),
        "fleets[0].subnet = '10.77.10.5/24': the address has bits beyond its prefix; write 10.77.10.0/24",
    ),
    "no network": (
        spec_mapping(network="10.77"),
        "network = '10.77': write an IPv4 network with the length of its",
    ),
    "a public network": (
        spec_mapping(network="8.8.0.0/16"),
        "network = '8.8.0.0/16': take a private network, within",
    ),
    "a network without room": (
        spec_mapping(network="10.77.0.0/26"),
        "network = '10.77.0.0/26': take a prefix from /8",
    ),
    "fleets of one name": (
        with_fleet(1, name="cpu") | {"partitions": [{"name": "main"}]},
        "fleets[1].name = 'cpu': fleets[0] has this name already; give",
    ),
    "partitions of one name": (
        spec_mapping(partitions=[{"name": "a"}, {"name": "a"}]),
        "partitions[1].name = 'a': partitions[0] has this name already; give each its own",
    ),
    "two defaults": (
        spec_mapping(partitions=[{"name": "a", "default": True}, {"name": "b", "default": True}]),
        "partitions[1].default = True: partitions[0] (a) is the default already; one partition can be it",
    ),
    "an unknown fleet": (
        spec_mapping(partitions=[{"name": "a", "fleets": ["cpus"]}]),
        "partitions[0].fleets[0] = 'cpus': there is no such fleet; did you mean cpu? known here: cpu, gpu",
    ),
    "a fleet twice": (
        spec_mapping(partitions=[{"name": "a", "fleets": ["cpu", "cpu"]}]),
        "partitions[0].fleets[1] = 'cpu': this fleet is named twice; leave one out",
    ),
    "an infrastructure's name": (
        with_fleet(0, infrastructures=["Azure Cloud"]),
        "fleets[0].infrastructures[0].name = 'Azure Cloud': ",
    ),
    "a time": (
        spec_mapping(partitions=[{"name": "a", "max_time": "soon"}]),
        "partitions[0].max_time = 'soon': write a time as Slurm does: minutes, hours:minutes:seconds, days-hours,",
    ),
    "memory": (
        with_fleet(0, shape={"cpus": 1, "memory": "4 potatoes"}),
        "fleets[0].shape.memory = '4 potatoes': write a number of MiB, or a number and a unit, M, G or T: 4096, 4GiB",
    ),
    "a layout": (
        with_fleet(0, shape={"cpus": 6, "memory": 99, "sockets": 4}),
        "sockets 4 x cores_per_socket open x threads_per_core 1 cannot be the 6 of cpus; change one, or leave open",
    ),
    "a gpu without files": (
        with_fleet(0, shape={"cpus": 6, "memory": 99, "gres": ["gpu:2"]}),
        "fleets[0].shape.gres[0].files: Slurm wants to know the device files of a gpu; add them: {name: gpu,",
    ),
    "files for another count": (
        with_fleet(0, shape={"cpus": 6, "memory": 99, "gres": [{**GPU, "count": 3}]}),
        "fleets[0].shape.gres[0].files = '/dev/nvidia[0-1]': 2 files for a count of 3; name as many files",
    ),
    "a gres twice": (
        with_fleet(0, shape={"cpus": 6, "memory": 99, "gres": ["lic:a:1", "lic:a:2"]}),
        "lic:a stands here twice; add the counts",
    ),
    "a gres of another form": (
        with_fleet(0, shape={"cpus": 6, "memory": 99, "gres": ["a:b:c:4"]}),
        "fleets[0].shape.gres[0] = 'a:b:c:4': write NAME, NAME:COUNT or NAME:TYPE:COUNT, such as gpu:a100:2",
    ),
    "limits below the least": (
        with_fleet(0, min_nodes=9) | {"limits": {"max_nodes": 8}},
        "limits.max_nodes = 8: less than the min_nodes of all fleets, 9 together; raise it or lower those",
    ),
    "an option twice": (
        spec_mapping(slurm_conf={"KillWait": 1, "killwait": 2}),
        "slurm_conf.killwait = 2: Slurm does not tell it from KillWait; leave one out",
    ),
    "an option of a partition": (
        spec_mapping(partitions=[{"name": "a", "options": {"Nodes": "cpu-1"}}]),
        "partitions[0].options.Nodes = 'cpu-1': Nodes is not for a person to set: it is the partition's `fleets`",
    ),
    "an option of cgroup.conf": (
        spec_mapping(cgroup_conf={"EnableExtraControllers": "all"}),
        "cgroup_conf.EnableExtraControllers = ",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_where_what_and_what_to_do(mistake: str) -> None:
    mapping, expected = MISTAKES[mistake]
    mistakes = said(mapping)
    assert any(expected in one for one in mistakes), mistakes
    if mapping:
        assert len(mistakes) == 1


def test_more_nodes_than_slurm_has_room_for() -> None:
    fleets = [
        {"name": f"f{c}", "subnet": f"10.{i}.0.0/16", "max_nodes": 40_000, "shape": {"cpus": 1, "memory": 99}}
        for i, c in enumerate("ab", 1)
    ]
    (mistake,) = said(spec_mapping(network="10.0.0.0/8", fleets=fleets, partitions=[{"name": "a"}]))
    assert mistake == "fleets: their max_nodes sum up to 80000, and Slurm has room for 65536; lower them"


def test_many_fleets_with_many_mistakes_are_told_of_in_time() -> None:
    fleet = spec_mapping()["fleets"][0]
    fleets = [fleet | {"name": f"f{i}x"} for i in range(100)]
    started = time.process_time()
    mistakes = said(spec_mapping(fleets=fleets, partitions=[{"name": "main"}]))
    # 0.02 s were measured; for machines that are busy, many times that.
    assert time.process_time() - started < 2
    assert len(mistakes) == 99


def test_a_model_made_in_python_is_checked_too() -> None:
    shape = Shape(cpus=1, memory_mib=100)
    with pytest.raises(ValidationError, match="less than min_nodes"):
        Fleet(name="cpu", subnet=IPv4Network("10.0.1.0/24"), min_nodes=2, max_nodes=1, shape=shape)
    with pytest.raises(ValidationError, match="there is no such fleet"):
        ClusterSpec(
            name="a", network=IPv4Network("10.0.0.0/16"), partitions=(Partition(name="p", fleets=("x",)),)
        )


@given(
    st.one_of(
        st.dictionaries(st.sampled_from([*ClusterSpec.model_fields, "other"]), ANYTHING),
        st.builds(
            lambda key, value: with_fleet(0, **{key: value}),
            st.sampled_from(list(Fleet.model_fields)),
            ANYTHING,
        ),
        st.builds(
            lambda key, value: spec_mapping(**{key: value}),
            st.sampled_from(list(ClusterSpec.model_fields)),
            ANYTHING,
        ),
    )
)
@example(with_fleet(0, features=[[]]))
@example(spec_mapping(partitions=[{"name": "main", "fleets": [["cpu"]]}]))
@example(with_fleet(0, infrastructures=[{"name": []}]) | {"infrastructures": {"aws": {}}})
@runs()
def test_whatever_stands_there_is_read_or_refused_in_words(mapping: dict[str, Any]) -> None:
    # Anything else that it raises is a failure.
    with suppress(SpecError):
        read_spec(mapping)


def test_a_fleet_over_the_memory_of_the_machine_is_told_with_the_sums() -> None:
    spec = read_spec(with_fleet(1, max_nodes=4))
    assert concerns(spec, 128_000) == ()
    assert [str(concern) for concern in concerns(spec, 64_000)] == [
        (
            "fleets[0].max_nodes: 16 nodes of 4096 MiB are 65536 MiB, and this machine has 64000 MiB: jobs that use "
            "what they asked for will not fit. 15 nodes would"
        ),
        (
            "fleets: all together, cpu 16 x 4096 = 65536 MiB + gpu 4 x 8000 = 32000 MiB: 97536 MiB, and this machine "
            "has 64000 MiB"
        ),
    ]
    elsewhere = read_spec(
        spec_mapping(
            fleets=[spec_mapping()["fleets"][0] | {"infrastructures": ["aws"]}], partitions=[{"name": "main"}]
        )
    )
    assert concerns(elsewhere, 1) == ()


def test_what_no_job_can_reach_is_told() -> None:
    spec = read_spec(
        spec_mapping(partitions=[{"name": "a", "fleets": ["gpu"]}, {"name": "b", "fleets": ["gpu"]}])
    )
    assert [str(concern) for concern in concerns(spec)] == [
        "fleets[0]: no partition has cpu, so no job can reach its nodes",
        "partitions: none is the default, so jobs that name no partition are refused",
    ]


@pytest.mark.parametrize(
    ("places", "said", "words"),
    [
        (["local", "kubernetes"], None, "no job is confined on any node, for machines of kubernetes make no"),
        (["ssh"], None, None),
        (["local", "nomad"], "linuxproc", None),
        (["local", "nomad"], "cgroup", "whether machines of nomad make control groups is not known"),
        (["local", "libvirt"], "cgroup", None),
    ],
)
def test_nodes_whose_jobs_cannot_be_confined_are_told(
    places: list[str], said: str | None, words: str | None
) -> None:
    mapping = with_fleet(0, infrastructures=places)
    told = [str(each) for each in concerns(read_spec(mapping | {"process_tracking": said}))]
    assert (len(told) == 1 and words in told[0]) if words else told == []


def test_the_page_is_what_the_models_say() -> None:
    command = "python -c 'from tests.cluster.spec_page import spec_page; print(spec_page(), end=\"\")'"
    assert PAGE.read_text() == spec_page(), f"write it anew: {command} >docs/cluster-spec.md"


def test_the_example_on_the_page_is_a_spec() -> None:
    spec = read_spec(yaml.safe_load(EXAMPLE))
    assert concerns(spec) == ()
