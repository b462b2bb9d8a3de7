"""The roles of one run at AWS, as resources of a program: who drives or serves the run takes them on, in place of an administrator's.

They are no part of the run's stack, and have not its tag: so neither role reaches either of them, and who made them takes them away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pulumi import ResourceOptions
from pulumi_aws import iam

from tidepool.infrastructures.aws.access import policy
from tidepool.infrastructures.aws.names import LONGEST_NAME, named
from tidepool.infrastructures.aws.run_access import ends_stack, writes_outputs

_PRINCIPAL: Final = re.compile(r"arn:aws(-cn|-us-gov)?:iam::\d{12}:(role|user)/[\w+=,.@/-]+", re.ASCII)
#: Seconds that one session lasts, at most: as long as a `down` may well take.
_SESSION_S: Final = 3600


@dataclass(frozen=True, slots=True)
class RunRoles:
    """``ends`` takes the run's stack down and does nothing else; ``writes`` writes its outputs, each once, and reads nothing."""

    ends: iam.Role
    writes: iam.Role


def run_roles(
    run: str,
    *,
    trusted: str,
    region: str,
    account: str,
    images: str,
    bucket: str,
    folder: str = "",
    opts: ResourceOptions | None = None,
) -> RunRoles:
    """Make both roles of a run, and let ``trusted`` take them on, and nobody else.

    Args:
        run: its name, as of `tidepool run --name`.
        trusted: ARN of one role or user, such as a pipeline's or that of the service of runs.
        region: the stack's.
        account: the stack's, 12 digits.
        images: ARN of the stack's bucket of images.
        bucket: ARN of the results' bucket.
        folder: within it, which ends in ``/``; or empty.
        opts: of both.

    Raises:
        ValueError: ``trusted`` is no single role or user, or a role's name would be too long.
    """
    if not _PRINCIPAL.fullmatch(trusted):
        raise ValueError(
            f"trusted = {trusted!r}: write the ARN of one role or user, arn:aws:iam::ACCOUNT:role/NAME"
        )
    policies = {
        "ends": ends_stack(run, region, account, images),
        "writes": writes_outputs(bucket, folder, run),
    }
    if too_long := [name for name in policies if len(named(run, name)) > LONGEST_NAME]:
        raise ValueError(
            f"run = {run!r}: the role {named(run, too_long[0])} has more than {LONGEST_NAME} characters"
        )
    trust = policy({"Effect": "Allow", "Action": ["sts:AssumeRole"], "Principal": {"AWS": trusted}})
    roles = {name: _role(run, name, document, trust, opts) for name, document in policies.items()}
    return RunRoles(**roles)


def _role(run: str, name: str, document: str, trust: str, opts: ResourceOptions | None) -> iam.Role:
    role = iam.Role(
        f"{run}-{name}",
        name=named(run, name),
        assume_role_policy=trust,
        max_session_duration=_SESSION_S,
        tags={"tidepool:run": run},
        opts=opts,
    )
    iam.RolePolicy(f"{run}-{name}", role=role.id, policy=document, opts=opts)
    return role
