"""The state of a stack as both engines export it, and the outcome of an `up` by node, from the events that they write. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidepool.cluster.desired_state import read_placements
from tidepool.cluster.failures import Cause, Permanent, unmarked
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.roles import ROLES
from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.infrastructures.registry import descriptor, image_of_resource, infrastructure_of_type
from tidepool.scaling.cluster_state import Recorded, RecordedRole
from tidepool.scaling.memory import at_location
from tidepool.scaling.ports import Failure, NotUp, StackError, StackOutputs, UpOutcome

FLEET_TYPE: Final = "tidepool:components:ComputeFleet"
NODE_TYPE: Final = "tidepool:slurm:Node"
POOL_TYPE: Final = "tidepool:components:ConvergedNodePool"
ROLE_TYPE: Final = "tidepool:pool:Role"
_IMAGE_TYPE: Final = "tidepool:image:Image"
_STACK_TYPE: Final = "pulumi:pulumi:Stack"
#: Pulumi's mark of a value that is not plain: a secret, an asset.
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
#: What a node, or a machine of a pool, is when it serves.
_SERVING: Final = frozenset({NODE_TYPE, ROLE_TYPE})
_MADE: Final = frozenset({"create", "update", "replace", "create-replacement"})
#: What people read of a failure: the beginning says what it is, the rest is a boot's log.
_TEXT_LENGTH: Final = 600
#: What the engines say beside what a provider said.
_AROUND = re.compile(
    r"^(error: )?((creating|updating|deleting|reading) urn:\S+: )?((\d+) errors? occurred:\s*\*?\s*)?"
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The record of nodes, with their URNs, and the outputs. Secrets in the outputs are left out."""

    outputs: Mapping[str, Any]
    recorded: Mapping[str, Recorded]
    #: By node name.
    urns: Mapping[str, tuple[str, ...]]
    #: By the image's name, its digest.
    images: Mapping[str, str]
    #: Whether creations are listed that were cut off. They stay so, whatever becomes of their resources.
    has_cut_off: bool = False
    #: By node name, the machines of converged pools; and the URNs of their roles.
    roles: Mapping[str, RecordedRole] = field(default_factory=dict)
    role_urns: Mapping[str, str] = field(default_factory=dict)
    #: By node name: its machine's connection.
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read_deployment(document: Mapping[str, Any]) -> Deployment:
    """Read the export of ``pulumi stack export``.

    Raises:
        StackError: it is not that.
    """
    try:
        deployment: Mapping[str, Any] = document["deployment"] or {}
        resources = deployment.get("resources") or []
        nodes: defaultdict[str, Recorded] = defaultdict(Recorded)
        urns: defaultdict[str, dict[str, None]] = defaultdict(dict)
        machines: defaultdict[str, RecordedRole] = defaultdict(RecordedRole)
        role_urns: dict[str, str] = {}
        connections: dict[str, Mapping[str, Any]] = {}
        outputs: Mapping[str, Any] = {}
        images: dict[str, str] = {}
        has_cut_off = False
        for resource in resources:
            kind, parent, name = _parts(resource["urn"])
            if parent == FLEET_TYPE and _is_node(name, resource.get("parent", "")):
                urns[name][resource["urn"]] = None
                nodes[name] = _with(nodes[name], kind, resource)
                machine = (resource.get("inputs") or {}).get("machine")
                if kind == NODE_TYPE and not resource.get("delete") and isinstance(machine, dict):
                    connections[name] = machine
            elif parent == POOL_TYPE and _is_node(name, resource.get("parent", "")):
                machines[name] = _in_pool(machines[name], kind, resource)
                if kind == ROLE_TYPE and not resource.get("delete"):
                    role_urns[name] = resource["urn"]
            elif kind == _STACK_TYPE:
                outputs = {k: v for k, v in (resource.get("outputs") or {}).items() if _is_plain(v)}
            elif kind == _IMAGE_TYPE and not resource.get("delete"):
                images[name] = str((resource.get("outputs") or {}).get("digest", ""))
        for operation in deployment.get("pending_operations") or []:
            has_cut_off = has_cut_off or operation["type"] == "creating"
            resource = operation["resource"]
            kind, parent, name = _parts(resource["urn"])
            if parent == FLEET_TYPE and _is_node(name, resource.get("parent", "")):
                urns[name][resource["urn"]] = None
                nodes[name] = replace(nodes[name], pending=True)
            elif parent == POOL_TYPE and _is_node(name, resource.get("parent", "")):
                machines[name] = replace(machines[name], pending=True)
    except (KeyError, TypeError, AttributeError) as fault:
        raise StackError(f"the stack's state is not in the form that is known: {fault!r}") from fault
    return Deployment(
        outputs=outputs,
        recorded=dict(sorted(nodes.items())),
        urns={name: tuple(those) for name, those in urns.items()},
        images=images,
        has_cut_off=has_cut_off,
        roles=dict(sorted(machines.items())),
        role_urns=role_urns,
        connections=connections,
    )


