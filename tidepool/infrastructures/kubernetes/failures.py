"""Kinds of Kubernetes' failures: by their words, and by their types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidepool.clients.kubernetes.errors import Conflict, EvictionRefused, KubernetesError, Unreachable
from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient

#: The scheduler's words for a pod that has no room, a quota's for one that would be too many, Metal3's for no host.
_CAPACITY: Final = re.compile(
    r"\d+/\d+ nodes are available|Unschedulable|exceeded quota|[Nn]o available host|OutOf(cpu|memory|pods|[a-z.-]+/)",
)
#: Of the API server, and of what is between.
_TRANSIENT: Final = re.compile(
    r"timed? ?out|TooManyRequests|too many requests|connection refused|connection reset|i/o timeout|"
    r"no route to host|unexpected EOF|the object has been modified|etcdserver|ServiceUnavailable|"
    r"InternalError|failed calling webhook|context deadline exceeded|does not answer",
    re.IGNORECASE,
)


def kind_of(text: str) -> type[InfrastructureError]:
    """The kind of a failure that a resource of Pulumi's, or an object, tells of."""
    if _CAPACITY.search(text):
        return InsufficientCapacity
    return Transient if _TRANSIENT.search(text) else Permanent


@contextmanager
def kinds_of_failures() -> Iterator[None]:
    """A client's errors as the kinds that the contract knows."""
    try:
        yield
    except (Unreachable, Conflict, EvictionRefused) as error:
        raise Transient(str(error)) from error
    except KubernetesError as error:
        raise kind_of(str(error))(str(error)) from error
    except ValueError as error:
        raise Permanent(str(error)) from error
