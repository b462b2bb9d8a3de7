"""A slurmdbd that clusters share, in a spec: what is refused, what Slurm is told, and what may pass between networks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.specs import spec_mapping
from tidepool.cluster.accounting import ACCOUNTING_SOCKET
from tidepool.cluster.flows import Flow
from tidepool.cluster.slurm_conf import slurm_conf
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec

BIOLOGY = {"cluster": "biology", "network": "10.81.0.0/16"}


def spec_of(accounting: dict[str, Any], **changes: Any) -> ClusterSpec:
    return read_spec(spec_mapping(controller={"accounting": accounting}, **changes))


def told(spec: ClusterSpec) -> list[str]:
    return [line for line in slurm_conf(spec).splitlines() if line.startswith("AccountingStorage")]


@pytest.mark.parametrize(
    ("accounting", "said"),
    [
        ({"shared_with": [{**BIOLOGY, "cluster": "physics"}]}, ["it is the cluster's own name"]),
        ({"shared_with": [{**BIOLOGY, "network": "10.77.128.0/20"}]}, ["it overlaps the cluster's own network"]),
        ({"shared_with": [BIOLOGY, BIOLOGY]}, ["shared_with[0] already", "it overlaps that of"]),
        ({"shared_with": [{"cluster": "Biology", "network": "192.0.2.1/24"}]}, ["a small letter", "network"]),
        ({"host": "10.81.0.4", "shared_with": [BIOLOGY]}, ["slurmdbd is another cluster's"]),
        ({"host": "10.77.0.4"}, ["within the cluster's own network 10.77.0.0/16"]),
        ({"host": "dbd.site"}, ["not a valid IPv4 address"]),
        ({"host": "10.81.0.4", "port": 70000}, ["less than or equal to 65535"]),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_is_refused_in_words(accounting: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(SpecError) as refused:
        spec_of(accounting)
    for each in said:
        assert each in str(refused.value)


@pytest.mark.parametrize("accounting", [{"host": "10.81.0.4"}, {"shared_with": [BIOLOGY]}])
@pytest.mark.parametrize("infrastructure", ["aws", "libvirt", "kubernetes", "nomad"])
def test_where_no_rule_is_written_for_it_it_is_refused(
    accounting: dict[str, Any], infrastructure: str
) -> None:
    controller = {"infrastructure": infrastructure, "accounting": accounting}
    with pytest.raises(SpecError, match="cannot share slurmdbd yet"):
        read_spec(spec_mapping(controller=controller))


def test_slurm_is_told_by_which_munged_it_asks_where_keys_differ_and_only_then() -> None:
    assert told(spec_of({})) == [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=10.77.0.4",
    ]
    passing = f"AccountingStoragePass={ACCOUNTING_SOCKET}"
    assert told(spec_of({"shared_with": [BIOLOGY]}))[1:] == ["AccountingStorageHost=10.77.0.4", passing]
    other = told(spec_of({"host": "10.81.0.4", "port": 7819}))
    assert other[1:] == ["AccountingStorageHost=10.81.0.4", "AccountingStoragePort=7819", passing]
    for key in ("AccountingStoragePass", "AccountingStoragePort"):
        with pytest.raises(SpecError, match=r"controller\.accounting"):
            spec_of({}, slurm_conf={key: "6819"})


def test_both_sides_say_the_same_of_what_passes() -> None:
    client = spec_of({"host": "10.81.0.4"})
    shared = {"cluster": "physics", "network": "10.77.0.0/16"}
    server = read_spec(
        {**spec_mapping(), "name": "biology", "network": "10.81.0.0/16", "fleets": [], "partitions": [{"name": "main"}],
         "controller": {"accounting": {"shared_with": [shared]}}}
    )  # fmt: skip
    (theirs,), (own,) = server.peers, client.peers
    assert (theirs.network, own.network) == ("10.77.0.0/16", "10.81.0.4/32")
    assert (theirs.ingress, theirs.egress) == (own.egress, own.ingress)
    asking = ("10.77.0.2/31", "10.77.0.16/28")
    assert own.egress == (Flow(asking, ("10.81.0.4/32",), "tcp", ("6819",)),)
    assert own.ingress == (Flow(("10.81.0.4/32",), ("10.77.0.2/31",), "tcp", ("6817",)),)
    assert "dbd" in server.own_hosts
    assert "dbd" not in client.own_hosts
    assert spec_of({}).peers == ()
