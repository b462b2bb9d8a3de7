"""Specs of clusters on CloudStack, as a person writes them."""

from __future__ import annotations

from typing import Any

from tidepool.cluster.spec import ClusterSpec

VOLUMES = {"home": "10.9.0.1:/physics/home", "slurmctld": "10.9.0.1:/physics/slurmctld"}
ENDPOINT = "https://cloud.site/client/api"


def mapping(offering: dict[str, Any] | None = None, /, **place: Any) -> dict[str, Any]:
    """A cluster with one fleet; ``controller``, ``fleet`` and ``firewall`` are the spec's, all other names are options of the place."""
    controller = {
        "login_machines": 1,
        "shape": {"cpus": 1, "memory": "512MiB"},
        **place.pop("controller", {}),
    }
    fleet, firewall = place.pop("fleet", {}), place.pop("firewall", {})
    server = {"file_server": place.pop("file_server")} if "file_server" in place else {}
    boots = {} if "template" in place else {"images": "https://images.site/tidepool"}
    options = {"endpoint": ENDPOINT, "zone": "zone-1", "volumes": VOLUMES, **boots, **place}
    return {
        "name": "physics",
        "network": "10.77.0.0/16",
        "controller": {**controller, "infrastructure": {"name": "cloudstack", "options": options}},
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.10.0/24",
                "min_nodes": 1,
                "max_nodes": 4,
                "shape": {"cpus": 4, "memory": "3GiB"},
                "infrastructures": [{"name": "cloudstack", "options": offering or {}}],
                **fleet,
            }
        ],
        "partitions": [{"name": "main"}],
        **({"firewall": firewall} if firewall else {}),
        **server,
    }


def spec(offering: dict[str, Any] | None = None, /, **place: Any) -> ClusterSpec:
    return ClusterSpec.model_validate(mapping(offering, **place))
