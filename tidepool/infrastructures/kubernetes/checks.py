"""Checks of a Kubernetes: a preview looks at the same as `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tidepool.clients.kubernetes.contract import KubernetesReader
from tidepool.clients.kubernetes.errors import KubernetesError
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.kubernetes import rights
from tidepool.infrastructures.kubernetes.demand import architecture, demands, uses_of
from tidepool.infrastructures.kubernetes.looking import look
from tidepool.infrastructures.kubernetes.preflight import Wish, lacks
from tidepool.infrastructures.kubernetes.reading import read_options
from tidepool.infrastructures.kubernetes_access import Access

#: What a stack may make there.
USES: Final = ("pods", "machines", "claims", "multus")
#: What reads a Kubernetes, by its kubeconfig and the data folder.
Connect = Callable[[Path, Path], AbstractContextManager[KubernetesReader]]


def _connect(kubeconfig: Path, data: Path) -> AbstractContextManager[KubernetesReader]:
    return Access.in_file(kubeconfig).client(data)


def lacks_of_site(
    wish: Wish, uses: Collection[str], kubeconfig: Path, data: Path, connect: Connect = _connect
) -> tuple[str, ...]:
    """All that it lacks, each with its key and the remedy; that it cannot be asked."""
    by = {use: use in uses for use in USES}
    of_machines = {"pods": by["pods"], "machines": by["machines"]}
    all_of_it = rights.needed(wish.namespace, **by, owner=wish.own_namespace)
    try:
        connected = connect(kubeconfig, data)
    except ValueError as error:
        return (f"{wish.path}.kubeconfig: {error}; an administrator of that Kubernetes gives you one",)
    try:
        with connected as kubernetes:
            seen = look(kubernetes, wish, all_of_it, rights.scaling(wish.namespace, **of_machines))
    except KubernetesError as error:
        return (f"{wish.path}.kubeconfig: {error}",)
    return lacks(wish, seen)


def checks_of(spec: ClusterSpec, stack: str, data: Path, connect: Connect = _connect) -> Iterator[Finding]:
    """Check the rights of the kubeconfig's user, and the nodes that pods would be on.

    Raises:
        SpecError: the options of Kubernetes have mistakes.
    """
    options = read_options(spec)
    place = options.place
    asked = demands(spec, options, architecture(), tuple(spec.own_hosts))
    wish = Wish(stack, options.path, options.namespace, place.own_namespace, asked)
    found = lacks_of_site(wish, uses_of(spec, options), Path(place.kubeconfig), data, connect)
    what = f"Kubernetes, namespace {options.namespace}"
    yield from (Finding(what, "lacks", lack) for lack in found)
    if not found:
        yield Finding(what, "well", "it answers, and its user may do all that is asked of it")
