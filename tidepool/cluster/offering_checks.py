"""Checks of offerings, and of what names them: each is a question, and its answers are mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tidepool.cluster.offering import Offering
from tidepool.cluster.offerings import Catalogue, catalogue, entries_naming, named
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec_entries import Entry, Mistake, listed, nearest, part, source_name


def offering_mistakes(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield what does not agree among offerings, and with what names them, in a spec to which they were given."""
    known = catalogue(spec)
    yield from _of_catalogue(known)
    for fleet in listed(spec, "fleets"):
        yield from _of_fleet(fleet, known)
    own = source_name(part(spec, "controller").get("infrastructure"))
    for pool in listed(spec, "pools"):
        source = pool.keys.get("infrastructure")
        yield from _of_one(pool, own if source is None else source_name(source), known)
    yield from _of_one(Entry("controller", part(spec, "controller")), own, known)


def _of_catalogue(known: Catalogue) -> Iterator[Mistake]:
    for name, offering in known.written.items():
        if offering is None:
            continue  # told already, key by key
        path, chain = known.paths[name], known.chain(name)
        base = offering.extends
        if base is not None and base not in known.written:
            yield Mistake(f"{path}.extends", base, _unknown(base, known))
        elif chain[-1] == name == min(chain, key=[*known.written].index) and len(chain) > 1:
            yield Mistake(
                f"{path}.extends", base, f"they go in a circle: {' extends '.join(chain)}; leave one out"
            )
        elif len({*chain}) < len(chain) or any(known.written.get(each) is None for each in chain):
            continue  # told of the one that is wrong
        else:
            parts = [part for each in chain if (part := known.written[each]) is not None]
            if all(part.shape is None for part in parts):
                yield Mistake(f"{path}.shape", None, f"missing. {Offering.model_fields['shape'].description}")
            if not any(part.infrastructures for part in parts):
                described = Offering.model_fields["infrastructures"].description
                yield Mistake(f"{path}.infrastructures", None, f"missing. {described}")


def _of_fleet(fleet: Entry, known: Catalogue) -> Iterator[Mistake]:
    names = named(fleet.keys)
    for i, name in enumerate(names):
        where = f"{fleet.path}.offering" if len(names) == 1 else f"{fleet.path}.offering[{i}]"
        if name not in known.written:
            yield Mistake(where, name, _unknown(name, known))
        elif name in names[:i]:
            yield Mistake(where, name, "this offering is named twice; leave one out")
    if names and "infrastructures" in fleet.keys:
        yield fleet.mistake(
            "offering",
            "it says where machines come from, and so does infrastructures; write one of them, or name an offering with each "
            "infrastructure: {name: aws, offering: " + names[0] + "}",
        )
    asked = [*names]
    for i, infrastructure, name in entries_naming(fleet.keys) if known.written else ():
        where = f"{fleet.path}.infrastructures[{i}].offering"
        if name not in known.written:
            yield Mistake(where, name, _unknown(name, known))
        elif (offering := known.offering(name)) is not None and offering.on(infrastructure) is None:
            yield Mistake(where, name, _nowhere(offering, infrastructure, known))
        asked.append(name)
    offerings = [offering for name in dict.fromkeys(asked) if (offering := known.offering(name)) is not None]
    yield from _of_shape(fleet, offerings)


def _of_one(entry: Entry, infrastructure: str | None, known: Catalogue) -> Iterator[Mistake]:
    """Yield what is wrong with the offering of a pool or the controller, whose machines are of one infrastructure."""
    for name in named(entry.keys):
        if name not in known.written:
            yield entry.mistake("offering", _unknown(name, known))
        elif (offering := known.offering(name)) is not None:
            if infrastructure is not None and offering.on(infrastructure) is None:
                yield entry.mistake("offering", _nowhere(offering, infrastructure, known))
            yield from _of_shape(entry, [offering])


def _of_shape(entry: Entry, offerings: Sequence[Offering]) -> Iterator[Mistake]:
    """Yield what machines are to have that an offering has not."""
    shapes = list(dict.fromkeys(offering.shape for offering in offerings if offering.shape is not None))
    said = entry.keys.get("shape")
    if said is None:
        if len(shapes) > 1:
            least = f"cpus: {min(each.cpus for each in shapes)}, memory: {min(each.memory_mib for each in shapes)}MiB"
            names = ", ".join(offering.name for offering in offerings)
            yield Mistake(
                f"{entry.path}.shape",
                None,
                f"missing, and {names} have different ones: write what all of them have: {{{least}}}",
            )
        return
    try:
        shape = said if isinstance(said, Shape) else Shape.model_validate(said)
    except ValidationError:
        return  # told already
    for offering in offerings:
        if offering.shape is not None and (less := _less(offering.shape, shape)):
            yield Mistake(
                f"{entry.path}.shape",
                None,
                f"the offering {offering.name} has {', '.join(less)}; lower it, leave it out, or name another offering",
            )


def _less(has: Shape, wanted: Shape) -> Sequence[str]:
    """Return what ``has`` has less of, with how much that is, and how much is wanted."""
    found = [
        f"{there} {what}, and {asked} are wanted"
        for what, there, asked in (
            ("cpus", has.cpus, wanted.cpus),
            ("MiB of memory", has.memory_mib, wanted.memory_mib),
        )
        if there < asked
    ]
    for gres in wanted.gres:
        there = sum(
            each.count for each in has.gres if each.name == gres.name and gres.type in (None, each.type)
        )
        if there < gres.count:
            found.append(
                f"{there or 'no'} {gres.name}{f':{gres.type}' if gres.type else ''}, and {gres.count} are wanted"
            )
    return found


def _unknown(name: str, known: Catalogue) -> str:
    return f"there is no such offering; {nearest(name, [*known.written])}"


def _nowhere(offering: Offering, infrastructure: str, known: Catalogue) -> str:
    there = ", ".join(each.name for each in offering.infrastructures)
    return (
        f"this offering is not on {infrastructure}, but on {there}; name another, or add {infrastructure} to "
        f"{known.paths[offering.name]}.infrastructures"
    )
