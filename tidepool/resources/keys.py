"""Keys of a stack: made once, kept as secrets in its state."""

from __future__ import annotations

import pulumi
from pulumi import Output


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
