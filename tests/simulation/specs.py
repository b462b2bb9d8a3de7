"""Random clusters: one to four fleets, policies, limits, budgets."""

from __future__ import annotations

from random import Random
from typing import Any

from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec

NAMES = ("cpu", "big", "gpu", "spot")


def random_spec(random: Random) -> ClusterSpec:
    """A cluster that some department might have."""
    fleets = [_fleet(random, place, name) for place, name in enumerate(NAMES[: random.randint(1, 4)])]
    limits: dict[str, Any] = {}
    if random.random() < 0.4:
        limits["max_nodes"] = random.randint(4, 24)
    if random.random() < 0.3:
        limits["price_usd_per_hour"] = round(random.uniform(5, 40), 2)
    if random.random() < 0.3:
        limits["budget_usd_per_month"] = round(random.uniform(100, 3000), 2)
    return read_spec(
        {
            "name": "simulated",
            "network": "10.95.0.0/16",
            "controller": {"infrastructure": "libvirt"},
            "fleets": fleets,
            "partitions": _partitions([fleet["name"] for fleet in fleets]),
            "limits": limits,
            "scaling": {
                "policies": _policies(random, fleets),
                "boot_timeout_s": random.choice([30, 60, 120]),
            },
        }
    )


def _fleet(random: Random, place: int, name: str) -> dict[str, Any]:
    cpus = random.choice([2, 4, 8])
    shape: dict[str, Any] = {"cpus": cpus, "memory": f"{cpus * 2}GiB"}
    if name == "gpu":
        shape["gres"] = [{"name": "gpu", "type": "a100", "count": 2, "files": "/dev/nvidia[0-1]"}]
    return {
        "name": name,
        "subnet": f"10.95.{place + 1}.0/24",
        "min_nodes": random.choice([0, 0, 0, 1]),
        "max_nodes": random.randint(2, 16),
        "shape": shape,
        "features": ["avx2"] if random.random() < 0.5 else [],
        "idle_timeout_s": random.choice([0, 30, 120, 300, 900]),
        "infrastructures": [{"name": "libvirt", "price_usd_per_hour": random.choice([0.2, 0.5, 1, 3])}],
    }


def _partitions(fleets: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": "main", "default": True}]
    return found + [{"name": name, "fleets": [name]} for name in fleets]


def _policies(random: Random, fleets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": "backlog", "minutes": random.choice([10, 60])}
        if random.random() < 0.2
        else {"name": "queue"}
    ]
    fleet = random.choice(fleets)
    if random.random() < 0.2:
        suspended = random.randint(0, max(0, min(3, fleet["max_nodes"] - 1)))
        found.append({"name": "warm", "fleet": fleet["name"], "nodes": 1, "suspended": suspended})
    if random.random() < 0.2:
        found.append(
            {
                "name": "schedule",
                "fleet": fleet["name"],
                "nodes": 1,
                "days": ["mon", "wed"],
                "begin": "08:00",
                "end": "10:00",
                "timezone": "Europe/Zurich",
            }
        )
    if random.random() < 0.2:
        found.append({"name": "account", "account": "chemistry", "max_nodes": 2})
    return found
