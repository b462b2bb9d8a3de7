"""Kubernetes' objects, as JSON has them, read into frozen values. What is not as it should be is a `ValueError`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, TypeVar, get_args

from tidepool.clients.kubernetes.objects import (
    DELETION_HOOK,
    REASON_ANNOTATION,
    Budget,
    ClusterMachine,
    Effect,
    Lease,
    Namespace,
    Node,
    Pod,
    PodPhase,
    Requirement,
    Resources,
    Taint,
    Toleration,
)
from tidepool.cluster.frozen import FrozenDict, frozen

_T = TypeVar("_T")

_WRITTEN: Final = re.compile(
    r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([EPTGMK]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII
)
#: The same amounts are written again and again: of ten thousand pods, reading them was the greater part.
_KEPT: Final = 4096
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
}


def quantity(written: str | int | float) -> Fraction:
    """``written`` as an exact number: ``1500m`` is 3/2, ``1Ki`` is 1024, ``2e3`` and ``2E3`` are 2000, ``2E`` 2 * 10**18.

    Raises:
        ValueError: it is no quantity.
    """
    match = _WRITTEN.fullmatch(str(written))
    if isinstance(written, bool) or not match:
        raise ValueError(f"{written!r} is no quantity")
    sign, number, binary, decimal, exponent = match.groups()
    factor: Fraction | int = 1
    if binary:
        factor = _BINARY[binary]
    elif decimal:
        factor = _DECIMAL[decimal]
    elif exponent:
        factor = Fraction(10) ** int(exponent)
    return Fraction(f"{sign}{number}") * factor


@functools.lru_cache(_KEPT, typed=True)
def milli(written: str | int | float) -> int:
    """Thousandths, rounded up as the scheduler rounds: ``100m`` is 100, ``1`` is 1000, ``1u`` is 1."""
    return -(-quantity(written) * 1000 // 1)


@functools.lru_cache(_KEPT, typed=True)
def whole(written: str | int | float) -> int:
    """Rounded up to the next whole number: ``1Gi`` is 1073741824, ``1500m`` is 2."""
    return -(-quantity(written) // 1)


def resources(written: Mapping[str, Any]) -> Resources:
    """A resource list, as nodes and containers have it: ``{"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}``.

    Raises:
        ValueError: one of them is no quantity, or less than nothing; says which.
    """
    read: dict[str, int] = {}
    for name, amount in written.items():
        try:
            read[name] = milli(amount) if name == "cpu" else whole(amount)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if read[name] < 0:
            raise ValueError(f"{name}: {amount!r} is less than nothing")
    cpu, memory = read.pop("cpu", 0), read.pop("memory", 0)
    return Resources(cpu, memory, FrozenDict(read))


def added(one: Resources, other: Resources) -> Resources:
    """Both together."""
    return _by_name(one, other, lambda mine, theirs: mine + theirs)


def most(one: Resources, other: Resources) -> Resources:
    """Return the larger amount of each."""
    return _by_name(one, other, max)


def _by_name(one: Resources, other: Resources, both: Any) -> Resources:
    names = {**one.extended, **other.extended}
    return Resources(
        both(one.cpu_milli, other.cpu_milli),
        both(one.memory_bytes, other.memory_bytes),
        FrozenDict({name: both(one.extended.get(name, 0), other.extended.get(name, 0)) for name in names}),
    )


# No sets: what is looked for in them may be anything.
_PHASES: Final = get_args(PodPhase)
_EFFECTS: Final = get_args(Effect)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
#: What an empty node selector term is: it matches no node.
_NEVER: Final = (Requirement("metadata.name", "In", ()),)
#: Of a kubelet's own pods, which the API only shows.
_MIRROR: Final = "kubernetes.io/config.mirror"
DEFAULT_SCHEDULER: Final = "default-scheduler"


def node(read: Mapping[str, Any]) -> Node:
    """A Node."""
    meta, spec, status = _map(read, "metadata"), _map(read, "spec"), _map(read, "status")
    ready = next((c for c in _list(status, "conditions") if c.get("type") == "Ready"), {})
    return Node(
        name=_name(meta),
        uid=_text(meta, "uid"),
        labels=_texts(meta, "labels"),
        taints=tuple(map(_taint, _list(spec, "taints"))),
        unschedulable=_typed(spec, "unschedulable", bool, False, "neither true nor false"),
        ready=ready.get("status") == "True",
        message=str(ready.get("message") or ready.get("reason") or ""),
        allocatable=resources(_map(status, "allocatable")),
        created=_created(meta),
        boot_id=_text(_map(status, "nodeInfo"), "bootID"),
        reason=_texts(meta, "annotations").get(REASON_ANNOTATION, ""),
    )


def pod(read: Mapping[str, Any]) -> Pod:
    """A Pod."""
    meta, spec, status = _map(read, "metadata"), _map(read, "spec"), _map(read, "status")
    phase: Any = status.get("phase")
    if phase not in _PHASES:
        raise ValueError(f"phase {phase!r} of a pod is none of {', '.join(_PHASES)}")
    owner = next((o for o in _list(meta, "ownerReferences") if o.get("controller") is True), None)
    kind = _text(owner, "kind") if owner else ""
    scheduled = next((c for c in _list(status, "conditions") if c.get("type") == "PodScheduled"), {})
    is_unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    return Pod(
        namespace=_text(meta, "namespace") or "default",
        name=_name(meta),
        uid=_text(meta, "uid"),
        phase=phase,
        node=_text(spec, "nodeName"),
        labels=_texts(meta, "labels"),
        requests=_requests(spec),
        node_selector=_texts(spec, "nodeSelector"),
        affinity=_affinity(spec),
        # By an operator that is not known here a pod tolerates nothing: that much is certain.
        tolerations=tuple(
            _toleration(said)
            for said in _list(spec, "tolerations")
            if said.get("operator") in (None, "", "Equal", "Exists")
        ),
        owner=f"{kind}/{_text(owner, 'name')}" if owner else "",
        priority=_whole(spec, "priority"),
        created=_created(meta),
        deleting_until=moment(_text(meta, "deletionTimestamp")),
        unschedulable=str(scheduled.get("message") or "no node has room for it") if is_unschedulable else "",
        is_static=_MIRROR in _texts(meta, "annotations") or kind == "Node",
        is_daemon=kind == "DaemonSet",
        is_held=bool(_list(spec, "schedulingGates"))
        or (_text(spec, "schedulerName") or DEFAULT_SCHEDULER) != DEFAULT_SCHEDULER,
        address=_text(status, "podIP"),
        waiting=_waiting(status),
        finalizers=_words(meta, "finalizers"),
    )


def namespace(read: Mapping[str, Any]) -> Namespace:
    """A Namespace."""
    meta = _map(read, "metadata")
    return Namespace(
        _name(meta), _texts(meta, "labels"), moment(_text(meta, "deletionTimestamp")) is not None
    )


def cluster_machine(read: Mapping[str, Any]) -> ClusterMachine:
    """A Machine of cluster.x-k8s.io/v1beta2."""
    meta, status = _map(read, "metadata"), _map(read, "status")
    conditions = {
        _text(condition, "type"): _text(condition, "message")
        for condition in _list(status, "conditions")
        if condition.get("status") == "False"
    }
    # The condition that sums up all others stands in for them.
    why_not = conditions.get("InfrastructureReady") or conditions.get("Ready") or ""
    return ClusterMachine(
        namespace=_text(meta, "namespace"),
        name=_name(meta),
        uid=_text(meta, "uid"),
        labels=_texts(meta, "labels"),
        phase=_text(status, "phase"),
        addresses=tuple(_text(each, "address") for each in _list(status, "addresses")),
        why_not=why_not,
        is_ending=moment(_text(meta, "deletionTimestamp")) is not None,
        finalizers=_words(meta, "finalizers"),
        created=moment(_text(meta, "creationTimestamp")),
        is_held=DELETION_HOOK in _texts(meta, "annotations"),
    )


def budget(read: Mapping[str, Any]) -> Budget:
    """A PodDisruptionBudget of policy/v1. One without a selector selects nothing; an empty selector selects all."""
    meta, spec, status = _map(read, "metadata"), _map(read, "spec"), _map(read, "status")
    selector = spec.get("selector")
    if selector is not None and not isinstance(selector, dict):
        raise ValueError(f"the selector {selector!r} is no mapping")
    nothing: dict[str, Any] = {"matchExpressions": [{"key": "metadata.name", "operator": "In", "values": []}]}
    return Budget(
        namespace=_text(meta, "namespace"),
        name=_name(meta),
        selector=frozen(nothing if selector is None else selector),
        allowed=_whole(status, "disruptionsAllowed"),
    )


def lease(read: Mapping[str, Any]) -> Lease:
    """A Lease of coordination.k8s.io/v1."""
    spec = _map(read, "spec")
    return Lease(
        _name(_map(read, "metadata")), _text(spec, "holderIdentity"), moment(_text(spec, "renewTime"))
    )


def moment(written: str) -> datetime | None:
    """``2026-11-22T14:00:00Z``, with or without parts of a second, in UTC; None where nothing is written.

    Raises:
        ValueError: it is no time, or of no zone.
    """
    if not written:
        return None
    read = datetime.fromisoformat(written)
    if read.tzinfo is None:
        raise ValueError(f"the time {written!r} is of no zone")
    return read.astimezone(UTC)


def _waiting(status: Mapping[str, Any]) -> str:
    """Return the reason of the first container that waits, which may be one of those that begin."""
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in _list(status, key):
            waits = _map(_map(container, "state"), "waiting")
            if reason := _text(waits, "reason"):
                return f"{reason}: {_text(waits, 'message')}".removesuffix(": ")
    return ""


def _requests(spec: Mapping[str, Any]) -> Resources:
    """Return what the scheduler sets aside for a pod: containers and sidecars together, or the largest step of starting them.

    An init container runs beside the sidecars (init containers that restart) before it. Amounts that are said of the
    whole pod hold instead.
    """
    running, starting, beside = Resources(), Resources(), Resources()
    for container in _list(spec, "initContainers"):
        asked = _requested(container)
        if container.get("restartPolicy") == "Always":
            beside = added(beside, asked)
            starting = most(starting, beside)
        else:
            starting = most(starting, added(beside, asked))
    for container in _list(spec, "containers"):
        running = added(running, _requested(container))
    summed = most(added(running, beside), starting)
    said = _map(_map(spec, "resources"), "requests")
    of_pod = resources(said)
    whole = Resources(
        of_pod.cpu_milli if "cpu" in said else summed.cpu_milli,
        of_pod.memory_bytes if "memory" in said else summed.memory_bytes,
        FrozenDict({**summed.extended, **of_pod.extended}),
    )
    return added(whole, resources(_map(spec, "overhead")))


def _requested(container: Mapping[str, Any]) -> Resources:
    return resources(_map(_map(container, "resources"), "requests"))


def _affinity(spec: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...]:
    required = _map(
        _map(_map(spec, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = []
    for term in _list(required, "nodeSelectorTerms"):
        parts = (*_list(term, "matchExpressions"), *_list(term, "matchFields"))
        terms.append(tuple(map(_requirement, parts)) or _NEVER)
    return tuple(terms)


def _requirement(read: Mapping[str, Any]) -> Requirement:
    operator = read.get("operator")
    if operator not in _OPERATORS:
        raise ValueError(f"operator {operator!r} is none of {', '.join(_OPERATORS)}")
    values = read.get("values") or []
    if not isinstance(values, list):
        raise ValueError(f"values {values!r} are no list")
    return Requirement(_text(read, "key"), operator, tuple(map(str, values)))


def _taint(read: Mapping[str, Any]) -> Taint:
    effect: Any = read.get("effect")
    if effect not in _EFFECTS:
        raise ValueError(f"effect {effect!r} of a taint is none of {', '.join(_EFFECTS)}")
    return Taint(_text(read, "key"), effect, _text(read, "value"))


def _toleration(read: Mapping[str, Any]) -> Toleration:
    effect: Any = read.get("effect") or ""
    if effect not in (*_EFFECTS, ""):
        raise ValueError(f"effect {effect!r} of a toleration is none of {', '.join(_EFFECTS)}")
    return Toleration(_text(read, "key"), read.get("operator") or "Equal", _text(read, "value"), effect)


# What is missing is empty; what is of another kind is a mistake.


def _typed(
    read: Mapping[str, Any], key: str, kind: type[_T], empty: _T, wanted: str, of: type = object
) -> _T:
    found = read.get(key)
    if found is None:
        return empty
    if (
        isinstance(found, kind)
        and (kind is bool or not isinstance(found, bool))
        and (not isinstance(found, list) or all(isinstance(one, of) for one in found))
    ):
        return found
    raise ValueError(f"{key} is {found!r}, and {wanted}")


def _map(read: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _typed(read, key, dict, {}, "no mapping")


def _list(read: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    return _typed(read, key, list, [], "no list of mappings", dict)


def _text(read: Mapping[str, Any], key: str) -> str:
    return _typed(read, key, str, "", "no text")


def _words(read: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(_typed(read, key, list, [], "no list of texts", str))


def _texts(read: Mapping[str, Any], key: str) -> Mapping[str, str]:
    found = _map(read, key)
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{key} holds what is no text: {dict(found)!r}")
    return FrozenDict(found)


def _whole(read: Mapping[str, Any], key: str) -> int:
    return _typed(read, key, int, 0, "no whole number")


def _name(meta: Mapping[str, Any]) -> str:
    if not (found := _text(meta, "name")):
        raise ValueError("it has no name")
    return found


def _created(meta: Mapping[str, Any]) -> datetime:
    if (found := moment(_text(meta, "creationTimestamp"))) is None:
        raise ValueError("it has no creationTimestamp")
    return found
