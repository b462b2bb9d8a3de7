"""Preflight of existing hosts: the demands of a spec, compared with what each host has, in previews and by `tidepool doctor`.

Among what a host may lack is that it is nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.cluster.failures import Note, marked
from tidepool.cluster.roles import LAYOUTS
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight, findings, gathered
from tidepool.infrastructures.ssh.ask import FACTS_S, Ask, HostError, Silent, ask
from tidepool.infrastructures.ssh.boot import KUBERNETES_PACKAGES
from tidepool.infrastructures.ssh.reading import Options, connection_of, own_machines, read_options

if TYPE_CHECKING:
    from tidepool.resources.kind import Home


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand on one host. ``path`` is where a person wrote so, ``cpus`` and ``memory_mib`` what its node has."""

    path: str
    host: str
    cpus: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    #: Of one of the cluster's own machines: nothing can be done while it does not answer.
    is_own: bool = False
    #: Of a converged pool's: it takes roles.
    is_converged: bool = False
    #: How it is reached, as `tidepool.infrastructures.connection` reads it.
    connection: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack on hosts. ``users`` are the numbers of accounts, of the user and of its group.

    ``controllers`` are those of control groups by which jobs are confined; none where they are not.
    """

    stack: str
    systems: tuple[str, ...]
    users: Mapping[str, tuple[int, ...]]
    hosts: tuple[Demand, ...]
    controllers: tuple[str, ...] = ()


def demands(spec: ClusterSpec, options: Options, stack: str) -> Demands:
    """Return the demands on each host that can be a node, when every fleet is as large as it may be."""
    place = options.place
    users = {name: (each.uid, each.gid or each.uid) for name, each in place.users.items()}
    return Demands(
        stack, tuple(place.systems), users, tuple(_demands(spec, options)), spec.confining_controllers
    )


def _demands(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    own = f"{spec.site_options('ssh').path}.machines"
    for host in options.own[: own_machines(spec)]:
        yield _demand(options, own, host, spec.controller.shape, is_own=True)
    pools = {pool.name for pool in spec.pools}
    for found in spec.entries("ssh"):
        most, name = found.fleet.most_nodes(found.entry), found.fleet.name
        for host in options.fleets[name][:most]:
            demand = _demand(options, f"{found.options_path}.hosts", host, found.fleet.shape)
            yield replace(demand, is_converged=name in pools)


def _demand(options: Options, path: str, host: str, shape: Shape, *, is_own: bool = False) -> Demand:
    connection = connection_of(options.place, options.hosts[host])
    return Demand(path, host, shape.cpus, shape.memory_mib, is_own, connection=connection)


#: What packages are made for.
_ARCHITECTURE: Final = "x86_64"
_OLDEST_PYTHON: Final = (3, 8)
_TOOLS: Final = {"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "mount": "mount"}


@gathered
def lacks(facts: Mapping[str, Any], demand: Demand, demands: Demands) -> Iterator[str]:
    """All that is wrong with a host, each with the remedy. ``facts`` are the keeper's."""
    claim = facts["claim"]
    if claim and claim["key"]["stack"] != demands.stack:
        key = claim["key"]
        taken = f"it is the node {key['node']} of the stack {key['stack']}: give it back there first, or take another host"
        yield marked(taken, "capacity")
        return
    if not claim and (daemons := facts["daemons"]):
        yield (
            f"{', '.join(daemons)} runs there, so it is a node of another cluster, which no stack of ours made: take it out "
            "of that cluster and stop what runs, or take another host"
        )
    if demand.is_converged and not facts["systemd"]:
        yield "it was not started by systemd, whose targets the roles of a pool are: take another host, or make it a fleet's"
    if demand.is_converged and (taken := facts["taken"]):
        yield (
            f"it has {', '.join(taken)}, which a machine of a pool gets with a role and loses with it: somebody's containers, munge or "
            "Kubernetes are there, which would be broken. Take them away there (apt-get purge containerd docker.io munge), or take "
            "another host; one of a fleet keeps them"
        )
    system = f"{facts['os'].get('ID', '?')} {facts['os'].get('VERSION_ID', '?')}"
    if system not in demands.systems:
        yield (
            f"it runs {system}, and hosts run {' or '.join(demands.systems)}: take another host; or name it in `systems`, where its "
            "packages have the same release of Slurm"
        )
    if "apt-get" not in facts["tools"]:
        yield "it has no apt-get, by which the roles install packages: take a host of Debian"
    if facts["architecture"] != _ARCHITECTURE:
        yield f"it is {facts['architecture']}, and the cluster is {_ARCHITECTURE}: take another host"
    if tuple(facts["python"]) < _OLDEST_PYTHON:
        yield f"its Python is {facts['python'][0]}.{facts['python'][1]}; Ansible wants 3.8 or newer: apt-get install python3"
    for tool, package in _TOOLS.items():
        if tool not in facts["tools"]:
            yield f"it has no {tool}; run there: apt-get install {package}"
    if not demand.is_own and (missing := {*demands.controllers} - {*facts["controllers"]}):
        yield (
            f"its control groups have no {', '.join(sorted(missing))}, by which jobs are confined: mount them there, boot it with systemd; "
            "or write process_tracking: linuxproc, by which no job of the cluster is confined"
        )
    if facts["cpus"] < demand.cpus:
        yield f"it has {facts['cpus']} cpus, and the shape {demand.cpus}: lower cpus of the shape, or take another host"
    if facts["memory_mib"] < demand.memory_mib:
        yield (
            f"it has {facts['memory_mib']} MiB of memory, and the shape {demand.memory_mib} MiB: lower memory of the shape, or "
            "take another host"
        )
    for name, (uid, gid) in demands.users.items():
        there = facts["users"].get(name)
        if there and tuple(there) != (uid, gid):
            yield (
                f"its user {name} has the numbers {there[0]} and {there[1]}, and the cluster's {uid} and {gid}: give it those "
                "there, or write them in `users`"
            )
        taken = facts["numbers"].get(str(uid))
        if taken not in (None, name):
            yield f"its user {taken} has the number {uid}, which {name} is to have: write another one in `users`"


