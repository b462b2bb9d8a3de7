"""Keys of a stack: made once, kept as secrets in its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pulumi
from pulumi import Input, Output


class MungeKey(pulumi.CustomResource):
    """The key by which the daemons of one cluster, and of no other, know each other."""

    #: 1,024 random bits, in base64. Secret.
    key: Output[str]

    def __init__(self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tidepool:keys:MungeKey", resource_name, {"key": None}, opts)


class SshKey(pulumi.CustomResource):
    """An Ed25519 key pair of SSH."""

    #: In OpenSSH's form. Secret.
    privateKey: Output[str]  # noqa: N815 (the name in the state)
    #: One line, as in authorized_keys.
    publicKey: Output[str]  # noqa: N815 (the name in the state)

    def __init__(self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"privateKey": None, "publicKey": None}
        super().__init__("tidepool:keys:SshKey", resource_name, inputs, opts)


class SigningKey(pulumi.CustomResource):
    """A key pair of the curve P-256 by which tokens are signed: those of Kubernetes' service accounts."""

    #: PEM. Secret.
    privateKey: Output[str]  # noqa: N815 (the name in the state)
    #: PEM.
    publicKey: Output[str]  # noqa: N815 (the name in the state)

    def __init__(self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"privateKey": None, "publicKey": None}
        super().__init__("tidepool:keys:SigningKey", resource_name, inputs, opts)


class EncryptionKey(pulumi.CustomResource):
    """A key by which what is stored is encrypted."""

    #: 32 random bytes, in base64. Secret.
    key: Output[str]

    def __init__(self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tidepool:keys:EncryptionKey", resource_name, {"key": None}, opts)


class Authority(pulumi.CustomResource):
    """Who signs certificates. In the last third of its ``days`` an `up` renews its certificate; its key stays."""

    #: PEM, for all who are to trust what it signs.
    certificate: Output[str]
    #: PEM. Secret.
    key: Output[str]
    #: When the certificate ends: ISO 8601, UTC.
    ends: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        common_name: Input[str],
        days: Input[int] = 3650,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"commonName": common_name, "days": days, "certificate": None, "key": None, "ends": None}
        super().__init__("tidepool:keys:Authority", resource_name, inputs, opts)


class Certificate(pulumi.CustomResource):
    """A certificate that an authority signed, and its key. In the last third of its ``days`` an `up` makes another.

    ``names`` and ``addresses`` are a server's host names and IP addresses; ``usages`` says whether it is a server's, a
    client's, or both.
    """

    #: PEM.
    certificate: Output[str]
    #: PEM. Secret.
    key: Output[str]
    #: When it ends: ISO 8601, UTC.
    ends: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        authority: Authority,
        common_name: Input[str],
        usages: Input[Sequence[Literal["server", "client"]]],
        organizations: Input[Sequence[str]] = (),
        names: Input[Sequence[str]] = (),
        addresses: Input[Sequence[str]] = (),
        days: Input[int] = 365,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        key: Output[str] = Output.secret(authority.key)
        inputs = {
            "authorityCertificate": authority.certificate,
            "authorityKey": key,
            "commonName": common_name,
            "organizations": organizations,
            "names": names,
            "addresses": addresses,
            "usages": usages,
            "days": days,
            "certificate": None,
            "key": None,
            "ends": None,
        }
        super().__init__("tidepool:keys:Certificate", resource_name, inputs, opts)
