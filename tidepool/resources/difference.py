"""How what is wanted differs from what is there: which inputs changed, and which of them need another resource. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tidepool.resources.values import UNKNOWN, Inputs, has_unknowns


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the input ``key``. With ``replaces`` the resource cannot be changed so: another one is made."""

    key: str
    is_new: bool = False
    is_gone: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """Which inputs, when they change, ask for another resource.

    ``replaces``: in any case, and where the new value is not known yet. ``replaces_when_known``: an unknown value is
    likely the one that it was, and the resource is kept. ``delete_first``: there cannot be two of one name.
    """

    replaces: frozenset[str] = frozenset()
    replaces_when_known: frozenset[str] = frozenset()
    delete_first: bool = True


def differences(old: Inputs, new: Inputs, keys: Collection[str], rules: Rules) -> tuple[Change, ...]:
    """What changes of ``keys`` between two sets of inputs; a key that is null is as one that is not there."""
    found = []
    for key in sorted(keys):
        before, after = old.get(key), new.get(key)
        if before == after and not has_unknowns(after):
            continue
        replaces = key in rules.replaces or (key in rules.replaces_when_known and after is not UNKNOWN)
        found.append(Change(key, before is None, after is None, replaces))
    return tuple(found)
