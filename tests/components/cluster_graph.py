"""A cluster on any infrastructure as a user's program registers it, run against mocks: what is the same of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pulumi.runtime.mocks import MockResourceArgs

from tests.components.stack import answers
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import ComputeFleet, SlurmController
from tidepool.testing import Graph, register

FILE, ACCESS, MACHINE = "tidepool:image:File", "tidepool:ssh:Access", "tidepool:ssh:Machine"
#: Outputs by types, or by types and names.
Outputs = Mapping[str, Mapping[str, Any]]


def connection(address: str, **more: Any) -> Mapping[str, Any]:
    return {"kind": "ssh", "stack": "dev", "address": address, "user": "root", **more}


def registered(
    spec: ClusterSpec,
    nodes: Mapping[str, str] | None = None,
    *,
    outputs: Callable[[MockResourceArgs], Outputs] = lambda _: {},
    known: Outputs | None = None,
    places: Mapping[str, Mapping[str, str]] | None = None,
    digest: str = "d" * 64,
    munge_key: str = "bXVuZ2U=",
    preview: bool = False,
    suspended: str = "",
) -> Graph:
    """The graph of a stack with the fleets of ``spec``; those that nobody names have two nodes, or none.

    Of the fleet `cpu` those that are ``suspended`` are no nodes. ``outputs`` are an infrastructure's, ``known`` those of a test.
    """

    def program() -> None:
        controller = SlurmController(spec.name, spec, folder=Path("/project"))
        for fleet in spec.fleets:
            names = (nodes or {"cpu": "cpu-[1-2]", "metal": "metal-[1-2]"}).get(fleet.name, "")
            known_places = (places or {}).get(fleet.name, {})
            ComputeFleet(
                fleet.name,
                controller=controller,
                nodes=names,
                suspended=HostSet(suspended if fleet.name == "cpu" else ""),
                placements=known_places,
            )

    def answer(args: MockResourceArgs) -> Mapping[str, Any]:
        found: Outputs = {
            "tidepool:image:Image": {"digest": digest},
            "tidepool:keys:MungeKey": {"key": munge_key},
            FILE: {"path": f"/images/{digest}/image.{args.inputs.get('form')}"},
            MACHINE: {"connection": connection(args.inputs.get("address", ""))},
            **outputs(args),
            **(known or {}),
        }
        return found.get(f"{args.typ} {args.name}") or found.get(args.typ, answers(args))

    return register(program, answer, preview=preview)
