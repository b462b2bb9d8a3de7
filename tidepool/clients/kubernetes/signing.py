"""Requests for certificates, whose kubelet one would be by what it really asks for; and the tokens that kubelets ask with."""

from __future__ import annotations

import base64
import binascii
import secrets
import string
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from tidepool.clients.kubernetes.contract import KUBELET_SIGNER, Invalid
from tidepool.clients.kubernetes.objects import BootstrapToken, SigningRequest
from tidepool.clients.kubernetes.reading import moment

_USER: Final = "system:node:"
_GROUP: Final = "system:nodes"
_LETTERS: Final = string.ascii_lowercase + string.digits
#: As kubelets ask: with an elliptic key, and with an RSA one.
_USAGES: Final = (
    frozenset({"digital signature", "client auth"}),
    frozenset({"digital signature", "key encipherment", "client auth"}),
)


def signing_request(read: Mapping[str, Any]) -> SigningRequest:
    """A CertificateSigningRequest of certificates.k8s.io/v1.

    Raises:
        ValueError: it is not one. What it asks for may be anything.
    """
    try:
        meta, spec = read["metadata"], read["spec"]
        conditions = (read.get("status") or {}).get("conditions") or ()
        said = {condition["type"] for condition in conditions if condition.get("status") != "False"}
        created = moment(meta["creationTimestamp"])
        if created is None:
            raise ValueError("it has no creationTimestamp")
        return SigningRequest(
            name=str(meta["name"]),
            requestor=str(spec.get("username") or ""),
            groups=tuple(map(str, spec.get("groups") or ())),
            signer=str(spec["signerName"]),
            node=_node(spec),
            is_approved="Approved" in said,
            is_denied=bool({"Denied", "Failed"} & said),
            created=created,
        )
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"it is no request for a certificate: {fault!r}") from None


def new_token(node: str, until: datetime, token_id: str = "") -> BootstrapToken:
    """Make a token for the kubelet of a node, of that id or of another one."""
    return BootstrapToken(token_id or _random(6), _random(16), until, node)


def refuse_unless_of(request: SigningRequest, node: str, token_id: str) -> None:
    """Check that a request is what the kubelet of ``node`` asks for with that token, and nothing else.

    Raises:
        Invalid: it is not; says what it is.
    """
    where = f"the request {request.name}"
    if request.signer != KUBELET_SIGNER or not request.node:
        raise Invalid(f"{where} is not for the client certificate of a kubelet: it is not approved")
    if request.node != node:
        raise Invalid(f"{where} is for the node {request.node}, not for {node}: it is not approved")
    if request.requestor != f"system:bootstrap:{token_id}":
        raise Invalid(
            f"{where} was made by {request.requestor}, not with the token {token_id} of {node}: it is not approved"
        )
    if request.is_denied:
        raise Invalid(f"{where} was denied, or could not be signed: it is not approved")


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def _node(spec: Mapping[str, Any]) -> str:
    """The node of whose kubelet the certificate would be; empty for every other one."""
    if spec.get("signerName") != KUBELET_SIGNER or frozenset(spec.get("usages") or ()) not in _USAGES:
        return ""
    # It costs 30 ms to import, and only who looks at requests needs it.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.x509.oid import NameOID

    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"], validate=True))
        parts = [(part.oid, part.value) for part in asked.subject]
        names = [value for oid, value in parts if oid == NameOID.COMMON_NAME]
        groups = [value for oid, value in parts if oid == NameOID.ORGANIZATION_NAME]
        # Extensions of any kind are more than a kubelet asks for; other names than the one are among them.
        extended = len(asked.extensions)
        signed = asked.is_signature_valid
    except (ValueError, binascii.Error, UnsupportedAlgorithm, x509.DuplicateExtension):
        return ""
    if len(parts) != 2 or len(names) != 1 or groups != [_GROUP] or extended or not signed:
        return ""
    name = str(names[0])
    return name.removeprefix(_USER) if name.startswith(_USER) else ""
