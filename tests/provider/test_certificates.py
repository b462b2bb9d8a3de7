"""Authorities and certificates: what they are good for, what they are not, and that they are renewed in time."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.provider.calls import Calls, plainly
from tidepool.provider import certificates as pki
from tidepool.provider.certificates import AuthorityKind, CertificateKind, Signed, Subject
from tidepool.resources.kind import Home
from tidepool.resources.reading import read
from tidepool.resources.values import UNKNOWN, has_secret

NOW = datetime.now(UTC)
AUTHORITY = pki.authority("of a test", 10, NOW)
OTHER = pki.authority("of a test", 10, NOW)
SERVER = Subject("server", names=("kube",), addresses=("127.0.0.1",), usages=("server",))
CLIENT = Subject("tidepool", organizations=("people", "robots"), usages=("client",))


def shaken(
    server: Signed, client: Signed, trusts: Signed, known_by: Signed, name: str = "kube"
) -> dict[str, Any]:
    """The certificate of the client as the server saw it, after a handshake over a real connection.

    Raises:
        ssl.SSLError: one of them refused the other.
    """
    here, there = socket.socketpair()
    told: list[Any] = []

    def serve() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=known_by.certificate)
        _load(context, server)
        try:
            with context.wrap_socket(there, server_side=True) as stream:
                stream.sendall(b"hello")
                told.append(stream.getpeercert())
        except (ssl.SSLError, ConnectionError) as error:
            there.close()
            told.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        context = ssl.create_default_context(cadata=trusts.certificate)
        _load(context, client)
        with context.wrap_socket(here, server_hostname=name) as stream:
            stream.recv(5)
    finally:
        here.close()
        thread.join(10)
    (seen,) = told
    if isinstance(seen, BaseException):
        raise seen
    found: dict[str, Any] = seen
    return found


def _load(context: ssl.SSLContext, pair: Signed) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile("w") as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)


def test_a_server_and_a_client_know_each_other_by_their_authority() -> None:
    server, client = (pki.signed(who, AUTHORITY, 5, NOW) for who in (SERVER, CLIENT))
    for name in ("kube", "127.0.0.1"):
        seen = shaken(server, client, AUTHORITY, AUTHORITY, name)
    subject = [pair for part in seen["subject"] for pair in part]
    # As the API server reads it: who, and in which groups.
    assert subject == [
        ("organizationName", "people"),
        ("organizationName", "robots"),
        ("commonName", "tidepool"),
    ]


def test_a_certificate_of_one_authority_is_refused_by_another_of_the_same_name() -> None:
    server, client = (pki.signed(who, AUTHORITY, 5, NOW) for who in (SERVER, CLIENT))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server, client, OTHER, AUTHORITY)
    with pytest.raises(ssl.SSLError):
        shaken(server, client, AUTHORITY, OTHER)


def test_a_certificate_is_good_for_its_names_and_its_usage_alone() -> None:
    server, client = (pki.signed(who, AUTHORITY, 5, NOW) for who in (SERVER, CLIENT))
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shaken(server, client, AUTHORITY, AUTHORITY, "another")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shaken(client, server, AUTHORITY, AUTHORITY)


def test_one_that_has_ended_is_refused() -> None:
    long_ago = NOW - timedelta(days=8)
    server, client = (
        pki.signed(SERVER, AUTHORITY, 5, long_ago),
        pki.signed(CLIENT, AUTHORITY, 5, NOW),
    )
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shaken(server, client, AUTHORITY, AUTHORITY)


def test_what_an_authority_signed_is_good_with_its_renewed_certificate_too() -> None:
    renewed = pki.authority("of a test", 20, NOW, AUTHORITY.key)
    assert renewed.certificate != AUTHORITY.certificate
    server, client = (
        pki.signed(SERVER, AUTHORITY, 5, NOW),
        pki.signed(CLIENT, renewed, 5, NOW),
    )
    assert shaken(server, client, renewed, AUTHORITY)


@given(days=st.integers(1, 4000), authority_days=st.integers(1, 4000))
def test_nothing_outlives_its_authority_and_all_is_due_in_its_last_third(
    days: int, authority_days: int
) -> None:
    authority = pki.authority("it", authority_days, NOW)
    made = pki.signed(CLIENT, authority, days, NOW).certificate
    end = pki.ends(made)
    assert end <= pki.ends(authority.certificate)
    lasts = end - NOW
    assert not pki.is_due(made, NOW + lasts * 0.6)
    assert pki.is_due(made, NOW + lasts * 0.7)
    assert pki.is_due(made, end + timedelta(days=1))


@pytest.mark.parametrize(
    "pair", [Signed("", ""), Signed(AUTHORITY.certificate, OTHER.key), Signed(AUTHORITY.key, "x")]
)
def test_what_is_no_authority_signs_nothing(pair: Signed) -> None:
    with pytest.raises(pki.BadPair):
        pki.signed(CLIENT, pair, 1, NOW)
    leaf = pki.signed(CLIENT, AUTHORITY, 1, NOW)
    with pytest.raises(pki.BadPair, match="not an authority's"):
        pki.signed(CLIENT, leaf, 1, NOW)


# As resources


@pytest.fixture
def authorities(tmp_path: Path) -> Calls:
    return Calls(tmp_path, AuthorityKind.resource.token)


@pytest.fixture
def certificates(tmp_path: Path) -> Calls:
    return Calls(tmp_path, CertificateKind.resource.token)


def wanted(**changes: Any) -> dict[str, Any]:
    return {
        "authorityCertificate": AUTHORITY.certificate,
        "authorityKey": AUTHORITY.key,
        "commonName": "tidepool",
        "organizations": ["people"],
        "names": [],
        "addresses": [],
        "usages": ["client"],
        "days": 5.0,
        "state": "valid",
        **changes,
    }


def test_keys_are_secret_and_certificates_are_not(authorities: Calls, certificates: Calls) -> None:
    inputs = authorities.checked({"commonName": "it", "days": 100.0})
    made = authorities.create(inputs).properties
    assert has_secret(made["key"])
    assert not has_secret(made["certificate"])
    told = plainly(made)
    signed = certificates.create(
        wanted(authorityCertificate=told["certificate"], authorityKey=told["key"])
    ).properties
    assert has_secret(signed["key"])
    lasts = datetime.fromisoformat(plainly(signed)["ends"]) - datetime.now(UTC)
    assert timedelta(days=5) - timedelta(minutes=10) < lasts < timedelta(days=5)


def test_mistakes_of_a_certificate_are_told_by_property(certificates: Calls) -> None:
    assert certificates.failures(wanted()) == {}
    wrong = wanted(addresses=["10.0.0"], names=["é"], usages=[], authorityKey=OTHER.key)
    assert certificates.failures(wrong) == {
        "addresses[0]": "it is '10.0.0'; an IP address is wanted",
        "names[0]": "it is 'é'; a host name is wanted",
        "usages": "there are none; allowed are server, client",
        "authorityCertificate": "the key is not that of the certificate",
    }
    assert set(certificates.failures(wanted(usages=["moon"], days=0.0))) == {"usages[0]", "days"}
    assert set(certificates.failures(wanted(usages=[], commonName="x" * 65))) == {"usages", "commonName"}


def test_a_change_is_another_certificate_and_a_preview_knows_that_it_knows_it_not(
    certificates: Calls,
) -> None:
    made = certificates.create(wanted()).properties
    new = wanted(names=["kube"])
    assert certificates.diff(made, new).diffs == ["names"]
    previewed = plainly(certificates.update("id", made, new, preview=True).properties)
    assert previewed["certificate"] is UNKNOWN
    assert previewed["key"] is UNKNOWN
    changed = certificates.update("id", made, new).properties
    assert has_secret(changed["key"])
    assert plainly(changed)["key"] != plainly(made)["key"]


def test_one_that_comes_near_its_end_is_drift_and_an_update_renews_it(tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path)
    task: Any = None
    began = [NOW]
    kinds: list[Any] = [AuthorityKind(home, lambda: began[0]), CertificateKind(home, lambda: began[0])]
    inputs: list[dict[str, Any]] = [{"commonName": "it", "days": 10.0, "state": "valid"}, wanted(days=3.0)]
    for kind, given_ in zip(kinds, inputs, strict=True):
        began[0] = NOW
        made = given_ | dict(kind.create(read(kind.resource.model, given_).value, task).outputs)
        state = read(kind.resource.model, made).value
        assert kind.look("id", state) == {}
        assert kind.diff(made, given_) == ()
        began[0] = NOW + timedelta(days=given_["days"] * 0.7)
        assert kind.look("id", state) == {"state": f"ends {pki.ends(made['certificate']):%Y-%m-%d}"}
        (change,) = kind.diff(made, given_)
        assert (change.key, change.replaces) == ("state", False)
        renewed = made | dict(kind.update("id", state, read(kind.resource.model, given_).value, task))
        assert kind.look("id", read(kind.resource.model, renewed).value) == {}
        assert pki.ends(renewed["certificate"]) > pki.ends(made["certificate"])
        # An authority's key stays: what it signed goes on being good.
        assert (renewed["key"] == made["key"]) == (kind is kinds[0])


def test_keys_of_accounts_and_of_what_is_stored(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    made = Calls(tmp_path, "tidepool:keys:SigningKey").create({}).properties
    told = plainly(made)
    assert has_secret(made["privateKey"])
    private = load_pem_private_key(told["privateKey"].encode(), None)
    assert private.public_key() == load_pem_public_key(told["publicKey"].encode())
    import base64

    stored = Calls(tmp_path, "tidepool:keys:EncryptionKey").create({}).properties
    assert has_secret(stored["key"])
    assert len(base64.b64decode(plainly(stored)["key"])) == 32
