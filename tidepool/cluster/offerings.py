"""Offerings of a spec, given to what names them: fleets, pools and the controller say themselves afterwards what theirs say.

It is done once, before the spec is read, so that whoever reads a `ClusterSpec` sees shapes, prices and options, and knows of
no offerings. A spec for which it was done already stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tidepool.cluster.offering import Offering
from tidepool.cluster.part import Part
from tidepool.cluster.spec_entries import numbered, source_name


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Offerings of a spec as they are written, by name, and where each stands; of one that cannot be read, the name alone."""

    written: Mapping[str, Offering | None]
    paths: Mapping[str, str]

    def chain(self, name: str) -> tuple[str, ...]:
        """Return the names of an offering and of those that it extends; the last one twice where they go in a circle."""
        found: list[str] = []
        following: str | None = name
        while following is not None:
            found.append(following)
            if found.count(following) > 1:
                break
            written = self.written.get(following)
            following = written.extends if written is not None else None
        return tuple(found)

    def offering(self, name: str) -> Offering | None:
        """Return an offering with all that it extends; None where it cannot be: that is told of its own entry."""
        chain = self.chain(name)
        parts = [self.written.get(each) for each in chain]
        if len({*chain}) < len(chain):
            return None
        whole: Offering | None = None
        for part in reversed(parts):
            if part is None:
                return None
            whole = part if whole is None else part.extended(whole)
        return whole if whole is not None and whole.shape is not None and whole.infrastructures else None

    def options_path(self, name: str, infrastructure: str) -> str:
        """Return where a person wrote what an offering is on an infrastructure: with it, or with one that it extends."""
        for each in dict.fromkeys(self.chain(name)):
            written = self.written.get(each)
            for i, there in enumerate(written.infrastructures if written is not None else ()):
                if there.name == infrastructure:
                    return f"{self.paths[each]}.infrastructures[{i}].options"
        return self.paths[name]


def catalogue(spec: Mapping[str, Any]) -> Catalogue:
    """Read the offerings of a spec, a plain mapping parts of which may be wrong; of a name that is there twice, the first."""
    written: dict[str, Offering | None] = {}
    paths: dict[str, str] = {}
    for i, each in numbered(spec.get("offerings")):
        keys = _keys(each)
        name = keys.get("name")
        if not isinstance(name, str) or name in written:
            continue
        paths[name] = f"offerings[{i}]"
        try:
            written[name] = each if isinstance(each, Offering) else Offering.model_validate(dict(keys))
        except ValidationError:
            written[name] = None
    return Catalogue(written, paths)


