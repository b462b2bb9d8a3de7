from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.engine.state import recordings
from tidepool.engine.errors import INCORRECT_PASSPHRASE, NotSupportedError
from tidepool.engine.resource import SecretsProvider
from tidepool.engine.state import secrets
from tidepool.engine.state.secrets import (
    IncorrectPassphrase,
    PassphraseCrypter,
    SecretsError,
    read_passphrase,
    verify_provider,
)


def test_a_new_salt_opens_what_it_encrypted() -> None:
    crypter = PassphraseCrypter.new("p<ä>")
    ciphertext = crypter.encrypt("ünï")
    again = PassphraseCrypter("p<ä>", crypter.encryption_salt)
    assert again.decrypt(ciphertext) == "ünï"
    assert crypter.provider == SecretsProvider("passphrase", {"salt": crypter.encryption_salt})
    again.verify()


def test_a_wrong_passphrase_is_told_each_time_and_not_shown(salts: dict[str, str]) -> None:
    crypter = PassphraseCrypter("battery staple", salts["whole"])
    crypter.warm().join()
    for attempt in (crypter.verify, lambda: crypter.encrypt("x"), lambda: crypter.decrypt("v1:a:b")):
        with pytest.raises(IncorrectPassphrase, match=INCORRECT_PASSPHRASE) as caught:
            attempt()
        assert "PULUMI_CONFIG_PASSPHRASE_FILE" in str(caught.value)
        assert "battery" not in f"{caught.value}{crypter!r}"


def test_the_key_is_derived_once_however_many_need_it(
    salts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[str] = []
    real = secrets._derive

    def counted(passphrase: str, salt: bytes) -> object:
        derived.append(threading.current_thread().name)
        return real(passphrase, salt)

    monkeypatch.setattr(secrets, "_derive", counted)
    crypter = PassphraseCrypter(recordings.PASSPHRASE, salts["whole"])
    assert derived == []
    warming = crypter.warm()
    crypter.verify()
    warming.join()
    crypter.encrypt("x")
    assert len(derived) == 1


@pytest.mark.parametrize(
    ("ciphertext", "message"),
    [
        ("nonsense", "bad value"),
        ("v2:a:b", "unknown value version"),
        ("v1:a:b", "not base64"),
        ("v1:AAAA:AAAA", "nonce size"),
        ("v1:AAAAAAAAAAAAAAAA:AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "authentication failed"),
    ],
)
def test_a_damaged_ciphertext_is_told(
    crypters: dict[str, PassphraseCrypter], ciphertext: str, message: str
) -> None:
    with pytest.raises(SecretsError, match=message):
        crypters["whole"].decrypt(ciphertext)


@pytest.mark.parametrize("salt", ["", "v1:AAAA", "v2:AAAA:v1:a:b", "v1:?:v1:a:b"])
def test_a_malformed_salt_is_refused(salt: str) -> None:
    with pytest.raises(SecretsError, match="salt"):
        PassphraseCrypter("p", salt)


def test_the_passphrase_comes_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "phrase").write_text("  from a file\n", encoding="utf-8")
    file = {"PULUMI_CONFIG_PASSPHRASE_FILE": "phrase"}
    assert read_passphrase(file, tmp_path) == "from a file"
    assert read_passphrase(file | {"PULUMI_CONFIG_PASSPHRASE": ""}, tmp_path) == ""
    with pytest.raises(SecretsError, match="must be set with PULUMI_CONFIG_PASSPHRASE or"):
        read_passphrase({}, tmp_path)
    with pytest.raises(SecretsError, match="unable to read PULUMI_CONFIG_PASSPHRASE_FILE"):
        read_passphrase({"PULUMI_CONFIG_PASSPHRASE_FILE": "none"}, tmp_path)


def test_other_secrets_providers_are_refused_by_name(tmp_path: Path) -> None:
    for provider, name in (
        (SecretsProvider("service", {"url": "https://api.pulumi.com"}), "Pulumi Cloud"),
        (SecretsProvider("cloud", {"url": "awskms://alias/x"}), "awskms"),
        (SecretsProvider("b64", {}), "'b64'"),
    ):
        with pytest.raises(NotSupportedError, match=name):
            verify_provider(provider)
