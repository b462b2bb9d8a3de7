"""Access in a cluster at AWS: the security groups of its parts, and who may speak to whom; policies of IAM, each for one thing.

A connection is opened from a machine's own address in its subnet, which AWS knows to be of its group, to the address that the
machine has in the cluster's network, which AWS does not know. So groups are named where connections arrive; where they leave,
the network is. What comes from machines that are elsewhere is of no group, and the network is named for it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final, Literal

from tidepool.cluster.firewall import Egress, Firewall
from tidepool.cluster.flows import port_range
from tidepool.cluster.names import ACCOUNTING_HOST
from tidepool.infrastructures.aws.names import named

Part = Literal["controller", "accounting", "login", "node", "files", "endpoints"]
MACHINES: Final[tuple[Part, ...]] = ("controller", "accounting", "login", "node")

#: What srun and jobs listen on: the kernel chooses.
_ANY_PORT: Final = (1024, 65535)
_SSH: Final = (22, 22)
#: Those machines' boot, or one of them. A fleet may be called `login-gpu`: its nodes are nodes.
_LOGIN: Final = re.compile(r"login(-[0-9]+)?")
LUSTRE: Final = ((988, 988), (1018, 1023))


@dataclass(frozen=True, slots=True)
class Rule:
    """``source`` may open TCP connections to ``to``; with ``ports`` None anything is let through."""

    to: Part
    source: Part
    ports: tuple[int, int] | None
    why: str

    @property
    def name(self) -> str:
        """Return its name among all rules: `controller-from-node-6817`."""
        return f"{self.to}-from-{self.source}-{self.ports[0] if self.ports else 'all'}"


@dataclass(frozen=True, slots=True)
class EgressRule:
    """Machines of ``part`` may open connections to ``network``, outside of the cluster's."""

    part: Part
    network: IPv4Network
    protocol: str
    ports: tuple[int, int]
    why: str

    @property
    def name(self) -> str:
        """Return its name by what it says, so that another order is no change: ``node-to-192.0.2.7-32-tcp-443-443``."""
        first, last = self.ports
        return f"{self.part}-to-{in_name(self.network)}-{self.protocol}-{first}-{last}"


def egress_rules(firewall: Firewall) -> Sequence[EgressRule]:
    """Return what the firewall lets machines reach, each once."""
    rules: tuple[tuple[Part, Sequence[Egress]], ...] = (
        ("login", firewall.logins.egress),
        ("node", firewall.nodes.egress),
    )
    found = (
        EgressRule(part, to, rule.protocol, port_range(ports), rule.description)
        for part, egress in rules
        for rule in egress
        for to in rule.to
        for ports in rule.ports or ("0-65535",)
    )
    return list({each.name: each for each in found}.values())


def in_name(network: IPv4Network) -> str:
    """Return a network as names of resources have it."""
    return str(network).replace("/", "-")


def part_of(machine: str) -> Part:
    """Return the part that a machine is of, by its name or that of its boot."""
    if machine in ("ctl", "ctlbackup"):
        return "controller"
    if machine == ACCOUNTING_HOST:
        return "accounting"
    return "login" if _LOGIN.fullmatch(machine) else "node"


def rules(*, lustre: bool = False) -> tuple[Rule, ...]:
    """All that machines of a cluster say to each other, and to its file systems, with Lustre or without."""
    return (*_of_machines(), *(_of_lustre() if lustre else ()))


def to_nodes_from_outside() -> Mapping[tuple[int, int], str]:
    """By ports, why: what the cluster's own machines open to nodes, where those machines are not at AWS and of no group."""
    return {
        rule.ports: rule.why
        for rule in _of_machines()
        if rule.to == "node" and rule.source != "node" and rule.ports is not None
    }


def _of_machines() -> Iterator[Rule]:
    for source in MACHINES:
        yield Rule("controller", source, (6817, 6817), "slurmctld")
    for source in ("controller", "login"):
        yield Rule("accounting", source, (6819, 6819), "slurmdbd")
        yield Rule("node", source, (6818, 6818), "slurmd")
        yield Rule("node", source, _SSH, "SSH")
    yield Rule("controller", "login", _SSH, "SSH")
    # srun tells its user of each step, wherever the user is.
    yield Rule("login", "controller", _ANY_PORT, "srun")
    yield Rule("login", "node", _ANY_PORT, "srun")
    yield Rule("node", "controller", _ANY_PORT, "srun")
    # MPI, and EFA, which lets nothing through but to its own group.
    yield Rule("node", "node", None, "jobs")
    for source in MACHINES:
        yield Rule("files", source, (2049, 2049), "NFS")
        yield Rule("endpoints", source, (443, 443), "Secrets Manager")


