"""Fleets on Kubernetes, as pods or as machines of Cluster API: what may be asked for, the objects, and what is found.

Nothing here makes anything: objects are made by the resources of `tidepool.infrastructures.kubernetes.graph`. An API
server is asked by `machines`, `kinds` and `preflight` alone.
"""

from tidepool.infrastructures.registry import Descriptor, Package

INFRASTRUCTURE = Descriptor(
    name="kubernetes",
    graph="tidepool.infrastructures.kubernetes.graph:make",
    machines="tidepool.infrastructures.kubernetes.machines:machines_of",
    failures="tidepool.infrastructures.kubernetes.machines:kind_of",
    checks="tidepool.infrastructures.kubernetes.preflight:checks_of",
    preflight="tidepool.infrastructures.kubernetes.preflight:PREFLIGHT",
    types=("tidepool:kubernetes:Machine",),
    # A pod, or a Machine with what it needs.
    has_more=True,
    objects=(
        "a budget refuses to evict a pod that runs jobs; a pod or a Machine that is deleted goes on until they have ended (preStop, "
        "pre-terminate hook); not where it is forced, or a Metal3Machine or its host is deleted"
    ),
    kinds={
        "tidepool:kubernetes:Machine": "tidepool.infrastructures.kubernetes.kinds:KubernetesMachineKind",
    },
    package=Package("pulumi-kubernetes", "4.34.2", plugin="kubernetes"),
)
