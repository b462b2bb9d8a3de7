"""Under which old URNs a resource may be found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidepool.engine import urn as urns
from tidepool.engine.deployment.goal import Alias, Goal


def candidates(goal: Goal, stack: str, project: str, adopted: Mapping[str, str]) -> list[str]:
    """All old URNs that ``goal`` may stand for, in the order in which they are to be tried.

    ``adopted`` maps the URN of each resource that was found under an alias to that alias: where the
    parent was renamed, its children were named after the old name.
    """
    found: dict[str, None] = {}
    own = [collapse(alias, goal, stack, project, adopted) for alias in goal.aliases]
    found.update(dict.fromkeys(own))
    parent_alias = adopted.get(goal.parent) if goal.parent else None
    if parent_alias is not None:
        parent_name = urns.name_of(goal.parent)
        names: Iterable[tuple[str, str]] = [
            (goal.type, goal.name),
            *((urns.type_of(a), urns.name_of(a)) for a in own),
        ]
        for type, name in names:
            found[_inherited(type, name, parent_name, parent_alias, stack, project)] = None
    return list(found)


def collapse(alias: Alias, goal: Goal, stack: str, project: str, adopted: Mapping[str, str]) -> str:
    """The URN that ``alias`` names, its missing parts taken from ``goal``."""
    if alias.urn:
        return alias.urn
    parent = adopted.get(alias.parent, alias.parent) if alias.parent else goal.parent
    if alias.no_parent or (parent and urns.qualified_type_of(parent) == urns.ROOT_STACK_TYPE):
        parent = ""
    return urns.make(
        alias.stack or stack,
        alias.project or project,
        urns.qualified_type_of(parent) if parent else "",
        alias.type or goal.type,
        alias.name or goal.name,
    )


def _inherited(type: str, name: str, parent_name: str, parent_alias: str, stack: str, project: str) -> str:
    # A child named after its parent ("web-disk" below "web") was named after the parent's old name.
    if name.startswith(parent_name):
        name = urns.name_of(parent_alias) + name[len(parent_name) :]
    return urns.make(stack, project, urns.qualified_type_of(parent_alias), type, name)
