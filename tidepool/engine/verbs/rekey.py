"""``stack change-secrets-provider``: all secrets of a stack, encrypted anew with a new passphrase."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from tidepool.engine.arguments import World
from tidepool.engine.config import is_secure, reencrypted
from tidepool.engine.state.secrets import PassphraseCrypter
from tidepool.engine.verbs.state import with_ciphertext, with_plaintext
from tidepool.engine.verbs.workspace import (
    open_passphrase,
    open_stack,
    passphrase_verifier,
    verify_secrets_provider,
)


@dataclass(frozen=True, slots=True)
class ChangeSecretsProvider:
    """``stack change-secrets-provider``."""

    provider: str
    stack: str = ""

    def run(self, world: World) -> int:
        """Encrypt configuration and state with the passphrase that is read from stdin."""
        verify_secrets_provider(self.provider)
        opened = open_stack(world, self.stack or None)
        old_config = opened.config
        new = PassphraseCrypter.new(self._new_passphrase(world))
        values = {
            key: reencrypted(value, lambda c: opened.crypter().decrypt(c), new.encrypt)
            if is_secure(value)
            else value
            for key, value in old_config.values.items()
        }
        untyped = opened.backend.export(opened.ref)
        deployment = untyped.get("deployment")
        if deployment:
            salt = passphrase_verifier(untyped)
            if salt is not None:
                old = open_passphrase(world, salt)
                old.verify()
                deployment = with_plaintext(deployment, old.decrypt)
            provider = {"type": "passphrase", "state": {"salt": new.encryption_salt}}
            deployment = {**with_ciphertext(deployment, new.encrypt), "secrets_providers": provider}
        world.say("Migrating old configuration and state to new secrets provider")
        changed = replace(
            old_config,
            values=values,
            encryption_salt=new.encryption_salt,
            secrets_provider="",
            encrypted_key="",
        )
        # The state first: it can be brought back from its backup, whatever happens to the file after it.
        if deployment:
            opened.backend.import_(opened.ref, {**untyped, "deployment": deployment}, edited=True)
        opened.with_config(changed).save_config()
        return 0

    def _new_passphrase(self, world: World) -> str:
        stream = world.stdin if world.stdin is not None else sys.stdin
        if world.interactive:
            from getpass import getpass

            return getpass("Enter your new passphrase to protect config/secrets: ", world.stderr)
        return stream.readline().strip()
