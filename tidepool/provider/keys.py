"""tidepool:keys: made of random bits when they are created, and kept in the state alone."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import ClassVar

from tidepool.resources.declarations import (
    EncryptionKey,
    KeyModel,
    KeyPairModel,
    MungeKey,
    SigningKey,
    SshKey,
)
from tidepool.resources.kind import Kind, Made, Task


class _RandomBits(Kind[KeyModel]):
    length: ClassVar[int]

    def create(self, wanted: KeyModel, task: Task) -> Made:
        key = secrets.token_bytes(self.length)
        return Made(hashlib.sha256(key).hexdigest()[:16], {"key": base64.b64encode(key).decode()})


class MungeKeyKind(_RandomBits):
    """The key of a cluster's daemons, as long as `mungekey` makes them."""

    resource = MungeKey
    length = 128


class SshKeyKind(Kind[KeyPairModel]):
    """An Ed25519 key pair; its id is the fingerprint that ssh shows."""

    resource = SshKey

    def create(self, wanted: KeyPairModel, task: Task) -> Made:
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


class SigningKeyKind(Kind[KeyPairModel]):
    """A key pair of the curve P-256, by which tokens are signed."""

    resource = SigningKey

    def create(self, wanted: KeyPairModel, task: Task) -> Made:
        from tidepool.provider.certificates import new_key, public_key

        private = new_key()
        public = public_key(private)
        id = hashlib.sha256(public.encode()).hexdigest()[:16]
        return Made(id, {"privateKey": private, "publicKey": public})


class EncryptionKeyKind(_RandomBits):
    """A key by which what is stored is encrypted, with XSalsa20 and Poly1305."""

    resource = EncryptionKey
    length = 32