def stack_outputs(
    deployment: Deployment, version: str, spec_of_file: Callable[[], ClusterSpec]
) -> StackOutputs:
    """Return what the scaler is told. ``spec_of_file`` gives the spec where the outputs have none.

    Raises:
        NotUp: the outputs tell of no cluster.
        StackError: they are not a cluster's.
    """
    outputs = deployment.outputs
    controller = outputs.get("controller")
    if not isinstance(controller, dict):
        raise NotUp("the cluster is not up")
    try:
        spec = read_spec(outputs["spec"]) if "spec" in outputs else spec_of_file()
    except SpecError as mistakes:
        raise StackError(f"the spec in the stack's outputs cannot be read: {mistakes}") from mistakes
    fleets = {name: HostSet(hosts) for name, hosts in (outputs.get("fleets") or {}).items()}
    digests = {
        at_location(fleet.name, entry.key if len(fleet.infrastructures) > 1 else ""): deployment.images.get(
            spec.fleet_image(fleet, entry), ""
        )
        for fleet in spec.fleets
        for entry in fleet.infrastructures
    }
    return StackOutputs(
        version=version,
        spec=spec,
        controller=controller,
        fleets=fleets,
        recorded=_located(deployment.recorded, spec, outputs.get("places") or {}),
        images={fleet: digest for fleet, digest in digests.items() if digest},
        roles=deployment.roles,
        connections=deployment.connections,
        kubernetes=outputs.get("kubernetes") or {},
        suspended={name: HostSet(hosts) for name, hosts in (outputs.get("suspended") or {}).items()},
    )


def urns_of(stack: str, project: str, spec: ClusterSpec, node: str, location: str = "") -> tuple[str, ...]:
    """The URNs that a node's resources get when they are made: at ``location``, where its fleet has several.

    Where they depend on options, one of them is a pattern of `--target`, for all of the node's.

    Raises:
        StackError: it is no node of the spec's fleets.
    """
    try:
        machines = descriptor(infrastructure_at(spec, node, location))
    except Permanent:
        raise StackError(f"{node} is no node of a fleet whose machines are known here") from None
    above = f"urn:pulumi:{stack}::{project}::{FLEET_TYPE}$"
    kinds = ("**",) if machines.has_more else (*machines.types, NODE_TYPE)
    return tuple(f"{above}{kind}::{node}" for kind in kinds)


def infrastructure_at(spec: ClusterSpec, node: str, location: str) -> str:
    """The name of the infrastructure that a node's machine is from; empty where it is no node of a fleet.

    Without a place it is its fleet's first, which is what the program takes.
    """
    try:
        fleet = spec.fleet(fleet_and_number(node)[0])
        return (fleet.infrastructure(location) if location else fleet.infrastructures[0]).name
    except (KeyError, ValueError):
        return ""


def _located(
    recorded: Mapping[str, Recorded], spec: ClusterSpec, outputs: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Recorded]:
    """With the places of nodes of fleets on several infrastructures.

    The type of a machine says on which it is; where that is in the fleet's list more than once, the outputs say which.
    """
    spanning = {fleet.name: fleet for fleet in spec.fleets if len(fleet.infrastructures) > 1}
    if not spanning:
        return recorded
    stack_outputs = {name: read_placements(of_fleet) for name, of_fleet in outputs.items()}
    located = dict(recorded)
    for node, record in recorded.items():
        name = fleet_and_number(node)[0]
        if name in spanning and record.infrastructure:
            keys = [each.key for each in spanning[name].infrastructures if each.name == record.infrastructure]
            said = stack_outputs.get(name, {}).get(node, "")
            # One that is not in the list any more is still its place.
            location = said if said in keys else next(iter(keys), record.infrastructure)
            located[node] = replace(record, location=location)
    return located


def _with(node: Recorded, kind: str, resource: Mapping[str, Any]) -> Recorded:
    if resource.get("delete"):
        # Its successor is there, or it is to go: an operation was cut off in between.
        return replace(node, pending=True)
    if resource.get("initErrors"):
        node = replace(node, pending=True)
    if kind == NODE_TYPE:
        return replace(node, membership=True, is_suspended=_is_suspended(resource))
    infrastructure = infrastructure_of_type(kind)
    if image := image_of_resource(kind, resource.get("inputs") or {}):
        node = replace(node, image=image)
    if not infrastructure:
        return replace(node, machine=True)
    return replace(
        node,
        machine=True,
        infrastructure=infrastructure,
        machine_id=_machine_id(descriptor(infrastructure).machine_id, resource),
    )


