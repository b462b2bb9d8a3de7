"""A slurmdbd that several clusters share: the key of it, the machines that boot with it, and who shares it and who uses it."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.cluster.accounting import ACCOUNTING_KEY_NAME
from tidepool.cluster.spec import ClusterSpec
from tidepool.components.boots import Keys

#: As munged wants it (munge.key(5)), in bytes.
_SHORTEST_KEY: Final = 32


@dataclass(frozen=True, slots=True)
class SharedKey:
    """The munge key, in base64, of a slurmdbd that clusters share; None where the cluster shares none.

    ``trigger`` is another one where the cluster's own machines have to boot with another key, or begin to have one.
    """

    key: Input[str] | None
    trigger: str


def shared_key(spec: ClusterSpec, given: str | None, opts: pulumi.ResourceOptions) -> SharedKey:
    """Return the key that a person gave, where slurmdbd is another cluster's; else register one, where others use it.

    Raises:
        pulumi.RunError: it is missing, or no key.
    """
    accounting = spec.controller.accounting
    if accounting is None or not accounting.is_shared:
        return SharedKey(None, "own")
    if accounting.host is None:
        return SharedKey(
            Output.secret(resources.MungeKey(f"{spec.name}-accounting", opts=opts).key), "shared"
        )
    said = f"controller.accounting.host = {accounting.host}: the key of the slurmdbd there"
    remedy = (
        f"give it the output {ACCOUNTING_KEY_NAME} of the stack that it is of: `pulumi config set --secret "
        f"cluster:{ACCOUNTING_KEY_NAME}`"
    )
    if given is None:
        raise pulumi.RunError(f"{said} is missing; {remedy}")
    try:
        key = base64.b64decode(given, validate=True)
    except binascii.Error:
        key = b""
    if len(key) < _SHORTEST_KEY:
        raise pulumi.RunError(f"{said} is none, which is {_SHORTEST_KEY} bytes in base64 at least; {remedy}")
    return SharedKey(Output.secret(given), hashlib.sha256(key).hexdigest()[:16])


def database_client(
    name: str,
    spec: ClusterSpec,
    controller: Output[Mapping[str, Any]],
    key: str | None,
    opts: pulumi.ResourceOptions,
) -> pulumi.Resource | None:
    """Register the use of another cluster's slurmdbd; None where it is not another's."""
    accounting = spec.controller.accounting
    if accounting is None or accounting.host is None:
        return None
    return resources.DatabaseClient(
        name,
        controller=controller,
        cluster=spec.name,
        network=str(spec.network),
        host=str(accounting.host),
        port=accounting.port,
        key=key,
        qos=[each.name for each in spec.qos] or None,
        opts=opts,
    )


def database_server(
    name: str, spec: ClusterSpec, server: Output[Mapping[str, Any]], opts: pulumi.ResourceOptions
) -> None:
    """Register that others use this cluster's slurmdbd."""
    resources.DatabaseServer(name, server=server, cluster=spec.name, shared_with=_networks(spec), opts=opts)


def sharing_outputs(
    spec: ClusterSpec, keys: Keys, server: Output[Mapping[str, Any]] | None
) -> Mapping[str, Any]:
    """Return the outputs of a stack whose slurmdbd others use: its key, who they are, and how its machine is reached."""
    if server is None or not _networks(spec):
        return {}
    return {
        ACCOUNTING_KEY_NAME: keys.accounting,
        "accounting": {"server": server, "sharedWith": _networks(spec)},
    }


def _networks(spec: ClusterSpec) -> Mapping[str, str]:
    accounting = spec.controller.own_accounting
    return {} if accounting is None else {each.cluster: str(each.network) for each in accounting.shared_with}
