"""What the checks of a spec know of infrastructures that are built in, held to what those do: the vocabulary imports none of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import pytest

from tests.cluster.specs import spec_mapping
from tests.components.stack import answers, spec_with
from tidepool.cluster.files import SERVING
from tidepool.cluster.firewall import FILTERING, Firewall
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.contract import Infrastructure, Storing
from tidepool.infrastructures.registry import BUILT_IN, infrastructures_of
from tidepool.testing import register

#: Options by which there is a way out at all, which rules open.
WAYS_OUT = {"aws": {"outside": True}, "libvirt": {"outside": True}}


def a_spec(name: str, **options: Any) -> ClusterSpec:
    """A cluster that is there alone."""
    if name == "local":
        return spec_with(fleets=spec_mapping()["fleets"][:1], partitions=[{"name": "main"}])
    return cast(ClusterSpec, import_module(f"tests.infrastructures.{name}.specs").spec(**options))


def network_of(name: str, to: str) -> dict[str, Any]:
    """The inputs of all that a stack's network is, whose nodes may go there."""
    rules = Firewall.model_validate({"nodes": {"egress": [{"to": [to], "ports": [443]}]}})
    spec = a_spec(name, **WAYS_OUT.get(name, {})).model_copy(update={"firewall": rules})
    graph = register(lambda: infrastructures_of(spec, "dev")[name].network("net", spec.network), answers)
    return {each: it.inputs for each, it in graph.resources.items() if "Preflight" not in each}


@pytest.mark.parametrize("name", BUILT_IN)
def test_rules_are_taken_where_the_network_holds_machines_to_them(name: str) -> None:
    here, there = (network_of(name, to) for to in ("192.0.2.7", "198.51.100.7"))
    assert (here != there) == (name in FILTERING)


@pytest.mark.parametrize("name", BUILT_IN)
def test_file_servers_are_of_this_machine_and_of_those_that_have_a_disk_for_one(name: str) -> None:
    found: list[Infrastructure] = []
    register(lambda: found.extend(infrastructures_of(a_spec(name), "dev").values()), answers)
    assert (name == "local" or isinstance(found[0], Storing)) == (name in SERVING)
