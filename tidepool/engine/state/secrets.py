"""Encryption of a stack's secrets by a passphrase, as Pulumi's passphrase secrets provider does it.

The state of the provider is a text, the *encryption salt*: ``v1:<salt>:v1:<nonce>:<check>``. The key is
PBKDF2-SHA256 of passphrase and salt; the check is the word "pulumi", encrypted, so that a wrong passphrase
can be told. A ciphertext is ``v1:<nonce>:<data>``, AES-256-GCM; all parts but ``v1`` are base64. Source:
``pkg/secrets/passphrase/manager.go`` and ``sdk/go/common/resource/config/crypt.go``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidepool.engine.errors import INCORRECT_PASSPHRASE, EngineError, NotSupportedError
from tidepool.engine.resource import SecretsProvider

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PROVIDER_TYPE: Final = "passphrase"
_ITERATIONS: Final = 1_000_000
_CHECK: Final = "pulumi"
_WHERE_FROM: Final = "PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE"


class SecretsError(EngineError):
    """Secrets cannot be encrypted or decrypted."""


class IncorrectPassphrase(SecretsError):
    """The passphrase is not the one that the stack's secrets were encrypted with."""

    def __init__(self) -> None:
        super().__init__(
            f"{INCORRECT_PASSPHRASE}: set PULUMI_CONFIG_PASSPHRASE to the correct passphrase, or "
            "PULUMI_CONFIG_PASSPHRASE_FILE to a file that contains it"
        )


class PassphraseCrypter:
    """Encrypts and decrypts with a key derived from a passphrase.

    Deriving the key takes some 0.3 s of one core, so it happens on the first need, once, and
    :meth:`warm` starts it on a thread of its own. May be used from several threads.
    """

    def __init__(self, passphrase: str, encryption_salt: str) -> None:
        """Take the passphrase of a stack whose encryption salt is known.

        Does not derive the key: a wrong passphrase is told by :meth:`verify` and by the first use.

        Raises:
            SecretsError: when the encryption salt is malformed.
        """
        self.encryption_salt = encryption_salt
        self._passphrase = passphrase
        self._salt, self._check = _split_verifier(encryption_salt)
        self._lock = threading.Lock()
        self._cipher: AESGCM | None = None
        self._wrong = False
        self._memory = _CiphertextMemory()

    @classmethod
    def new(cls, passphrase: str) -> PassphraseCrypter:
        """A crypter with a salt of its own, for a stack that has none yet. Derives the key at once."""
        salt = os.urandom(8)
        cipher = _derive(passphrase, salt)
        crypter = cls(passphrase, f"v1:{_b64(salt)}:{_seal(cipher, _CHECK)}")
        crypter._cipher = cipher
        return crypter

    @property
    def provider(self) -> SecretsProvider:
        return SecretsProvider(PROVIDER_TYPE, {"salt": self.encryption_salt})

    def __repr__(self) -> str:
        return "PassphraseCrypter(passphrase=[secret])"

    def warm(self) -> threading.Thread:
        """Derive the key on a thread of its own, so that it is there when it is needed.

        A wrong passphrase is not reported there, but by the next call of any other method.
        """
        thread = threading.Thread(target=self._derive_quietly, name="derive-key", daemon=True)
        thread.start()
        return thread

    def verify(self) -> None:
        """Derive the key and check the passphrase; waits for :meth:`warm` where it runs.

        Raises:
            IncorrectPassphrase: when it is wrong.
        """
        self._ready()

    def begin_pass(self) -> None:
        """From here on :meth:`encrypt` gives known plaintexts their known ciphertexts again, in order."""
        self._memory.rewind()

    def encrypt(self, plaintext: str) -> str:
        """The ciphertext of ``plaintext``: one that was decrypted before where there is one left.

        So a secret that did not change keeps its ciphertext, and two secrets that happen to be equal do
        not come to share one, which would tell that they are equal.

        Raises:
            IncorrectPassphrase: when the passphrase is wrong.
        """
        known = self._memory.take(plaintext)
        if known is not None:
            return known
        ciphertext = _seal(self._ready(), plaintext)
        self._memory.add_used(plaintext, ciphertext)
        return ciphertext

    def decrypt(self, ciphertext: str) -> str:
        """The plaintext of ``ciphertext``.

        Raises:
            IncorrectPassphrase: when the passphrase is wrong.
            SecretsError: when the ciphertext was not made with this key, or is damaged.
        """
        known = self._memory.plaintext_of(ciphertext)
        if known is not None:
            return known
        cipher = self._ready()
        try:
            plaintext = _unseal(cipher, ciphertext)
        except ValueError as error:
            raise SecretsError(
                f"a secret cannot be decrypted: {error}. The passphrase is right for the stack's salt, so "
                "the ciphertext is damaged or was encrypted with another salt"
            ) from None
        self._memory.add(plaintext, ciphertext)
        return plaintext

    def _derive_quietly(self) -> None:
        try:
            self._ready()
        except IncorrectPassphrase:
            pass  # remembered; whoever needs the key is told

    def _ready(self) -> AESGCM:
        with self._lock:
            if self._wrong:
                raise IncorrectPassphrase
            if self._cipher is None:
                cipher = _derive(self._passphrase, self._salt)
                try:
                    right = _unseal(cipher, self._check) == _CHECK
                except ValueError:
                    right = False
                if not right:
                    self._wrong = True
                    raise IncorrectPassphrase
                self._cipher = cipher
                self._passphrase = ""  # not needed any more
            return self._cipher


