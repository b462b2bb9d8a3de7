"""AWS: what may be asked of it, whether a region has it, what its machines are told, and those that are there.

Nothing here makes anything: machines are made by the resources of `tidepool.infrastructures.aws.graph`. AWS is asked by
`ask`, `imaging`, `machines` and `session`, which alone import boto3.
"""

from tidepool.infrastructures.registry import Descriptor, Package

INFRASTRUCTURE = Descriptor(
    name="aws",
    graph="tidepool.infrastructures.aws.graph:make",
    machines="tidepool.infrastructures.aws.machines:machines_of",
    failures="tidepool.infrastructures.aws.failures:kind_of",
    checks="tidepool.infrastructures.aws.preflight:checks_of",
    preflight="tidepool.infrastructures.aws.preflight:PREFLIGHT",
    images="tidepool.infrastructures.aws.reading:image_needs",
    imaging="tidepool.infrastructures.aws.imaging:imaging_of",
    types=("aws:ec2/instance:Instance", "aws:ec2/route:Route", "tidepool:ssh:Machine"),
    machine_id="id",
    # Adapters of EFA, where machines have them.
    has_more=True,
    kinds={
        "tidepool:aws:Forwarding": "tidepool.infrastructures.aws.kinds:AwsForwardingKind",
    },
    objects="termination protection refuses it; not for spot machines, and not where it is stopped",
    package=Package("pulumi-aws", "7.51.1", plugin="aws", beside=("boto3",)),
)
