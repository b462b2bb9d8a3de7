"""``config``: showing and changing a stack's configuration."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

from tidepool.engine import config_file
from tidepool.engine.command import World
from tidepool.engine.config import (
    MASK,
    Ciphertext,
    ConfigError,
    Key,
    Value,
    Values,
    from_document,
    get,
    is_secure,
    parse_key,
    put,
    reencrypted,
    remove,
    text_of,
    typed_text,
)
from tidepool.engine.errors import EngineError, UsageError
from tidepool.engine.verbs.show import shown_value
from tidepool.engine.verbs.showing import json_document, table
from tidepool.engine.verbs.workspace import (
    OpenStack,
    open_stack,
    open_workspace,
    passphrase_verifier,
    split_pair,
)


@dataclass(frozen=True, slots=True)
class List:
    """``config``."""

    stack: str = ""
    config_file: str = ""
    json: bool = False
    show_secrets: bool = False

    def run(self, world: World) -> int:
        """Show all values, the project's defaults among them."""
        opened = open_stack(world, self.stack or None, self.config_file or None)
        values = opened.merged()

        def decrypt(text: str) -> str:
            return opened.decrypt(text) if self.show_secrets else MASK

        if self.json:
            items: dict[str, Any] = {}
            for key in sorted(values):
                secret = is_secure(values[key])
                hidden = secret and not self.show_secrets
                shown = {} if hidden else shown_value(values[key], decrypt)
                items[str(key)] = {**shown, "secret": secret}
            world.stdout.write(json_document(items))
            return 0
        project = opened.project.name
        rows = [[key.pretty(project), text_of(values[key], decrypt)] for key in sorted(values)]
        world.stdout.write(table(["KEY", "VALUE"], rows))
        return 0


@dataclass(frozen=True, slots=True)
class Get:
    """``config get``."""

    key: str
    stack: str = ""
    config_file: str = ""
    json: bool = False
    path: bool = False

    def run(self, world: World) -> int:
        """Show one value, in plain text."""
        opened = open_stack(world, self.stack or None, self.config_file or None)
        key = _key(self.key, opened, path=self.path)
        value, found = get(opened.merged(), key, path=self.path)
        if not found:
            raise ConfigError(
                f"configuration key '{key.pretty(opened.project.name)}' not found for stack "
                f"'{opened.workspace.shown(opened.ref)}'"
            )
        if self.json:
            world.stdout.write(
                json_document({**shown_value(value, opened.decrypt), "secret": is_secure(value)})
            )
        else:
            world.say(text_of(value, opened.decrypt))
        return 0


@dataclass(frozen=True, slots=True)
class Set:
    """``config set``. Without ``value`` it is read from stdin."""

    key: str
    value: str | None = None
    stack: str = ""
    config_file: str = ""
    path: bool = False
    plaintext: bool = False
    secret: bool = False
    raw: bool = False
    type_name: str = ""

    def run(self, world: World) -> int:
        """Set one value."""
        opened = open_stack(world, self.stack or None, self.config_file or None)
        key = _key(self.key, opened, path=self.path)
        text = self.value if self.value is not None else self._read(world)
        value: Value = text
        if self.secret:
            opened = opened.with_passphrase()
            value = Ciphertext(opened.encrypt(text))
        elif self.type_name:
            value = typed_text(text, self.type_name)
        _save(opened, _put(opened.config.values, key, value, path=self.path))
        return 0

    def _read(self, world: World) -> str:
        stream = world.input
        if world.stdin is None and (sys.stdin is None or sys.stdin.isatty()):
            if not world.interactive:
                raise UsageError("config value must be specified in non-interactive mode")
            from getpass import getpass

            if self.secret:
                return getpass("value: ", world.stderr)
            world.stdout.write("value: ")
            world.stdout.flush()
            return stream.readline().rstrip("\r\n")
        text = stream.read()
        return text if self.raw else text.removesuffix("\n").removesuffix("\r")


@dataclass(frozen=True, slots=True)
class SetAll:
    """``config set-all``."""

    stack: str = ""
    config_file: str = ""
    path: bool = False
    document: str = ""
    plaintext: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()

    def run(self, world: World) -> int:
        """Set several values."""
        if self.document and (self.plaintext or self.secret or self.path):
            raise UsageError(
                "the --json option cannot be used with the --plaintext, --secret or --path options"
            )
        opened = open_stack(world, self.stack or None, self.config_file or None)
        values = opened.config.values
        for text in self.plaintext:
            name, plain = split_pair(text)
            values = _put(values, _key(name, opened, path=self.path), plain, path=self.path)
        if self.secret:
            opened = opened.with_passphrase()
        for text in self.secret:
            name, plain = split_pair(text)
            key = _key(name, opened, path=self.path)
            values = _put(values, key, Ciphertext(opened.encrypt(plain)), path=self.path)
        if self.document:
            opened, values = self._with_document(opened, values)
        _save(opened, values)
        return 0

    def _with_document(self, opened: OpenStack, values: Values) -> tuple[OpenStack, Values]:
        try:
            items = json.loads(self.document)
        except ValueError as error:
            raise UsageError(f"could not parse --json argument: {error}") from error
        if not isinstance(items, dict) or not all(isinstance(i, dict) for i in items.values()):
            raise UsageError(
                "could not parse --json argument: expected an object of objects, as `config --json` shows"
            )
        for name, item in items.items():
            if item.get("value") is None:
                raise UsageError(f'value for --json object key "{name}" is nil')
            if not isinstance(item["value"], str):
                raise UsageError(f'value for --json object key "{name}" is not a string')
            try:
                key = parse_key(name, opened.project.name)
            except ConfigError as error:
                raise ConfigError(f'invalid --json object key "{name}": {error}') from error
            value: Value = item["value"]
            if item.get("objectValue") is not None:
                if item.get("secret"):
                    # Which of its parts are secret is not said; the CLI fails here too.
                    raise UsageError(
                        f'could not set --json config for "{name}": it is an object with secrets in it. Set its '
                        "parts with: config set --path --secret"
                    )
                value = from_document(item["objectValue"])
            elif item.get("secret"):
                opened = opened.with_passphrase()
                value = Ciphertext(opened.encrypt(item["value"]))
            values = put(values, key, value)
        return opened, values


