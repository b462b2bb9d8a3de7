"""Options of Kubernetes: of the place, once; of machines, with each fleet."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.part import Network, Part, Whole
from tidepool.cluster.shape import mebibytes

#: A name of DNS, which names of most objects are.
LABEL: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_NFS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:/[^\s:]*")
_KEY: Final = r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
_AMOUNT: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"

Labels = Annotated[
    dict[Annotated[str, Field(pattern=_KEY)], Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,63}$")]],
    AfterValidator(frozen),
]


def _volume(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not _NFS.fullmatch(value):
        raise ValueError(
            "write an NFS export, SERVER:/PATH; or {claim: NAME}; or {storage_class: NAME, size: 100Gi}"
        )
    return {"nfs": value}


class Volume(Part):
    """A volume that outlives its pods: an NFS export, a claim that is there, or a claim of the stack's own."""

    nfs: str | None = Field(default=None, description="An export: `SERVER:/PATH`.")
    claim: str | None = Field(
        default=None,
        pattern=LABEL,
        description="A PersistentVolumeClaim that somebody made in the namespace.",
    )
    storage_class: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
        description="Of a claim that the stack makes.",
    )
    size: Annotated[str, Field(pattern=_AMOUNT)] | None = Field(
        default=None, description="Of that claim: `100Gi`."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if [self.nfs, self.claim, self.storage_class].count(None) != 2 or bool(self.size) != bool(
            self.storage_class
        ):
            raise ValueError("write one of nfs, claim, and storage_class with size")
        return self


class Toleration(Part):
    """A taint that pods may be in spite of."""

    key: str = Field(pattern=_KEY, description="The taint's.")
    value: str | None = Field(default=None, description="The taint's; any if it is not said.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Of the taint; any if it is not said."
    )


class Spread(Part):
    """Spread of a fleet's pods over a topology."""

    over: str = Field(
        pattern=_KEY,
        description="The label of nodes that names it: `topology.kubernetes.io/zone`, `kubernetes.io/hostname`.",
    )
    max_skew: Whole = Field(default=1, ge=1, description="By how many pods two of them may differ.")
    strict: bool = Field(default=True, description="Whether a pod waits rather than break it.")


class Offering(Part):
    """Options of a fleet's machines."""

    kind: Literal["pods", "machines"] = Field(
        default="pods",
        description="Pods of the golden image, or whole machines that Cluster API provisions by Metal3.",
    )
    # Of pods.
    node_selector: Labels = Field(
        default_factory=FrozenDict, description="Labels of the nodes that pods may be on."
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(), description="Taints that pods may be in spite of."
    )
    spread: tuple[Spread, ...] = Field(default=(), description="How pods are spread.")
    gres: Annotated[dict[str, Annotated[str, Field(pattern=_KEY)]], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="The extended resource that each gres of the shape is: `{gpu: nvidia.com/gpu}`, or `gpu:a100: ...`.",
    )
    resources: Annotated[dict[Annotated[str, Field(pattern=_KEY)], Whole], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict, description="More extended resources of each pod: `{rdma/hca: 1}`."
    )
    priority_class: str | None = Field(
        default=None, pattern=LABEL, description="A PriorityClass that is there."
    )
    runtime_class: str | None = Field(
        default=None, pattern=LABEL, description="A RuntimeClass that is there."
    )
    overhead_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=256,
        validation_alias="overhead",
        ge=0,
        description="Memory that a pod has beside what jobs are given, for its daemons.",
    )
    autoscaled: bool = Field(
        default=False,
        description="Whether nodes for the pods are made when they wait: then none has to be there before.",
    )
    # Of machines.
    host_selector: Labels = Field(
        default_factory=FrozenDict, description="Labels of the BareMetalHosts that machines may be."
    )

    @model_validator(mode="after")
    def _each_of_its_kind(self) -> Self:
        of_pods = {"node_selector", "tolerations", "spread", "gres", "resources", "priority_class", "runtime_class", "overhead_mib", "autoscaled"}  # fmt: skip
        strange = self.model_fields_set & (of_pods if self.kind == "machines" else {"host_selector"})
        if strange:
            other = "pods" if self.kind == "machines" else "machines"
            raise ValueError(f"{', '.join(sorted(strange))}: of kind: {other} alone; leave it out")
        return self


