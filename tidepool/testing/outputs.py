"""Made-up outputs of Tidepool's own provider, for programs that run against mocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pulumi.runtime.mocks import MockResourceArgs

#: That of every image.
DIGEST: Final = "d" * 64


def provider_outputs(args: MockResourceArgs) -> Mapping[str, Any]:
    """Return what the provider would give for a resource beside its inputs; nothing for resources of other providers."""
    made: Mapping[str, Mapping[str, Any]] = {
        "tidepool:image:Image": {"digest": DIGEST},
        "tidepool:keys:MungeKey": {"key": "munge-key"},
        "tidepool:keys:SshKey": {"publicKey": "ssh-ed25519 PUBLIC", "privateKey": "PRIVATE"},
        "tidepool:keys:Authority": {
            "certificate": f"CERTIFICATE of {args.name}",
            "key": f"KEY of {args.name}",
        },
        "tidepool:keys:Certificate": {
            "certificate": f"CERTIFICATE of {args.name}",
            "key": f"KEY of {args.name}",
        },
        "tidepool:keys:SigningKey": {"publicKey": "PUBLIC", "privateKey": "PRIVATE"},
        "tidepool:keys:EncryptionKey": {"key": "KEY"},
        "tidepool:kubernetes:Access": {
            "server": "https://10.77.0.6:6443",
            "authorityCertificate": "CERTIFICATE",
        },
        "tidepool:kubernetes:ControlPlane": {"version": "v1.36.3"},
        "tidepool:local:Volume": {"path": f"/volumes/{args.name}"},
        "tidepool:local:Machine": {"connection": connection(args.name, str(args.inputs.get("stack")))},
        "tidepool:slurm:Configuration": {"digest": "of the files"},
    }
    return made.get(args.typ, {})


def connection(machine: str, stack: str = "dev") -> Mapping[str, str]:
    """Return the connection of a machine of this machine."""
    return {"kind": "local", "stack": stack, "machine": machine}
