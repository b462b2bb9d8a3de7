"""The resources that a program has registered as a tree: parents, children, and what is handed down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tidepool.engine.deployment.callbacks import Callback
from tidepool.engine.deployment.goal import Goal


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