def _is_suspended(resource: Mapping[str, Any]) -> bool:
    return (resource.get("inputs") or {}).get("power") == "suspended"


def _machine_id(output: str, resource: Mapping[str, Any]) -> str:
    values = resource if output == "id" else resource.get("outputs") or {}
    return str(values.get(output) or "")


def _in_pool(machine: RecordedRole, kind: str, resource: Mapping[str, Any]) -> RecordedRole:
    if resource.get("delete"):
        return replace(machine, pending=True)
    if resource.get("initErrors"):
        machine = replace(machine, pending=True)
    if infrastructure_of_type(kind):
        return replace(machine, machine=True)
    if kind == ROLE_TYPE:
        # That which it has: where a conversion was another's, its outputs know better than its inputs.
        said = (resource.get("outputs") or {}).get("role") or (resource.get("inputs") or {}).get("role")
        return replace(machine, role=said if said in ROLES else None)
    return machine


def _parts(urn: str) -> tuple[str, str, str]:
    """Return the type of a resource, its parent's type, its name; of what is no URN, nothing."""
    parts = urn.split("::", 3)
    if len(parts) < 4:
        return "", "", ""
    above, _, kind = parts[2].rpartition("$")
    return kind, above.rpartition("$")[2], parts[3]


def _is_node(name: str, parent: str) -> bool:
    """Return whether it is of a node of its fleet, and not the fleet's own boot or slots."""
    try:
        fleet, _ = fleet_and_number(name)
    except ValueError:
        return False
    return parent.rpartition("::")[2] == fleet


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return _SIGNATURE not in value and all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if isinstance(value, list) else True


def outcome(
    events: Iterable[Mapping[str, Any]],
    nodes: Collection[str],
    duration_s: float,
    failed: bool,
    said: str,
    cause_of: Callable[[str, str], Cause] = lambda _node, _text: "transient",
) -> UpOutcome:
    """Return what became of ``nodes``. ``cause_of`` tells, by a node and what was said, the cause that is not marked.

    ``failed`` is whether the engine ended with an error, and ``said`` what it wrote then. A node that no event tells
    of is as it should be where the engine succeeded; else it was not come to, and that is a failure of its own.

    Raises:
        StackError: the engine failed, and none of the nodes was come to: the program did, or something else.
    """
    wanted = frozenset(nodes)
    made, coming, removed, seen = set[str](), set[str](), set[str](), set[str]()
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    general: list[str] = []
    for event in events:
        if done := event.get("resOutputsEvent"):
            kind, _, name = _parts(done["metadata"]["urn"])
            op = done["metadata"]["op"]
            if name not in wanted or done.get("planning"):
                continue
            seen.add(name)
            if op in _MADE and kind == NODE_TYPE and _is_suspended(done["metadata"].get("new") or {}):
                removed.add(name)
            elif op in _MADE and kind in _SERVING:
                (made if _is_up(done["metadata"]) else coming).add(name)
            elif op.startswith("delete"):
                removed.add(name)
        elif lost := event.get("resOpFailedEvent"):
            _, _, name = _parts(lost["metadata"]["urn"])
            if name in wanted:
                wrong[name] += []
        elif (told := event.get("diagnosticEvent")) and told.get("severity") == "error":
            _, _, name = _parts(told.get("urn", ""))
            (wrong[name] if name in wanted else general).append(
                _AROUND.sub("", told["message"].strip()).strip()
            )
    if failed and not wrong and not seen:
        raise StackError(
            _shortened("; ".join(general) or said.strip() or "the engine failed and said nothing")
        )
    rest = "; ".join(general) or "the operation ended before it came to this node"
    if failed:
        wrong.update({name: [rest] for name in wanted - seen - wrong.keys()})
    failures = {
        name: _failure(texts[0] if texts else rest, lambda text, name=name: cause_of(name, text))  # type: ignore[misc]
        for name, texts in sorted(wrong.items())
    }
    return UpOutcome(
        made=frozenset(made - wrong.keys()),
        # A membership that went is not yet a machine that did; a replacement deletes one of each and makes one.
        removed=frozenset(removed - wrong.keys() - made),
        failed=failures,
        duration_s=duration_s,
        coming=frozenset(coming - wrong.keys()),
    )


def _is_up(metadata: Mapping[str, Any]) -> bool:
    """Return whether the node was up when the operation went on: it does not wait for ever."""
    new = metadata.get("new") or {}
    return (new.get("outputs") or {}).get("state", "up") in ("up", "serving")


def _failure(said: str, cause_of: Callable[[str], Cause]) -> Failure:
    text, cause = unmarked(said)
    return Failure(cause or cause_of(text), _shortened(text))


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}..."