def _of_lustre() -> Iterator[Rule]:
    """Its servers call each other and their clients, too."""
    parts: tuple[Part, ...] = (*MACHINES, "files")
    for part in parts:
        for ports in LUSTRE:
            yield Rule("files", part, ports, "Lustre")
            if part != "files":
                yield Rule(part, "files", ports, "Lustre")


def assumed_by(service: str, external_id: str | None = None) -> str:
    """Return the policy by which a service of AWS, and nobody else, may take on a role."""
    condition = {"Condition": {"StringEquals": {"sts:ExternalId": external_id}}} if external_id else {}
    return _policy(
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole", **condition}
    )


def reads_secret(secret: str) -> str:
    """A machine reads what it is for, and nothing besides. ``secret`` is an ARN."""
    return _policy(_allow("secretsmanager:GetSecretValue", secret))


def through_endpoint(stack: str, region: str, account: str) -> str:
    """Return the policy of the endpoint of a stack's VPC: roles of the account read the stack's secrets through it."""
    # *: all kinds of machines go through it, and AWS ends the name of each secret with letters of its own.
    secrets = f"arn:{partition_of(region)}:secretsmanager:{region}:{account}:secret:{named(stack, '*')}"
    return _policy(
        {
            **_allow("secretsmanager:GetSecretValue", secrets),
            # *: roles are made after the endpoint; the condition leaves those of one account, and what each may its own says.
            "Principal": "*",
            "Condition": {"StringEquals": {"aws:PrincipalAccount": account}},
        }
    )


#: What writes a disk that is encrypted with a key of one's own. As AWS asks for it of VM Import, each by its name.
_ENCRYPTS: Final = tuple(
    f"kms:{action}"
    for action in (
        "CreateGrant",
        "Decrypt",
        "DescribeKey",
        "Encrypt",
        "GenerateDataKey",
        "GenerateDataKeyWithoutPlaintext",
        "ReEncryptFrom",
        "ReEncryptTo",
    )
)


def imports_images(bucket: str, region: str, key: str | None = None) -> str:
    """VM Import reads an image from the stack's bucket and makes a snapshot of it. ``bucket`` is an ARN.

    ``key`` is that of the key which the snapshot is encrypted with, if it is not AWS's own.
    """
    ec2 = f"arn:{partition_of(region)}:ec2:{region}"
    return _policy(
        _allow(("s3:GetBucketLocation", "s3:ListBucket"), bucket),
        # *: an object is named by the digest of an image that is not made yet.
        _allow("s3:GetObject", f"{bucket}/*"),
        # *: AWS gives a snapshot its id while it imports it.
        _allow(("ec2:ModifySnapshotAttribute", "ec2:CopySnapshot"), f"{ec2}::snapshot/*"),
        # *: and an image its own.
        _allow("ec2:RegisterImage", f"{ec2}::image/*", f"{ec2}::snapshot/*"),
        # *: IAM takes no resource for what only describes.
        _allow(("ec2:DescribeSnapshots", "ec2:DescribeImages"), "*"),
        *(() if key is None else (_allow(_ENCRYPTS, key),)),
    )


def only_encrypted(bucket: str) -> str:
    """Return the policy of a bucket that nobody reads or writes without TLS. ``bucket`` is an ARN."""
    return _policy(
        {
            "Effect": "Deny",
            # *: what is denied is denied to all, of all that is in it.
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [bucket, f"{bucket}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )


def partition_of(region: str) -> str:
    """Return the partition of ARNs: China and the government have their own."""
    if region.startswith("us-gov-"):
        return "aws-us-gov"
    return "aws-cn" if region.startswith("cn-") else "aws"


def _allow(actions: str | Sequence[str], *resources: str) -> Mapping[str, Any]:
    return {
        "Effect": "Allow",
        "Action": [actions] if isinstance(actions, str) else list(actions),
        "Resource": list(resources),
    }


def _policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