class ClusterApi(Part):
    """Options that all machines have in common which Cluster API provisions."""

    image_url: str = Field(
        pattern=r"^https?://[^\s]*\{digest\}[^\s]*$",
        description="Where hosts load images from: a URL with `{digest}`, and `{name}` if you like.",
    )
    checksum_url: str = Field(
        pattern=r"^https?://[^\s]*\{digest\}[^\s]*$", description="Likewise, of the file with its SHA-256."
    )
    interface: str = Field(
        pattern=r"^[a-z][a-z0-9]{0,14}$",
        description="The interface of the cluster's network, as Metal3 saw it when it inspected the hosts: `eno1`.",
    )
    cleaning: Literal["metadata", "disabled"] = Field(
        default="metadata",
        description="What is wiped of a host's disks when its machine goes. `disabled` was not tried yet, by any test or by hand.",
    )


class SiteOptions(Part):
    """The Kubernetes, and what all pods and machines of a stack have in common."""

    kubeconfig: str = Field(
        default="/etc/tidepool/kubeconfig",
        pattern=r"^/[^\s]+$",
        description="A file on this machine; its user makes all of it (docs/infrastructures/kubernetes.md says what it may).",
    )
    namespace: Annotated[str, Field(pattern=LABEL)] | None = Field(
        default=None, description="The stack's own; by default the cluster's name."
    )
    own_namespace: bool = Field(
        default=True,
        description="Whether the stack makes its namespace, its quota and who may do what there; else an administrator did.",
    )
    scaler: str = Field(
        default="tidepool",
        pattern=r"^[^\s]+$",
        description="The user of Kubernetes that the scaler is: what it may is made for it, with own_namespace.",
    )
    quota: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z0-9./-]+$")], Annotated[str, Field(pattern=_AMOUNT)]],
        AfterValidator(frozen),
    ] = Field(
        default_factory=FrozenDict,
        description="What the department may have at most: `{requests.cpu: '512', requests.nvidia.com/gpu: '16'}`.",
    )
    images: str = Field(
        default="docker.io/tidepool",
        pattern=r"^[a-z0-9]([a-z0-9.:/_-]*[a-z0-9])?$",
        description="The registry and folder that nodes pull golden images from.",
    )
    pull: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="`Never` where images are loaded into the nodes by hand."
    )
    pull_secret: str | None = Field(
        default=None, pattern=LABEL, description="A Secret by which they are pulled."
    )
    addresses: Literal["calico", "kube-ovn", "multus"] = Field(
        default="calico", description="Who gives each pod the address of its slot."
    )
    interface: str | None = Field(
        default=None,
        pattern=r"^[a-z][a-z0-9.]{0,14}$",
        description="With multus: the interface of the nodes that leads to the cluster's network.",
    )
    reached_from: tuple[Network, ...] = Field(
        default=(),
        description="Networks beside the cluster's own that pods may be reached from: this machine's.",
    )
    volumes: Annotated[dict[str, Annotated[Volume, BeforeValidator(_volume)]], AfterValidator(frozen)] = (
        Field(
            default_factory=FrozenDict,
            description="Where what pods share is: `home`, `slurmctld`, with accounting `database`.",
        )
    )
    machines: Offering = Field(
        default_factory=Offering, description="What kind of machines the cluster's own are: pods."
    )
    cluster_api: ClusterApi | None = Field(default=None, description="For fleets of machines.")

    @model_validator(mode="after")
    def _multus_has_an_interface(self) -> Self:
        if (self.addresses == "multus") != (self.interface is not None):
            raise ValueError("interface: multus needs it, and nobody else; write both, or neither")
        return self
