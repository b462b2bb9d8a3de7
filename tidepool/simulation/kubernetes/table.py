"""Pods by their names, and what is known of them by node: so that a thousand nodes are no burden."""

from __future__ import annotations

from tidepool.clients.kubernetes.objects import Pod, Resources
from tidepool.clients.kubernetes.quantities import added


class PodTable(dict[str, Pod]):
    """Pods by ``namespace/name``. It is changed by putting and deleting single ones."""

    def __init__(self) -> None:
        super().__init__()
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._taken: dict[str, Resources] = {}

    def __setitem__(self, key: str, pod: Pod) -> None:
        self._unindex(key)
        super().__setitem__(key, pod)
        self._by_node.setdefault(pod.node, {})[key] = pod
        self._taken.pop(pod.node, None)

    def __delitem__(self, key: str) -> None:
        self._unindex(key)
        super().__delitem__(key)

    def on(self, node: str) -> tuple[Pod, ...]:
        """Return those that are bound to a node; to none, if it has no name."""
        return tuple(self._by_node.get(node, {}).values())

    def taken(self, node: str) -> Resources:
        """Return what those on a node that have not ended ask for together."""
        if node not in self._taken:
            both = Resources()
            for pod in self.on(node):
                if not pod.has_ended:
                    both = added(both, pod.requests)
            self._taken[node] = both
        return self._taken[node]

    def _unindex(self, key: str) -> None:
        if (before := self.get(key)) is not None:
            del self._by_node[before.node][key]
            self._taken.pop(before.node, None)