#: What a pool's host gets with a role and loses with it, and where else it may be the host's own: `keeper` says which of it is.
_OF_ROLES: Final[Mapping[str, Sequence[str]]] = {
    "places": sorted(
        {
            *(
                "/usr/bin/containerd",
                "/usr/bin/kubelet",
                "/usr/local/bin/containerd",
                "/usr/local/bin/kubelet",
            ),
            *("/var/lib/containerd", "/etc/kubernetes"),
            *(
                path
                for layout in LAYOUTS.values()
                for path in (*layout.secrets, *layout.state, *layout.emptied)
            ),
        }
    ),
    "packages": KUBERNETES_PACKAGES,
    "links": [name for layout in LAYOUTS.values() for name in layout.links],
}
#: So many are asked at a time: over SSH, each takes a second.
_AT_ONCE: Final = 64


def lacks_of_hosts(demands: Demands, ask: Ask = ask) -> Iterator[tuple[Demand, Sequence[str | Silent]]]:
    """All that is wrong with each host, with the remedy; that it cannot be asked."""

    def wrong(demand: Demand) -> Sequence[str | Silent]:
        asked: dict[str, Any] = {
            "users": list(demands.users),
            "numbers": [uid for uid, _ in demands.users.values()],
        }
        if demand.is_converged:
            asked["of_roles"] = _OF_ROLES
        try:
            facts = ask(demand.connection, "facts", asked, FACTS_S)
        except Silent as error:
            return (error,)
        except HostError as error:
            return (str(error),)
        return lacks(facts, demand, demands)

    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(demands.hosts)))) as threads:
        yield from zip(demands.hosts, threads.map(wrong, demands.hosts), strict=True)


def checks_of(spec: ClusterSpec, stack: str, _data: Path, ask: Ask = ask) -> Iterator[Finding]:
    """Each host that may be a node."""
    for demand, found in lacks_of_hosts(demands(spec, read_options(spec), stack), ask):
        lacks = (f"{demand.path}: {lack}" for lack in found)
        yield from findings(f"host {demand.host}", lacks, "it answers, and is fit to be a node")


def _missing(demands: Demands, _home: Home) -> Iterator[str | Note]:
    for demand, found in lacks_of_hosts(demands):
        for lack in found:
            text = f"{demand.path}: the host {demand.host}: {lack}"
            # Of many hosts one is always down, and the work of others goes on.
            yield Note(text) if isinstance(lack, Silent) and not demand.is_own else text


PREFLIGHT = Preflight(Demands, _missing)