class NoSecrets:
    """A crypter for where there is no key: it refuses both directions with ``reason``."""

    def __init__(self, reason: str = "") -> None:
        self._reason = reason or f"passphrase must be set with {_WHERE_FROM} environment variables"

    def encrypt(self, _plaintext: str, /) -> str:
        raise SecretsError(f"failed to encrypt: {self._reason}")

    def decrypt(self, _ciphertext: str, /) -> str:
        raise SecretsError(f"failed to decrypt: {self._reason}")


class Blind:
    """A crypter for showing a stack without its key: every secret reads as the text "[secret]".

    A snapshot read with it must not be saved, and cannot be: it refuses to encrypt.
    """

    def encrypt(self, _plaintext: str, /) -> str:
        raise SecretsError("failed to encrypt: the stack was opened without its passphrase")

    def decrypt(self, _ciphertext: str, /) -> str:
        """A JSON text that says that there is a secret."""
        return '"[secret]"'


def read_passphrase(env: Mapping[str, str], cwd: Path) -> str:
    """The passphrase that the environment names. An empty one counts, as for the CLI.

    Raises:
        SecretsError: when there is none, or its file cannot be read.
    """
    if "PULUMI_CONFIG_PASSPHRASE" in env:
        return env["PULUMI_CONFIG_PASSPHRASE"]
    file = env.get("PULUMI_CONFIG_PASSPHRASE_FILE")
    if not file:
        raise SecretsError(f"passphrase must be set with {_WHERE_FROM} environment variables")
    try:
        return (cwd / file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretsError(f"unable to read PULUMI_CONFIG_PASSPHRASE_FILE ({cwd / file}): {error}") from error


def verify_provider(provider: SecretsProvider) -> None:
    """Refuse, by name, every secrets provider but the passphrase.

    Raises:
        NotSupportedError: when ``provider`` is another one.
    """
    if provider.type == PROVIDER_TYPE:
        return
    url = provider.state.get("url")
    scheme = url.split("://", 1)[0] if isinstance(url, str) and "://" in url else ""
    names = {
        "service": "the Pulumi Cloud secrets provider",
        "cloud": "a cloud key service as secrets provider",
    }
    name = names.get(provider.type, f"the secrets provider {provider.type!r}")
    raise NotSupportedError(f"{name} ({scheme})" if scheme else name)


class _CiphertextMemory:
    """The ciphertexts of each plaintext, in the order of their reading, and how many were given out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ciphertexts: dict[str, list[str]] = {}
        self._plaintexts: dict[str, str] = {}
        self._given: dict[str, int] = {}

    def rewind(self) -> None:
        with self._lock:
            self._given.clear()

    def take(self, plaintext: str) -> str | None:
        with self._lock:
            given = self._given.get(plaintext, 0)
            known = self._ciphertexts.get(plaintext, ())
            if given >= len(known):
                return None
            self._given[plaintext] = given + 1
            return known[given]

    def add(self, plaintext: str, ciphertext: str) -> None:
        with self._lock:
            if ciphertext not in self._plaintexts:
                self._plaintexts[ciphertext] = plaintext
                self._ciphertexts.setdefault(plaintext, []).append(ciphertext)

    def add_used(self, plaintext: str, ciphertext: str) -> None:
        with self._lock:
            known = self._ciphertexts.setdefault(plaintext, [])
            known.append(ciphertext)
            self._plaintexts[ciphertext] = plaintext
            self._given[plaintext] = len(known)

    def plaintext_of(self, ciphertext: str) -> str | None:
        with self._lock:
            return self._plaintexts.get(ciphertext)


#: Keys by the hash of passphrase and salt, the newest last: deriving is slow on purpose, and one process may open a
#: stack often. Kept in memory alone.
_KEYS: Final[dict[str, bytes]] = {}
_MOST_KEYS: Final = 8


def keys() -> dict[str, str]:
    """The keys that were derived, for `remember_keys` of a process that is to know them, too."""
    return {name: _b64(key) for name, key in _KEYS.items()}


def remember_keys(keys: Mapping[str, str]) -> None:
    """Know the keys that another process derived."""
    for name, key in keys.items():
        remember(name, base64.b64decode(key))


def remember(name: str, key: bytes) -> None:
    """Know a key that was derived, by the hash of passphrase and salt."""
    _KEYS.pop(name, None)
    _KEYS[name] = key
    while len(_KEYS) > _MOST_KEYS:
        _KEYS.pop(next(iter(_KEYS)), None)


def _derive(passphrase: str, salt: bytes) -> AESGCM:
    # Here, because the import takes longer than everything else that an idle `up` without secrets does.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    secret = passphrase.encode("utf-8", "surrogateescape")
    name = hashlib.sha256(len(salt).to_bytes(4) + salt + secret).hexdigest()
    key = _KEYS.get(name)
    if key is None:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

        # Not hashlib: its OpenSSL may be an older one, which takes near to three times as long.
        key = PBKDF2HMAC(SHA256(), 32, salt, _ITERATIONS).derive(secret)
        remember(name, key)
    return AESGCM(key)


def _seal(cipher: AESGCM, plaintext: str) -> str:
    nonce = os.urandom(12)
    return f"v1:{_b64(nonce)}:{_b64(cipher.encrypt(nonce, plaintext.encode('utf-8'), None))}"


def _unseal(cipher: AESGCM, ciphertext: str) -> str:
    """Raises ValueError with what is wrong."""
    from cryptography.exceptions import InvalidTag  # loaded with the cipher already

    parts = ciphertext.split(":")
    if len(parts) != 3:
        raise ValueError("bad value")
    if parts[0] != "v1":
        raise ValueError("unknown value version")
    try:
        nonce, sealed = (base64.b64decode(part, validate=True) for part in parts[1:])
    except binascii.Error:
        raise ValueError("bad value: not base64") from None
    if len(nonce) != 12:
        raise ValueError("bad value: nonce size is incorrect")
    try:
        return cipher.decrypt(nonce, sealed, None).decode("utf-8")
    except InvalidTag:
        raise ValueError("message authentication failed") from None


def _split_verifier(encryption_salt: str) -> tuple[bytes, str]:
    parts = encryption_salt.split(":", 2)
    if len(parts) != 3:
        raise SecretsError("malformed encryption salt: expected v1:SALT:v1:NONCE:CHECK")
    if parts[0] != "v1":
        raise SecretsError(f"the encryption salt has the unknown version {parts[0]!r}; this engine knows v1")
    try:
        return base64.b64decode(parts[1], validate=True), parts[2]
    except binascii.Error as error:
        raise SecretsError("malformed encryption salt: the salt is not base64") from error


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
