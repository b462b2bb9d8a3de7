"""The state that a program wants its resources to have: each alone, with the names that it may be known by from before, and the tree of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pulumi.runtime.proto.alias_pb2 import Alias

from tidepool.engine import urn as urns
from tidepool.engine.deployment.callbacks import Callback
from tidepool.engine.resource import ResourceState


@dataclass(frozen=True, slots=True)
class Goal:
    """One resource as the program registered it, its options resolved.

    ``state`` is what it is to be; it has no URN yet. ``aliases`` are whole URNs of before, or the parts that
    changed. The options that are None were left open.
    """

    name: str
    state: ResourceState
    aliases: tuple[Alias, ...] = ()
    protect: bool | None = None
    retain_on_delete: bool | None = None
    delete_before_replace: bool | None = None


def alias_candidates(goal: Goal, stack: str, project: str, adopted: Mapping[str, str]) -> list[str]:
    """Return all old URNs that ``goal`` may stand for, in the order in which they are to be tried.

    ``adopted`` maps the URN of each resource that was found under an alias to that alias: where the
    parent was renamed, its children were named after the old name.
    """
    found: dict[str, None] = {}
    own = [_collapse(alias, goal, stack, project, adopted) for alias in goal.aliases]
    found.update(dict.fromkeys(own))
    parent_alias = adopted.get(goal.state.parent) if goal.state.parent else None
    if parent_alias is not None:
        parent_name = urns.name_of(goal.state.parent)
        names: Iterable[tuple[str, str]] = [
            (goal.state.type, goal.name),
            *((urns.type_of(a), urns.name_of(a)) for a in own),
        ]
        for type, name in names:
            found[_inherited(type, name, parent_name, parent_alias, stack, project)] = None
    return list(found)


def _collapse(alias: Alias, goal: Goal, stack: str, project: str, adopted: Mapping[str, str]) -> str:
    """Return the URN that ``alias`` names, its missing parts taken from ``goal``."""
    if alias.urn:
        return alias.urn
    spec = alias.spec
    parent = adopted.get(spec.parentUrn, spec.parentUrn) if spec.parentUrn else goal.state.parent
    if spec.noParent or (parent and urns.qualified_type_of(parent) == urns.ROOT_STACK_TYPE):
        parent = ""
    return urns.make(
        spec.stack or stack,
        spec.project or project,
        urns.qualified_type_of(parent) if parent else "",
        spec.type or goal.state.type,
        spec.name or goal.name,
    )


def _inherited(type: str, name: str, parent_name: str, parent_alias: str, stack: str, project: str) -> str:
    # A child named after its parent ("web-disk" below "web") was named after the parent's old name.
    if name.startswith(parent_name):
        name = urns.name_of(parent_alias) + name[len(parent_name) :]
    return urns.make(stack, project, urns.qualified_type_of(parent_alias), type, name)


class Family:
    """The resources of one operation's program, by URN."""

    def __init__(self) -> None:
        self.goals: dict[str, Goal] = {}
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._transforms: dict[str, list[Callback]] = {}
        self._providers: dict[str, dict[str, str]] = {}
        #: Whether each exists by now; False for one that a preview would create.
        self._exists: dict[str, bool] = {}

    def remember(self, urn: str, parent: str, goal: Goal, transforms: list[Callback]) -> None:
        """A resource was registered; its ``transforms`` are to change what is below it, too."""
        self.goals[urn] = goal
        self._parents[urn] = parent
        if transforms:
            self._transforms[urn] = transforms

    def remember_component(self, urn: str, parent: str, providers: Mapping[str, str]) -> None:
        """It is a component; ``providers`` (references by package) are for what is below it."""
        self._providers[urn] = dict(providers)
        self.settle(urn, parent, exists=True)

    def settle(self, urn: str, parent: str, *, exists: bool) -> None:
        """It is known whether a resource exists."""
        self._exists[urn] = exists
        self._children[parent].append(urn)

    def transforms_from(self, urn: str) -> Iterator[Callback]:
        """The transforms of ``urn`` and of all above it, from it upwards."""
        while urn:
            yield from self._transforms.get(urn, ())
            urn = self._parents.get(urn, "")

    def providers_of(self, component: str) -> Mapping[str, str]:
        """The references of the providers that ``component`` hands down, by package."""
        return self._providers.get(component, {})

    def is_pending(self, urns: Iterable[str]) -> bool:
        """Tell whether anything of ``urns``, or below them, does not exist yet."""
        frontier = list(urns)
        while frontier:
            urn = frontier.pop()
            if not self._exists.get(urn, True):
                return True
            frontier += self._children.get(urn, ())
        return False
