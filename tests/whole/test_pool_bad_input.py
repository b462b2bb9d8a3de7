"""Mistakes about pools are told before anything is made: all of them at once, each with its place and its remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kubernetes.real import shared
from tests.toolchain import needs_kubernetes
from tests.whole.pools import ANY, PoolCluster, spec
from tidepool.clients.kubernetes.contract import NEEDED
from tidepool.infrastructures.local import kernel

pytestmark = pytest.mark.slow


@pytest.fixture
def never_up(images: Path, tmp_path: Path) -> PoolCluster:
    return PoolCluster.make(tmp_path, images, "bad", **spec(4))


def _nothing_was_made(cluster: PoolCluster) -> None:
    assert kernel.list_machines(cluster.data, cluster.stack) == ()
    assert kernel.list_networks(cluster.data, cluster.stack) == ()


Change = Callable[[dict[str, Any]], object]


def _another(**changes: str) -> Change:
    """A second pool, in all else like the first."""
    return lambda spec: spec["pools"].append({**spec["pools"][0], "name": "other", **changes})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            lambda s: s["pools"][0].update(slurm_min=3, kubernetes_min=2),
            "pools[0].kubernetes_min = 2: with slurm_min, which is 3, more than the 4 machines; lower one of them, or "
            "raise machines",
            id="minimums-beyond-its-machines",
        ),
        pytest.param(
            _another(),
            "pools[1].subnet = '10.78.2.0/24': overlaps 10.78.2.0/24 of pools[0] (shared); 10.78.1.0/24 is free",
            id="a-machine-in-two-pools",
        ),
        pytest.param(
            _another(subnet="10.78.2.0/28"),
            "pools[1].subnet = '10.78.2.0/28': overlaps 10.78.2.0/24 of pools[0] (shared); 10.78.1.0/24 is free",
            id="machines-of-two-pools-with-one-address",
        ),
        pytest.param(
            _another(name="shared", subnet="10.78.3.0/24"),
            "pools[1].name = 'shared': pools[0] has this name already; give each its own",
            id="machines-of-two-pools-with-one-name",
        ),
        pytest.param(
            lambda s: s.pop("kubernetes"),
            "kubernetes: missing, and there are pools, whose machines serve it in turns; write `kubernetes: {}` for a "
            "control plane of the cluster's own, or the path of a kubeconfig into it",
            id="no-kubernetes",
        ),
        pytest.param(
            lambda s: s["pools"][0].update(image="debian-12"),
            "pool shared: its image debian-12 does not hold the role kubernetes, as it has no package containerd, no "
            "package containernetworking-plugins, no package runc, no tool kubelet, no tool pause; name one that does "
            "(by default it is debian-12-converged), or add that to {folder}/images/debian-12/recipe.yaml",
            id="an-image-without-the-role",
        ),
        pytest.param(
            lambda s: s["pools"][0].update(at_deadline="wait"),
            "pools[0].at_deadline = 'wait': it should be 'stop' or 'force'. What comes then: `stop` leaves the machine "
            "what it was, `force` requeues the jobs and kills the pods.",
            id="policy",
        ),
        pytest.param(
            lambda s: s["pools"][0].update(subnet="10.99.0.0/24"),
            "pools[0].subnet = '10.99.0.0/24': not within the network 10.78.0.0/16; 10.78.1.0/24 is free",
            id="elsewhere",
        ),
    ],
)
@needs_kubernetes
def test_one_mistake_is_told_with_its_remedy(never_up: PoolCluster, change: Change, told: str) -> None:
    change(never_up.spec)
    head, *mistakes = never_up.refused("up", "--yes").strip().splitlines()
    assert head.startswith(f"error: {never_up.file}, cluster:spec:")
    assert [mistake.strip() for mistake in mistakes] == [told.replace("{folder}", str(never_up.folder))]
    _nothing_was_made(never_up)


@needs_kubernetes
def test_a_kubeconfig_that_leads_nowhere_moves_nothing(never_up: PoolCluster, tmp_path: Path) -> None:
    config = tmp_path / "config"
    never_up.spec["kubernetes"] = {"kubeconfig": str(config)}
    said = never_up.refused("preview")
    assert str(config) in said
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}]\n"
    )
    said = never_up.refused("up", "--yes")
    assert "no machine moves" in said, said
    assert "127.0.0.1:9" in said, said
    _nothing_was_made(never_up)


@needs_kubernetes
def test_another_kubernetes_is_asked_for_rights_and_for_nodes_of_the_same_names(
    never_up: PoolCluster, tmp_path: Path
) -> None:
    """A real API server, whose kubeconfig allows nothing; then one that allows all, and has a Node of a machine's name."""
    real, config = shared(), tmp_path / "config"
    never_up.spec["kubernetes"] = {"kubeconfig": str(config)}
    config.write_text(real.kubeconfig("somebody"))
    for verb in (("preview",), ("up", "--yes")):
        said = never_up.refused(*verb)
        assert [str(right) for right in NEEDED if f"right to {right}" not in said] == [], said
    config.write_text(real.admin_kubeconfig)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "shared-4"}}
    requests = real.requests()
    try:
        requests.post("/api/v1/nodes", node, ANY)
        for verb in (("preview",), ("up", "--yes")):
            assert "a Node shared-4 already, of another cluster" in never_up.refused(*verb)
    finally:
        requests.delete("/api/v1/nodes/shared-4", ANY)
        requests.close()
    _nothing_was_made(never_up)


def test_without_a_toolchain_it_says_how_to_build_one(never_up: PoolCluster, tmp_path: Path) -> None:
    never_up.write_spec()
    done = never_up.run("up", "--yes", TIDEPOOL_TOOLCHAIN=str(tmp_path))
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "make kubernetes" in said, said
    assert "Traceback" not in said
    _nothing_was_made(never_up)
