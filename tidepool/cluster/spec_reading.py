"""Reading a `ClusterSpec` from the mapping in ``Pulumi.<stack>.yaml``, and telling of all mistakes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidepool.cluster.network_checks import subnet_suggestion
from tidepool.cluster.offerings import entries_naming, expanded, named
from tidepool.cluster.part import Part
from tidepool.cluster.part_reading import mistake_of, read_part, seems_short
from tidepool.cluster.spec import CONFINING, ClusterSpec
from tidepool.cluster.spec_checks import disagreements
from tidepool.cluster.spec_entries import Entry, Mistake

_P = TypeVar("_P", bound=Part)


class SpecError(ValueError):
    """A spec that no cluster can be made of. Its text is for people and tells of all ``mistakes``."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        # One in an offering is found for each fleet that names it.
        mistakes = tuple({str(mistake): mistake for mistake in mistakes}.values())
        number = "one mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__("\n  ".join([f"{number} in the cluster's spec:", *map(str, mistakes)]))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class Concern:
    """Something in a spec that can be, and that a person should know: where, and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def read_spec(mapping: Mapping[str, Any]) -> ClusterSpec:
    """The spec that ``mapping`` says, as YAML gives it: texts, numbers, lists and mappings.

    Raises:
        SpecError: with every mistake in it.
    """
    try:
        return ClusterSpec.model_validate(dict(mapping))
    except ValidationError as error:
        # What the parts say to each other is asked once more, for pydantic asks only where every part is right.
        whole = expanded(mapping)
        errors = [e for e in error.errors(include_url=False) if e["loc"]]
        of_parts = [_mistake(e, whole) for e in errors if not _follows(e, errors)]
        raise SpecError((*of_parts, *disagreements(whole))) from None


def concerns(spec: ClusterSpec, machine_memory_mib: int | None = None) -> tuple[Concern, ...]:
    """List what a person should know of ``spec`` before it is built.

    ``machine_memory_mib`` is the memory of this machine, which the infrastructure `local` takes from.
    """
    return (*_unreached(spec), *_unconfined(spec), *_beyond_memory(spec, machine_memory_mib))


def _unreached(spec: ClusterSpec) -> Iterable[Concern]:
    named = {name for p in spec.partitions for name in p.fleets or ()}
    places = {f"fleets[{i}]": fleet.name for i, fleet in enumerate(spec.fleets)}
    places |= {f"pools[{i}]": pool.name for i, pool in enumerate(spec.pools)}
    has_all = any(p.fleets is None for p in spec.partitions)
    for place, name in places.items():
        if not has_all and name not in named:
            yield Concern(place, f"no partition has {name}, so no job can reach its nodes")
    if len(spec.partitions) > 1 and not any(p.default for p in spec.partitions):
        yield Concern("partitions", "none is the default, so jobs that name no partition are refused")
    if spec.kubernetes is not None and not spec.pools:
        yield Concern("kubernetes", "there are no pools, so it has no nodes")


def _unconfined(spec: ClusterSpec) -> Iterable[Concern]:
    """Tell where machines of some nodes keep all jobs from being confined."""
    names = spec.node_infrastructures
    others = ", ".join(sorted(names - CONFINING))
    if others and spec.process_tracking == "cgroup":
        told = f"whether machines of {others} make control groups is not known, and on one that does not no job starts"
        yield Concern("process_tracking", f"{told}; leave it out where that is so")
    elif others and names & CONFINING and spec.process_tracking is None:
        told = f"no job is confined on any node, for machines of {others} make no control groups, and a cluster has one way"
        yield Concern(
            "process_tracking", f"{told}; with fleets of theirs in another cluster the others are confined"
        )


def _beyond_memory(spec: ClusterSpec, machine_memory_mib: int | None) -> Iterable[Concern]:
    """The sums, where the nodes that may run on this machine have more memory than it has."""
    if machine_memory_mib is None:
        return
    sums: list[tuple[str, int]] = []
    for i, fleet in enumerate(spec.fleets):
        here = next((x for x in fleet.infrastructures if x.name == "local"), None)
        if here is None:
            continue
        nodes = fleet.max_nodes if here.max_nodes is None else min(fleet.max_nodes, here.max_nodes)
        needed = nodes * fleet.shape.memory_mib
        sums.append((f"{fleet.name} {nodes} x {fleet.shape.memory_mib} = {needed} MiB", needed))
        if needed > machine_memory_mib:
            yield Concern(
                f"fleets[{i}].max_nodes",
                f"{nodes} nodes of {fleet.shape.memory_mib} MiB are {needed} MiB, and this machine has "
                f"{machine_memory_mib} MiB: jobs that use what they asked for will not fit. "
                f"{machine_memory_mib // fleet.shape.memory_mib} nodes would",
            )
    for i, pool in enumerate(spec.pools):
        if spec.pool_infrastructure(pool) != "local":
            continue
        needed = pool.machines * pool.shape.memory_mib
        sums.append((f"{pool.name} {pool.machines} x {pool.shape.memory_mib} = {needed} MiB", needed))
        if needed > machine_memory_mib:
            yield Concern(
                f"pools[{i}].machines",
                f"{pool.machines} machines of {pool.shape.memory_mib} MiB are {needed} MiB, and this machine has "
                f"{machine_memory_mib} MiB: jobs and pods that use what they asked for will not fit",
            )
    total = sum(needed for _, needed in sums)
    if len(sums) > 1 and total > machine_memory_mib:
        yield Concern(
            "fleets and pools" if spec.pools else "fleets",
            f"all together, {' + '.join(text for text, _ in sums)}: {total} MiB, and this machine has "
            f"{machine_memory_mib} MiB",
        )


def _follows(error: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    """Return whether it is told already: a list seems short as entries of it are wrong, a shape is an offering's that is."""
    loc = error["loc"]
    if error["type"] == "missing" and loc[-1] == "shape" and loc[0] in ("fleets", "pools"):
        return bool(named(error["input"]) or [*entries_naming(error["input"])])
    return seems_short(error, errors)


def _mistake(error: ErrorDetails, mapping: Mapping[str, Any]) -> Mistake:
    """One of pydantic's errors, for people; of a subnet that is missing with one that is free."""
    mistake = mistake_of(error, ClusterSpec)
    if error["type"] == "missing" and error["loc"][-1] == "subnet":
        suggestion = subnet_suggestion(mapping, Entry(mistake.path, error["input"]).slots)
        if suggestion:
            return replace(mistake, message=f"{mistake.message} Here, {suggestion}.")
    return mistake


def read_offerings(
    spec: ClusterSpec, infrastructure: str, offering: type[_P], mistakes: list[Mistake]
) -> dict[tuple[str, str], _P]:
    """Read what fleets say of their machines on an ``infrastructure``, by fleet and the entry's key.

    Where it cannot be, it is left out, and every mistake in it is added to ``mistakes``.
    """
    found = {}
    for each in spec.entries(infrastructure):
        told = read_part(offering, each.options_path, each.entry.options, mistakes)
        if told is not None:
            found[each.fleet.name, each.entry.key] = told
    return found
