"""What a stack's state says, in the form in which both engines export it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.scaling.ports import NotUp, StackError, Told
from tidepool.scaling.world import Recorded

FLEET_TYPE: Final = "tidepool:components:ComputeFleet"
NODE_TYPE: Final = "tidepool:slurm:Node"
#: The types of machines, by infrastructure.
MACHINE_TYPES: Final = {"local": "tidepool:local:Machine"}
_IMAGE_TYPE: Final = "tidepool:image:Image"
_STACK_TYPE: Final = "pulumi:pulumi:Stack"
#: Pulumi's mark of a value that is not plain: a secret, an asset.
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"


@dataclass(slots=True)
class _Node:
    machine: bool = False
    membership: bool = False
    pending: bool = False
    image: str = ""
    urns: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is recorded of nodes, with their URNs, and the outputs. Secrets in the outputs are left out."""

    outputs: Mapping[str, Any]
    recorded: Mapping[str, Recorded]
    #: By node name.
    urns: Mapping[str, tuple[str, ...]]
    #: By the image's name, its digest.
    images: Mapping[str, str]
    #: Whether creations are listed that were cut off. They stay so, whatever becomes of their resources.
    has_cut_off: bool = False


def read_deployment(document: Mapping[str, Any]) -> Deployment:
    """Of ``pulumi stack export``.

    Raises:
        StackError: it is not that.
    """
    try:
        deployment: Mapping[str, Any] = document["deployment"] or {}
        resources = deployment.get("resources") or []
        nodes: defaultdict[str, _Node] = defaultdict(_Node)
        outputs: Mapping[str, Any] = {}
        images: dict[str, str] = {}
        has_cut_off = False
        for resource in resources:
            kind, parent, name = _place(resource["urn"])
            if parent == FLEET_TYPE and _is_node(name, resource.get("parent", "")):
                _add(nodes[name], kind, resource)
            elif kind == _STACK_TYPE:
                outputs = {k: v for k, v in (resource.get("outputs") or {}).items() if _is_plain(v)}
            elif kind == _IMAGE_TYPE and not resource.get("delete"):
                images[name] = str((resource.get("outputs") or {}).get("digest", ""))
        for operation in deployment.get("pending_operations") or []:
            has_cut_off = has_cut_off or operation["type"] == "creating"
            resource = operation["resource"]
            kind, parent, name = _place(resource["urn"])
            if parent == FLEET_TYPE and _is_node(name, resource.get("parent", "")):
                nodes[name].pending = True
                nodes[name].urns.append(resource["urn"])
    except (KeyError, TypeError, AttributeError) as fault:
        raise StackError(f"the stack's state is not in the form that is known: {fault!r}") from fault
    return Deployment(
        outputs=outputs,
        recorded={
            name: Recorded(node.machine, node.membership, node.pending, node.image)
            for name, node in sorted(nodes.items())
        },
        urns={name: tuple(dict.fromkeys(node.urns)) for name, node in nodes.items()},
        images=images,
        has_cut_off=has_cut_off,
    )


def told(deployment: Deployment, version: str, spec_of_file: Callable[[], ClusterSpec]) -> Told:
    """What the scaler is told. ``spec_of_file`` gives the spec where the outputs have none.

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
        fleet.name: deployment.images.get(spec.fleet_image(fleet, fleet.infrastructures[0]), "")
        for fleet in spec.fleets
    }
    return Told(
        version=version,
        spec=spec,
        controller=controller,
        fleets=fleets,
        recorded=deployment.recorded,
        images={fleet: digest for fleet, digest in digests.items() if digest},
    )


def urns_of(stack: str, project: str, spec: ClusterSpec, node: str) -> tuple[str, ...]:
    """The URNs that a node's resources get when they are made.

    Raises:
        StackError: it is no node of the spec's fleets.
    """
    try:
        fleet = spec.fleet(fleet_and_number(node)[0])
        machine = MACHINE_TYPES[fleet.infrastructures[0].name]
    except (KeyError, ValueError) as error:
        raise StackError(f"{node} is no node of a fleet whose machines are known here") from error
    place = f"urn:pulumi:{stack}::{project}::{FLEET_TYPE}$"
    return tuple(f"{place}{kind}::{node}" for kind in (machine, NODE_TYPE))


def _add(node: _Node, kind: str, resource: Mapping[str, Any]) -> None:
    node.urns.append(resource["urn"])
    if resource.get("delete"):
        # Its successor is there, or it is to go: an operation was cut off in between.
        node.pending = True
    elif kind == NODE_TYPE:
        node.membership = True
    else:
        node.machine = True
        node.image = str((resource.get("inputs") or {}).get("image", ""))
    if resource.get("initErrors"):
        node.pending = True


def _place(urn: str) -> tuple[str, str, str]:
    """The type of a resource, its parent's type, its name."""
    parts = urn.split("::", 3)
    above, _, kind = parts[2].rpartition("$")
    return kind, above.rpartition("$")[2], parts[3]


def _is_node(name: str, parent: str) -> bool:
    """Whether it is of a node of its fleet, and not the fleet's own boot or slots."""
    try:
        fleet, _ = fleet_and_number(name)
    except ValueError:
        return False
    return parent.rpartition("::")[2] == fleet


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return _SIGNATURE not in value and all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if isinstance(value, list) else True
