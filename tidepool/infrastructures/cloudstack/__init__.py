"""CloudStack: what may be asked of it, whether a zone has it, and what a stack is there, by Tidepool's own resources.

CloudStack is asked, and told, by `tidepool.infrastructures.cloudstack.api` alone, which alone imports `cs`.
"""

from typing import Final

from tidepool.infrastructures.registry import Descriptor, Package

_KINDS: Final = "tidepool.infrastructures.cloudstack.kinds:CloudStack"
_NETWORK: Final = "tidepool.infrastructures.cloudstack.network:CloudStack"
PACKAGE: Final = Package("cs", "5.2.0")

INFRASTRUCTURE = Descriptor(
    name="cloudstack",
    graph="tidepool.infrastructures.cloudstack.graph:make",
    machines="tidepool.infrastructures.cloudstack.machines:machines_of",
    failures="tidepool.infrastructures.cloudstack.api:kind_of",
    checks="tidepool.infrastructures.cloudstack.preflight:checks_of",
    preflight="tidepool.infrastructures.cloudstack.preflight:PREFLIGHT",
    types=("tidepool:cloudstack:Machine", "tidepool:ssh:Machine"),
    # The port of a login machine.
    has_more=True,
    machine_id="id",
    objects="delete protection refuses it, since CloudStack 4.20; not where it is stopped",
    kinds={
        "tidepool:cloudstack:AffinityGroup": f"{_KINDS}AffinityGroupKind",
        "tidepool:cloudstack:Machine": f"{_KINDS}MachineKind",
        "tidepool:cloudstack:ServiceOffering": f"{_KINDS}ServiceOfferingKind",
        "tidepool:cloudstack:Template": f"{_KINDS}TemplateKind",
        "tidepool:cloudstack:UserData": f"{_KINDS}UserDataKind",
        "tidepool:cloudstack:Volume": "tidepool.infrastructures.cloudstack.volume:CloudStackVolumeKind",
        "tidepool:cloudstack:Network": f"{_NETWORK}NetworkKind",
        "tidepool:cloudstack:PortForwarding": f"{_NETWORK}PortForwardingKind",
    },
    package=PACKAGE,
)
