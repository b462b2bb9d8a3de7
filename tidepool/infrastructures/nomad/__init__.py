"""Hosts that run Nomad: what may be asked of them, the jobs that a cluster is there, and how a host becomes a machine.

Jobs are plain functions over frozen values. Nomad is asked, and told, by `tidepool.infrastructures.nomad.api` and what is above it alone.
"""

from tidepool.infrastructures.registry import Descriptor, Package

INFRASTRUCTURE = Descriptor(
    name="nomad",
    graph="tidepool.infrastructures.nomad.graph:make",
    machines="tidepool.infrastructures.nomad.machines:machines_of",
    failures="tidepool.infrastructures.nomad.api:kind_of",
    checks="tidepool.infrastructures.nomad.preflight:checks_of",
    preflight="tidepool.infrastructures.nomad.preflight:PREFLIGHT",
    types=("tidepool:nomad:Machine", "tidepool:ssh:Machine"),
    machine_id="id",
    kinds={
        "tidepool:nomad:Machine": "tidepool.infrastructures.nomad.kinds:NomadMachineKind",
        "tidepool:nomad:RollOut": "tidepool.infrastructures.nomad.kinds:RollOutKind",
    },
    package=Package("pulumi-nomad", "2.6.1", plugin="nomad"),
)
