"""What a Kubernetes lacks of what a stack asks of it: told all at once, before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.contract import (
    Conflict,
    EvictionRefused,
    Forbidden,
    KubernetesError,
    Malformed,
    NotFound,
    TimedOut,
    Unreachable,
)
from tidepool.clients.kubernetes.objects import Namespace, Node, Resources, Right
from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.cluster.frozen import FrozenDict
from tidepool.infrastructures.kubernetes.machines import kind_of, kinds_of_failures
from tidepool.infrastructures.kubernetes.namespace import needed, role_rules, scaler_table, scaling
from tidepool.infrastructures.kubernetes.preflight import Demand, Demands, Observation, lacks, look

OFFERING = "fleets[0].infrastructures[0].options"
PODS = Demand(OFFERING, "cpu-[1-2]", "pods", 4000, 4352, "amd64")
DEMANDS = Demands("dev", "controller.infrastructure.options", "physics", True, (PODS,))
MINE = Namespace("physics", FrozenDict({"tidepool/stack": "dev"}))


def node(
    name: str = "node-1",
    cpus: int = 8,
    memory_mib: int = 16384,
    arch: str = "amd64",
    labels: Mapping[str, str] | None = None,
) -> Node:
    room = Resources(cpus * 1000, memory_mib * 2**20, FrozenDict({"nvidia.com/gpu": 1}))
    both = FrozenDict({"kubernetes.io/arch": arch, **(labels or {})})
    return Node(name, f"uid-{name}", both, (), False, True, "", room, datetime.now(UTC))


def asks(**changes: object) -> Demands:
    return replace(DEMANDS, demands=(replace(PODS, **changes),))  # type: ignore[arg-type]


def test_a_place_that_has_all_lacks_nothing() -> None:
    assert lacks(DEMANDS, Observation(nodes=(node(),))) == ()
    assert lacks(DEMANDS, Observation(namespace=MINE, nodes=(node(),))) == ()


def test_each_right_that_is_missing_is_named() -> None:
    missing = (
        Right("create", "pods", "", "physics"),
        Right("delete", "pods", "", "physics"),
        Right("patch", "roles", "rbac.authorization.k8s.io", "physics"),
    )
    (told,) = lacks(DEMANDS, Observation(missing, nodes=(node(),)))
    assert told == (
        "controller.infrastructure.options.kubeconfig: its user may not create, delete pods in physics; patch "
        "roles.rbac.authorization.k8s.io in physics; an administrator has to allow it (docs/infrastructures/kubernetes.md)"
    )


@pytest.mark.parametrize(
    ("there", "own", "words"),
    [
        (
            Namespace("physics", FrozenDict({"tidepool/stack": "chemistry"})),
            True,
            "is of the stack chemistry; each department",
        ),
        (
            Namespace("physics", FrozenDict()),
            True,
            "is there already, and no stack's; name another, or write own_namespace",
        ),
        (Namespace("physics", FrozenDict()), False, "kubectl label namespace physics tidepool/stack=dev"),
        (None, False, "there is no physics; an administrator makes it"),
        (replace(MINE, is_ending=True), True, "is being deleted"),
    ],
)
def test_a_namespace_that_is_not_the_stacks_is_refused(
    there: Namespace | None, own: bool, words: str
) -> None:
    (told,) = lacks(replace(DEMANDS, own_namespace=own), Observation(namespace=there, nodes=(node(),)))
    assert told.startswith("controller.infrastructure.options.namespace: ")
    assert words in told


def test_a_node_name_that_is_there_already_is_told() -> None:
    (told,) = lacks(DEMANDS, Observation(namespace=MINE, others=frozenset({"cpu-2", "web"}), nodes=(node(),)))
    assert told == (
        f"{OFFERING}: cpu-2 in the namespace physics is there already, and not this stack's; take it away, or name another "
        "namespace"
    )


def test_an_image_of_another_architecture_is_told() -> None:
    (told,) = lacks(DEMANDS, Observation(nodes=(node(arch="arm64"),)))
    assert told == (
        f"{OFFERING}: the image is of amd64, and the nodes that pods may be on are of arm64; select others, or build the image "
        "on a machine like them"
    )


def test_labels_that_no_node_has_are_told_unless_nodes_come_by_themselves() -> None:
    wish = asks(node_selector=FrozenDict({"site/rack": "r7"}))
    (told,) = lacks(wish, Observation(nodes=(node(),)))
    assert told.startswith(f"{OFFERING}.node_selector: no node has the labels site/rack: r7; label one")
    assert lacks(wish, Observation(nodes=(node(labels={"site/rack": "r7"}),))) == ()
    assert lacks(asks(node_selector=FrozenDict({"a": "b"}), autoscaled=True), Observation(nodes=())) == ()


def test_a_gres_that_no_node_has_so_much_of_is_told() -> None:
    (told,) = lacks(asks(extended=FrozenDict({"nvidia.com/gpu": 2})), Observation(nodes=(node(),)))
    assert told.startswith(
        f"{OFFERING}.gres: a pod asks for 2 nvidia.com/gpu, and no node that it may be on has more than 1"
    )


def test_a_shape_that_no_node_is_large_enough_for_is_told() -> None:
    (told,) = lacks(asks(cpu_milli=16000), Observation(nodes=(node("small", 2), node("large", 12))))
    assert told == (
        f"{OFFERING}: a pod asks for 16 processors and 4352 MiB, and no node that it may be on has both: large has 12 and "
        "16384 MiB; make the shape smaller"
    )


def test_machines_want_cluster_api() -> None:
    (told,) = lacks(asks(kind="machines"), Observation(has_cluster_api=False))
    assert told.startswith(
        f"{OFFERING}.kind: the API server knows no Machines; install Cluster API and Metal3"
    )


def test_nodes_that_may_not_be_seen_are_believed_to_be_right() -> None:
    assert lacks(DEMANDS, Observation(namespace=MINE, nodes=None)) == ()


# The look

ALL = needed("physics", pods=True, machines=True, claims=False, multus=False, owner=True)
SCALING = scaling("physics", pods=True, machines=True)


def test_a_look_sees_whose_pods_have_the_names() -> None:
    fake = FakeKubernetes()
    fake.namespaces["physics"] = MINE
    fake.add_node("node-1", cpus=8, memory_mib=8192)
    fake.add_pod("cpu-1", "physics", labels=FrozenDict({"tidepool/stack": "dev", "tidepool/node": "cpu-1"}))
    fake.add_pod("cpu-2", "physics")
    fake.add_pod("cpu-3", "chemistry")
    both = replace(DEMANDS, demands=(PODS, replace(PODS, kind="machines", names="metal-1")))
    fake.add_cluster_machine("metal-1", "physics")
    seen = look(fake, both, ALL, SCALING)
    assert (seen.others, seen.missing, seen.namespace) == (frozenset({"cpu-2", "metal-1"}), (), MINE)
    assert [each.name for each in seen.nodes or ()] == ["node-1"]


def test_what_a_stack_made_needs_the_scalers_rights_alone_from_then_on() -> None:
    fake = FakeKubernetes()
    fake.denied = {Right("patch", "secrets", "", "physics"), Right("list", "nodes")}
    assert look(fake, DEMANDS, ALL, SCALING).missing == (
        Right("list", "nodes"),
        Right("patch", "secrets", "", "physics"),
    )
    fake.namespaces["physics"] = MINE
    seen = look(fake, DEMANDS, ALL, SCALING)
    assert (seen.missing, seen.nodes) == ((), None)


def test_a_server_without_cluster_api_is_known_as_that() -> None:
    fake = FakeKubernetes(has_cluster_api=False)
    assert not look(fake, asks(kind="machines"), ALL, SCALING).has_cluster_api


# Rights


def test_the_scaler_has_no_right_that_an_up_does_not_need_and_none_to_secrets() -> None:
    assert {*SCALING} <= {*ALL}
    assert not {right.resource for right in SCALING} & {"secrets", "roles", "rolebindings", "pods/exec", "*"}
    assert {right.namespace for right in SCALING} == {"physics"}
    told = role_rules(scaler_table(pods=True, machines=False))
    assert {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]} in told


def test_no_right_has_a_wildcard() -> None:
    assert not [right for right in ALL if "*" in (right.verb, right.resource, right.group)]


# Failures


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: ...", InsufficientCapacity),
        ('pods "cpu-9" is forbidden: exceeded quota: stack, requested: requests.cpu=4', InsufficientCapacity),
        ("No available host found. Requeuing.", InsufficientCapacity),
        ("[Pod physics/cpu-1]: Pod unready: containers with unready status", Permanent),
        ("Post https://10.0.0.1:6443/api/v1: dial tcp: i/o timeout", Transient),
        ("Internal error occurred: failed calling webhook: connection refused", Transient),
        ("the object has been modified; please apply your changes to the latest version", Transient),
        ('pods "cpu-1" is forbidden: violates PodSecurity "baseline:latest": host namespaces', Permanent),
        ('pods is forbidden: User "scaler" cannot create resource "pods" in API group ""', Permanent),
        ("physics/cpu-1 will not run: InvalidImageName: couldn't parse image name", Permanent),
    ],
)
def test_the_kind_of_a_failure_is_in_its_words(text: str, kind: type[InfrastructureError]) -> None:
    assert kind_of(text) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimedOut("no answer in time"), Transient),
        (Unreachable("the API server cannot be reached"), Transient),
        (Conflict("it was changed meanwhile"), Transient),
        (EvictionRefused("the budget web allows none"), Transient),
        # What objects are called says nothing of what happened.
        (Forbidden('pods "etcdserver-1" is forbidden'), Permanent),
        (NotFound('machines "exceeded quota" not found'), Permanent),
        (Malformed("the page of a proxy: InternalError"), Permanent),
    ],
)
def test_the_kind_of_a_clients_error_is_in_its_class(
    error: KubernetesError, kind: type[InfrastructureError]
) -> None:
    with pytest.raises(kind, match=str(error)) as raised, kinds_of_failures():
        raise error
    assert type(raised.value) is kind
