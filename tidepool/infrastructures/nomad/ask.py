"""Nomad is asked what it has, and what the token may do; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from tidepool.cluster.failures import Permanent
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.errors import NotAllowed, NotThere
from tidepool.infrastructures.nomad.jobspec import Group, Job, Task, written
from tidepool.infrastructures.nomad.preflight import There

#: No variable has this index, so writing with it writes nothing.
_NEVER: Final = "18446744073709551614"
#: Planned, and never run.
_PROBE: Final = Job(
    "tidepool-probe", "system", (Group("probe", (Task("probe", "raw_exec", {"command": "/bin/true"}),)),)
)


def rights_missing(api: Api, namespace: str) -> tuple[str, ...]:
    """Return the rights of a stack that the token lacks, each with the rule that gives it; and a namespace that is not there.

    Raises:
        InfrastructureError: it cannot be asked.
    """
    return tuple(_missing(api, namespace))


def _missing(api: Api, namespace: str) -> Iterator[str]:
    in_namespace = f'namespace "{namespace}"'
    job = f'{in_namespace} {{ capabilities = ["submit-job", "read-job", "alloc-lifecycle"] }}'
    try:
        api.call("GET", f"namespace/{namespace}")
    except NotThere:
        yield f"the namespace {namespace} is not there; run: nomad namespace apply {namespace}"
        return
    except NotAllowed:
        yield f"the token does not let into the namespace {namespace}: {job}"
        return
    plan = json.loads(written(replace(_PROBE, namespace=namespace)))
    if not _may(lambda: api.call("POST", f"job/{_PROBE.id}/plan", plan, namespace=namespace)):
        yield f"the token may not submit jobs: {job}"
    variable = {"Path": f"nomad/jobs/{_PROBE.id}", "Namespace": namespace, "Items": {"probe": ""}}
    write = f"var/{variable['Path']}"
    if not _may(lambda: api.call("PUT", write, variable, namespace=namespace, cas=_NEVER)):
        yield (
            f'the token may not write variables: {in_namespace} {{ variables {{ path "nomad/jobs/*" '
            '{ capabilities = ["write", "read", "destroy"] } } }'
        )
    try:
        listed = api.call("GET", "nodes")
    except NotAllowed:
        yield 'the token may not read hosts: node { policy = "write" }'
        return
    if listed:
        told = {"NodeID": listed[0]["ID"], "Meta": {}}
        if not _may(lambda: api.call("POST", "client/metadata", told, node_id=told["NodeID"])):
            yield 'the token may not change what hosts say of themselves: node { policy = "write" }'


def _may(call: Callable[[], Any]) -> bool:
    """Return whether it is let in. What it says else, as that it asks for too little, is an answer as well."""
    try:
        call()
    except NotAllowed:
        return False
    except Permanent:
        return True
    return True


def there(api: Api, named: Sequence[str], stack: str) -> There:
    """All hosts, and the static ports that other stacks' jobs have on those that are ``named``.

    Raises:
        InfrastructureError: it cannot be asked.
    """
    hosts = api.hosts()
    ports = {}
    for host in hosts:
        if host.name not in named:
            continue
        for each in api.call("GET", f"node/{host.id}/allocations", namespace="*") or ():
            if each.get("ClientStatus") in ("pending", "running") and not _is_of(each, stack):
                for port in _ports(each):
                    ports[host.name, port] = each["JobID"]
    return There(hosts, ports)


def _is_of(allocation: dict[str, Any], stack: str) -> bool:
    return str(allocation["JobID"]).startswith(f"{stack}-")


def _ports(allocation: dict[str, Any]) -> Iterator[int]:
    shared = (allocation.get("AllocatedResources") or {}).get("Shared") or {}
    for network in shared.get("Networks") or ():
        for port in network.get("ReservedPorts") or ():
            yield int(port["Value"])
