"""Checks of a Kubernetes: a preview looks at the same as `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tidepool.clients.kubernetes.contract import KubernetesReader
from tidepool.clients.kubernetes.errors import KubernetesError
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight
from tidepool.infrastructures.kubernetes import rights
from tidepool.infrastructures.kubernetes.demand import Demands, Use, architecture, demands
from tidepool.infrastructures.kubernetes.looking import look
from tidepool.infrastructures.kubernetes.preflight import lacks
from tidepool.infrastructures.kubernetes.reading import read_options
from tidepool.infrastructures.kubernetes_access import Access

if TYPE_CHECKING:
    from tidepool.resources.kind import Home

#: What reads a Kubernetes, by its kubeconfig and the data folder.
Connect = Callable[[Path, Path], AbstractContextManager[KubernetesReader]]


def _connect(kubeconfig: Path, data: Path) -> AbstractContextManager[KubernetesReader]:
    return Access.in_file(kubeconfig).client(data)


def lacks_of_site(demands: Demands, data: Path, connect: Connect = _connect) -> tuple[str, ...]:
    """All that it lacks, each with its key and the remedy; that it cannot be asked."""
    by = {use: use in demands.uses for use in get_args(Use)}
    of_machines = {"pods": by["pods"], "machines": by["machines"]}
    all_of_it = rights.needed(demands.namespace, **by, owner=demands.own_namespace)
    try:
        connected = connect(Path(demands.kubeconfig), data)
    except ValueError as error:
        return (f"{demands.path}.kubeconfig: {error}; an administrator of that Kubernetes gives you one",)
    try:
        with connected as kubernetes:
            seen = look(kubernetes, demands, all_of_it, rights.scaling(demands.namespace, **of_machines))
    except KubernetesError as error:
        return (f"{demands.path}.kubeconfig: {error}",)
    return lacks(demands, seen)


def checks_of(spec: ClusterSpec, stack: str, data: Path, connect: Connect = _connect) -> Iterator[Finding]:
    """Check the rights of the kubeconfig's user, and the nodes that pods would be on.

    Raises:
        SpecError: the options of Kubernetes have mistakes.
    """
    options = read_options(spec)
    found = lacks_of_site(demands(spec, options, stack, architecture()), data, connect)
    what = f"Kubernetes, namespace {options.namespace}"
    yield from (Finding(what, "lacks", lack) for lack in found)
    if not found:
        yield Finding(what, "well", "it answers, and its user may do all that is asked of it")


def _lacks(demands: Demands, home: Home) -> Iterable[str]:
    return lacks_of_site(demands, home.data)


PREFLIGHT = Preflight(Demands, _lacks)
