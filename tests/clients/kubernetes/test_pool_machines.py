"""Machines of pools as a real API server keeps them: by the definition that Tidepool brings, and with the rights that it has."""

from __future__ import annotations

import pytest

from tests.clients.kubernetes.real import RealKubernetes
from tests.whole.cluster import until
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.kubernetes.control_plane import ControlPlane
from tidepool.clients.kubernetes.exchange import dial_here
from tidepool.clients.kubernetes.first_objects import TIDEPOOL_USER, shown_objects
from tidepool.clients.kubernetes.objects import PoolMachine
from tidepool.conversion.pool_machines import show

pytestmark = pytest.mark.slow

ONE = PoolMachine(
    "shared-1", "dev", "shared", "Slurm", "Absent", "7", "2026-11-27T12:00:02Z", "scaler: job 7"
)
TWO = PoolMachine("shared-2", "dev", "shared", "Kubernetes", "Ready")


@pytest.fixture
def user(real: RealKubernetes) -> str:
    """Tidepool's own, of a server that has the objects."""
    with ControlPlane(real.admin_kubeconfig, dial_here) as plane:
        for each in shown_objects():
            plane.apply(each)
        # A kind is served a moment after it was defined, and a right holds.
        until(
            lambda: all(map(plane.has, shown_objects())) or None, "the objects are as they are asked for", 60
        )
    return real.kubeconfig(TIDEPOOL_USER)


def test_they_are_written_listed_and_taken_away_with_tidepools_rights(
    real: RealKubernetes, user: str
) -> None:
    def is_served() -> bool | None:
        try:
            return client.pool_machines("dev") == ()
        except KubernetesError:
            return None  # it knows no such kind yet, gives no right to it, or makes its storage

    with connect(user) as client:
        until(is_served, "the kind is served, and may be listed", 60)
        show(client, "dev", [ONE, TWO])
        assert set(client.pool_machines("dev")) == {ONE, TWO}
        # What one does not say any more is not there.
        show(client, "dev", [PoolMachine("shared-1", "dev", "shared", "Kubernetes", "Ready")])
        assert client.pool_machines("dev") == (
            PoolMachine("shared-1", "dev", "shared", "Kubernetes", "Ready"),
        )
        assert client.pool_machines("another") == ()
        show(client, "dev", [])
        client.delete_pool_machine("shared-1")
        assert client.pool_machines("dev") == ()
