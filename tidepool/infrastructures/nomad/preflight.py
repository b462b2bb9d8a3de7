"""Lacks of Nomad, compared with the demands on it. It takes jobs that no host can run, and lets them wait without a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidepool.infrastructures.nomad.demand import Demand
from tidepool.infrastructures.nomad.host import Host, lacking
from tidepool.infrastructures.nomad.jobs import STACK

#: The least version. Since it, changes of system jobs are healthy before they go on, and revert.
LEAST: Final = (1, 11)


@dataclass(frozen=True, slots=True)
class There:
    """Observation of Nomad: its hosts, and which static ports of them others have, by host and port with the job's name."""

    hosts: tuple[Host, ...]
    ports: Mapping[tuple[str, int], str] = field(default_factory=dict)


def lacks(there: There, demands: Sequence[Demand], stack: str) -> tuple[str, ...]:
    """All that is missing, each with where it was asked for and the remedy. Empty where nothing is."""
    return tuple(_lacks(there, demands, stack))


def _lacks(there: There, demands: Sequence[Demand], stack: str) -> Iterator[str]:
    by_name = {host.name: host for host in there.hosts}
    for demand in demands:
        if demand.host:
            yield from _of_host(there, by_name.get(demand.host), demand)
        else:
            yield from _of_fleet(there, demand, stack)
    named = {demand.host for demand in demands if demand.host}
    for host in there.hosts:
        if host.version and _version(host.version) < LEAST and host.name in named:
            yield (
                f"{host.name} has Nomad {host.version}, whose changes of system jobs are neither waited for nor taken "
                "back: install 1.11 or later"
            )


def _of_host(there: There, host: Host | None, demand: Demand) -> Iterator[str]:
    if host is None:
        names = ", ".join(each.name for each in there.hosts[:8]) or "none"
        yield f"{demand.path} is {demand.host}, and no client has this name; there are {names}"
        return
    if not host.is_up or not host.is_eligible:
        state = "down" if not host.is_up else "not eligible"
        yield f"{demand.path} is {host.name}, which is {state}: `nomad node status {host.id[:8]}`"
    if host.meta.get(STACK):
        yield (
            f"{demand.path} is {host.name}, which is a node of the stack {host.meta[STACK]}: name another host, or "
            "give this one back first"
        )
    yield from (f"{demand.path}: {lack}" for lack in _drivers(host, demand.drivers))
    for port in demand.ports:
        whose = there.ports.get((host.name, port))
        if whose is not None:
            yield (
                f"{demand.path}: the static port {port} of {host.name} is taken by the job {whose}: stop that, or take "
                "another host"
            )


def _of_fleet(there: There, demand: Demand, stack: str) -> Iterator[str]:
    fit = [host for host in there.hosts if not lacking(host, demand.constraints)]
    if demand.constraints and not fit:
        told = {f"{each.left} = {each.right}" for each in demand.constraints}
        wrong = next((lacking(host, demand.constraints) for host in there.hosts), ())
        yield (
            f"{demand.path}: no client has {', '.join(sorted(told))}"
            f"{' (' + '; '.join(wrong) + ')' if wrong else ''}: `nomad node meta apply -node-id ID KEY=VALUE` gives it"
        )
        return
    usable = [
        host for host in fit if host.is_up and host.is_eligible and host.meta.get(STACK) in (None, "", stack)
    ]
    able = [host for host in usable if not [*_drivers(host, demand.drivers)]]
    if len(able) < demand.count and usable and len(able) < len(usable):
        lack = next(lack for host in usable for lack in _drivers(host, demand.drivers))
        yield f"{demand.path}: {lack}"
    elif len(able) < demand.count:
        yield (
            f"{demand.path}: {len(able)} clients are free and as they should be, and min_nodes is {demand.count}: lower "
            "it, or give more of them these attributes"
        )


def _drivers(host: Host, drivers: Sequence[str]) -> Iterator[str]:
    for driver in drivers:
        if driver not in host.drivers:
            remedy = (
                'write plugin "raw_exec" { config { enabled = true } } in its configuration'
                if driver == "raw_exec"
                else f"install {driver} there"
            )
            yield f"{host.name} has no working driver {driver}; {remedy}, and start its agent again"


def _version(text: str) -> tuple[int, ...]:
    numbers = text.partition("-")[0].partition("+")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())