@dataclass(frozen=True, slots=True)
class Remove:
    """``config remove`` and ``remove-all``."""

    keys: tuple[str, ...]
    stack: str = ""
    config_file: str = ""
    path: bool = False

    def run(self, world: World) -> int:
        """Remove values; one that is not there is no mistake."""
        opened = open_stack(world, self.stack or None, self.config_file or None)
        values = opened.config.values
        for name in self.keys:
            values = remove(values, _key(name, opened, path=self.path), path=self.path)
        _save(opened, values)
        return 0


def remove_one(key: str, **more: Any) -> Remove:
    """``config remove``."""
    return Remove((key,), **more)


@dataclass(frozen=True, slots=True)
class Copy:
    """``config copy``. Without ``key`` all values are copied."""

    key: str = ""
    stack: str = ""
    config_file: str = ""
    path: bool = False
    dest: str = ""

    def run(self, world: World) -> int:
        """Copy values to another stack; secrets are encrypted for it anew."""
        source = open_stack(world, self.stack or None, self.config_file or None)
        if not self.dest:
            raise UsageError("the stack to copy to is missing; name it with --dest")
        if self.dest == source.ref.name:
            raise UsageError("current stack and destination stack are the same")
        workspace = source.workspace
        target = workspace.open(workspace.require(self.dest), self.config_file or None)
        chosen: dict[Key, Value] = dict(source.config.values)
        path = False
        if self.key:
            key = _key(self.key, source, path=self.path)
            value, found = get(source.config.values, key, path=self.path)
            if not found:
                raise ConfigError(
                    f"configuration key '{key.pretty(source.project.name)}' not found for stack "
                    f"'{workspace.shown(source.ref)}'"
                )
            chosen, path = {key: value}, self.path
        if any(is_secure(v) for v in chosen.values()):
            target = target.with_passphrase()
        values = target.config.values
        for key, value in sorted(chosen.items()):
            copied = reencrypted(value, source.decrypt, target.encrypt)
            values = put(values, key, copied, path=path)
        if chosen:
            _save(target, values)
        return 0


@dataclass(frozen=True, slots=True)
class Refresh:
    """``config refresh``."""

    stack: str = ""
    config_file: str = ""
    force: bool = False

    def run(self, world: World) -> int:
        """Bring the configuration back to that of the last update; the present file is kept as ``.bak``."""
        workspace = open_workspace(world, need_project=True)
        ref = workspace.require(self.stack or None)
        opened = workspace.open(ref, self.config_file or None)
        updates = workspace.backend.history(ref, 1, 1)
        if not updates:
            raise EngineError("getting latest configuration: no previous deployment")
        values = {parse_key(k, opened.project.name): from_document(v) for k, v in updates[0].config.items()}
        salt = passphrase_verifier(workspace.backend.export(ref))
        config = opened.config.with_values(values)
        if salt is not None:
            config = replace(config, encryption_salt=salt, secrets_provider="", encrypted_key="")
        backup = None
        if config.path.exists() and not self.force:
            backup = config.path.with_name(config.path.name + ".bak")
            while backup.exists():
                backup = backup.with_name(backup.name + ".bak")
            config.path.rename(backup)
            world.say(f"backed up existing configuration file to {backup}")
        config_file.write(config, workspace.project_name)
        if backup is not None:
            world.say(f"refreshed configuration for stack '{ref.name}'")
        return 0


def _key(text: str, opened: OpenStack, *, path: bool) -> Key:
    try:
        return parse_key(text, opened.project.name, path=path)
    except ConfigError as error:
        raise ConfigError(f"invalid configuration key: {error}") from error


def _put(values: Values, key: Key, value: Value, *, path: bool) -> Values:
    try:
        return put(values, key, value, path=path)
    except ConfigError as error:
        raise ConfigError(f"could not set config: {error}") from error


def _save(opened: OpenStack, values: Values) -> None:
    opened.with_config(opened.config.with_values(values)).save_config()
