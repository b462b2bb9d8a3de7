"""tidepool:keys: made of random bits when they are created, and kept in the state alone."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Final

from tidepool.resources.difference import Rules
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Reader

#: As `mungekey` makes them.
_MUNGE_BYTES: Final = 128
#: Of XSalsa20 with Poly1305.
_ENCRYPTION_BYTES: Final = 32


class _KeyKind(Kind[None]):
    """It is asked for nothing; what it makes is never made anew."""

    keys = frozenset()
    rules = Rules()

    def __init__(self, home: Home) -> None:
        return

    def read(self, reader: Reader) -> None:
        return


class MungeKeyKind(_KeyKind):
    """The key of a cluster's daemons."""

    token = "tidepool:keys:MungeKey"  # noqa: S105 - a type of resource
    secrets = frozenset({"key"})

    def create(self, wanted: None, task: Task) -> Made:
        key = secrets.token_bytes(_MUNGE_BYTES)
        return Made(hashlib.sha256(key).hexdigest()[:16], {"key": base64.b64encode(key).decode()})


class SshKeyKind(_KeyKind):
    """An Ed25519 key pair; its id is the fingerprint that ssh shows."""

    token = "tidepool:keys:SshKey"  # noqa: S105 - a type of resource
    secrets = frozenset({"privateKey"})

    def create(self, wanted: None, task: Task) -> Made:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            PublicFormat,
        )

        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        name = task.urn.rpartition("::")[2]
        digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
        fingerprint = "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
        return Made(fingerprint, {"privateKey": private, "publicKey": f"{public} {name}"})


class SigningKeyKind(_KeyKind):
    """A key pair of the curve P-256, by which tokens are signed."""

    token = "tidepool:keys:SigningKey"  # noqa: S105 - a type of resource
    secrets = frozenset({"privateKey"})

    def create(self, wanted: None, task: Task) -> Made:
        from tidepool.provider import x509

        private = x509.new_key()
        public = x509.public_key(private)
        id = hashlib.sha256(public.encode()).hexdigest()[:16]
        return Made(id, {"privateKey": private, "publicKey": public})


class EncryptionKeyKind(_KeyKind):
    """A key by which what is stored is encrypted."""

    token = "tidepool:keys:EncryptionKey"  # noqa: S105 - a type of resource
    secrets = frozenset({"key"})

    def create(self, wanted: None, task: Task) -> Made:
        key = secrets.token_bytes(_ENCRYPTION_BYTES)
        return Made(hashlib.sha256(key).hexdigest()[:16], {"key": base64.b64encode(key).decode()})
