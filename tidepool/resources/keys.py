"""Keys of a stack: made once, kept as secrets in its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tidepool.resources.model import Field, Model, Resource, condition, given, output


class KeyModel(Model):
    """Properties of a `MungeKey` and an `EncryptionKey`."""

    #: Random bits, in base64.
    key: Field[str] = output(secret=True)


class KeyPairModel(Model):
    """Properties of an `SshKey` and a `SigningKey`."""

    private_key: Field[str] = output(secret=True)
    public_key: Field[str] = output()


class MungeKey(Resource, KeyModel, token="tidepool:keys:MungeKey"):
    """The key, of 1,024 bits, by which the daemons of one cluster, and of no other, know each other."""


class SshKey(Resource, KeyPairModel, token="tidepool:keys:SshKey"):
    """An Ed25519 key pair of SSH: in OpenSSH's form, and one line as in authorized_keys."""


class SigningKey(Resource, KeyPairModel, token="tidepool:keys:SigningKey"):
    """A key pair of the curve P-256, in PEM, by which tokens are signed: those of Kubernetes' service accounts."""


class EncryptionKey(Resource, KeyModel, token="tidepool:keys:EncryptionKey"):
    """A key, of 32 bytes, by which what is stored is encrypted."""


class AuthorityModel(Model):
    """Properties of an `Authority`."""

    common_name: Field[str] = given(replaces=True)
    days: Field[int] = given(default=3650, stored=True, least=1)
    #: Whether it comes near its end.
    state: Field[str] = condition("valid")
    #: PEM, for all who are to trust what it signs.
    certificate: Field[str] = output(remade=True)
    #: PEM.
    key: Field[str] = output(secret=True)
    #: When the certificate ends: ISO 8601, UTC.
    ends: Field[str] = output(remade=True)


class Authority(Resource, AuthorityModel, token="tidepool:keys:Authority", delete_first=False):
    """An authority that signs certificates. In the last third of its ``days`` an `up` renews its certificate; its key stays."""


class CertificateModel(Model):
    """Properties of a `Certificate`."""

    authority_certificate: Field[str] = given()
    authority_key: Field[str] = given(secret=True)
    common_name: Field[str] = given()
    organizations: Field[Sequence[str]] = given(default=(), stored=True)
    names: Field[Sequence[str]] = given(default=(), stored=True)
    addresses: Field[Sequence[str]] = given(default=(), stored=True)
    usages: Field[Sequence[Literal["server", "client"]]] = given()
    days: Field[int] = given(default=365, stored=True, least=1)
    #: Whether it comes near its end.
    state: Field[str] = condition("valid")
    #: PEM.
    certificate: Field[str] = output(remade=True)
    #: PEM.
    key: Field[str] = output(secret=True, remade=True)
    #: When it ends: ISO 8601, UTC.
    ends: Field[str] = output(remade=True)


class Certificate(Resource, CertificateModel, token="tidepool:keys:Certificate"):
    """A certificate that an authority signed, and its key. In the last third of its ``days`` an `up` makes another.

    ``names`` and ``addresses`` are a server's host names and IP addresses; ``usages`` says whether it is a server's, a
    client's, or both.
    """