def expanded(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec in which offerings are given to all that names them. What names one that cannot be stays as it is."""
    known = catalogue(spec)
    if not known.written:
        return dict(spec)
    found = dict(spec)
    if fleets := [_fleet(each, known) for _, each in numbered(spec.get("fleets"))]:
        found["fleets"] = fleets
    own = _source_name(_keys(spec.get("controller")).get("infrastructure"))
    if pools := [_pool(each, known, own) for _, each in numbered(spec.get("pools"))]:
        found["pools"] = pools
    if _keys(spec.get("controller")).get("offering"):
        found["controller"] = _controller(spec["controller"], known, own)
    return found


def named(keys: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the offerings that a fleet, a pool or the controller names itself."""
    said = keys.get("offering")
    names = (said,) if isinstance(said, str) else said
    return tuple(each for _, each in numbered(names) if isinstance(each, str))


def entries_naming(keys: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Yield of a fleet's infrastructures those that name an offering: position, infrastructure and offering."""
    for i, each in numbered(keys.get("infrastructures")):
        entry = _keys(each)
        name, offering = entry.get("name"), entry.get("offering")
        if isinstance(name, str) and isinstance(offering, str):
            yield i, name, offering


def _fleet(fleet: Any, known: Catalogue) -> Any:
    keys = _keys(fleet)
    names = named(keys)
    if names and "infrastructures" in keys:
        return fleet
    asked = [*names, *(offering for _, _, offering in entries_naming(keys))]
    offerings = [offering for name in asked if (offering := known.offering(name)) is not None]
    if not asked or len(offerings) < len(asked):
        return fleet
    found = {key: value for key, value in keys.items() if key != "offering"}
    if names:
        found["infrastructures"] = [
            {"name": there.name, "offering": offering.name, **offering.entry(there.name)}
            for offering in offerings
            for there in offering.infrastructures
        ]
    else:
        found["infrastructures"] = [_entry(each, known) for _, each in numbered(keys["infrastructures"])]
    shapes = dict.fromkeys(offering.shape for offering in offerings)
    if keys.get("shape") is None and len(shapes) == 1:
        found["shape"] = _plain(offerings[0].shape)
    if all(_keys(each).get("offering") for each in found["infrastructures"]):
        first, *others = (offering.features for offering in offerings)
        return _with_features(found, [word for word in first if all(word in each for each in others)])
    return found


def _with_features(keys: dict[str, Any], features: Sequence[str]) -> dict[str, Any]:
    """Return a fleet or a pool with features beside its own."""
    words = keys.get("features", ())
    beside = [word for word in features if isinstance(words, list | tuple) and word not in words]
    return {**keys, "features": [*words, *beside]} if beside else keys


def _entry(entry: Any, known: Catalogue) -> Any:
    keys = _keys(entry)
    offering = known.offering(keys["offering"]) if isinstance(keys.get("offering"), str) else None
    if offering is None or offering.on(keys["name"]) is None:
        return entry
    return _merged(keys, offering.entry(keys["name"]))


def _pool(pool: Any, known: Catalogue, own: str) -> Any:
    keys = _keys(pool)
    offering = _only(keys, known)
    source = keys.get("infrastructure")
    name = own if source is None else _source_name(source)
    if offering is None or offering.on(name) is None:
        return pool
    options = {"options": offering.entry(name)["options"]}
    said = {"name": name} if source is None or isinstance(source, str) else _keys(source)
    words = keys.get("features", ())
    features = [*words, *(word for word in offering.features if word not in words)]
    return {
        "shape": _plain(offering.shape),
        **keys,
        "infrastructure": _merged(said, options),
        "features": features,
    }


def _controller(controller: Any, known: Catalogue, own: str) -> Any:
    """Give it the shape, and the options of the cluster's own machines."""
    keys = _keys(controller)
    offering = _only(keys, known)
    source = keys.get("infrastructure")
    said: dict[str, Any] = {"name": own} if source is None or isinstance(source, str) else dict(_keys(source))
    options: Any = said.get("options", {})
    if offering is None or offering.on(own) is None or not isinstance(options, Mapping):
        return controller
    entry = offering.entry(own)
    machines, mine = entry.pop("options"), options.get("machines", {})
    if machines and isinstance(mine, Mapping):
        said["options"] = {**options, "machines": {**machines, **mine}}
    return {"shape": _plain(offering.shape), **keys, "infrastructure": {**entry, **said}}


def _only(keys: Mapping[str, Any], known: Catalogue) -> Offering | None:
    names = named(keys)
    return known.offering(names[0]) if len(names) == 1 else None


def _merged(keys: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry says itself, and what its offering says besides: options one by one."""
    own = keys.get("options", {})
    options = {**said["options"], **own} if isinstance(own, Mapping) else own
    return {**said, **{key: value for key, value in keys.items() if value is not None}, "options": options}


def _source_name(source: Any) -> str:
    return source_name(_keys(source) if isinstance(source, Part) else source) or ""


def _plain(part: Part | None) -> Any:
    return None if part is None else part.model_dump(exclude_unset=True)


def _keys(part: Any) -> Mapping[str, Any]:
    """Return the keys that are given of a part, which may be a model; none where it is no mapping."""
    if isinstance(part, Part):
        return part.model_dump(exclude_unset=True)
    return part if isinstance(part, Mapping) else {}
