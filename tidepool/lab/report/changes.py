"""Changes between two campaigns: settings, versions and machines that are not the same in both. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidepool.lab.report.words import different
from tidepool.lab.results.store import Results

#: What stands where one of two has no such setting.
NONE = "-"


@dataclass(frozen=True, slots=True)
class Change:
    """A setting, and what it was in each of two campaigns.

    Attributes:
        where: ``laboratory`` for the file, or the scheduler in whose runs it was seen.
        setting: its path, ``workloads.bag.parameters.jobs``, or its name.
    """

    where: str
    setting: str
    left: str
    right: str


def changes(left: Results, right: Results) -> tuple[Change, ...]:
    """Return what is not the same in both, that of the file first. Values that changed within a campaign are told all.

    Raises:
        LabError: results cannot be read.
    """
    in_file = _changed("laboratory", dict(_flat(left.laboratory)), dict(_flat(right.laboratory)))
    environments = _environments(left), _environments(right)
    common = [name for name in left.campaign.schedulers if name in right.campaign.schedulers]
    seen = (
        change for name in common for change in _changed(name, environments[0][name], environments[1][name])
    )
    return (*in_file, *seen)


def _changed(where: str, left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[Change]:
    for setting in dict.fromkeys((*left, *right)):
        one, other = left.get(setting, NONE), right.get(setting, NONE)
        if one != other:
            yield Change(where, setting, one, other)


def _environments(results: Results) -> Mapping[str, Mapping[str, str]]:
    """By scheduler all that its runs say of what figures may depend on."""
    seen: dict[str, dict[str, list[str]]] = {name: {} for name in results.campaign.schedulers}
    for outcome in results.outcomes():
        for name, value in sorted(outcome.environment.items()):
            seen[outcome.scheduler].setdefault(name, []).append(value)
    return {
        scheduler: {name: different(values) for name, values in each.items()}
        for scheduler, each in seen.items()
    }


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of all single values; entries of lists that have names go by these, so that their order is none."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}" if path else str(key))
    elif (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(each, Mapping) for each in value)
    ):
        for at, each in enumerate(value):
            yield from _flat(
                {key: one for key, one in each.items() if key != "name"}, f"{path}.{each.get('name', at)}"
            )
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield path, ", ".join(map(str, value))
    elif value is not None:
        yield path, str(value)
