"""``config``: showing and changing a stack's configuration."""

from __future__ import annotations

import json
import sys
from typing import Any

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
from tidepool.engine.request import World
from tidepool.engine.verbs.show import shown_value
from tidepool.engine.verbs.showing import json_document, table
from tidepool.engine.verbs.workspace import (
    OpenStack,
    open_stack,
    open_workspace,
    passphrase_verifier,
    split_pair,
    under_passphrase,
)


def show_all(
    world: World, *, stack: str = "", config_file: str = "", json: bool = False, show_secrets: bool = False
) -> None:
    """Show all values, the project's defaults among them."""
    opened = open_stack(world, stack, config_file)
    values = opened.merged()

    def decrypt(text: str) -> str:
        return opened.decrypt(text) if show_secrets else MASK

    if json:
        items: dict[str, Any] = {}
        for key in sorted(values):
            secret = is_secure(values[key])
            hidden = secret and not show_secrets
            shown = {} if hidden else shown_value(values[key], decrypt)
            items[str(key)] = {**shown, "secret": secret}
        world.stdout.write(json_document(items))
        return
    project = opened.project.name
    rows = [[key.pretty(project), text_of(values[key], decrypt)] for key in sorted(values)]
    world.stdout.write(table(["KEY", "VALUE"], rows))


def show_one(
    world: World, *, key: str, stack: str = "", config_file: str = "", json: bool = False, path: bool = False
) -> None:
    """Show one value, in plain text."""
    opened = open_stack(world, stack, config_file)
    value = _value(opened, opened.merged(), _key(key, opened, path=path), path=path)
    if json:
        world.stdout.write(json_document({**shown_value(value, opened.decrypt), "secret": is_secure(value)}))
    else:
        world.say(text_of(value, opened.decrypt))


def set_one(
    world: World,
    *,
    key: str,
    value: str | None = None,
    stack: str = "",
    config_file: str = "",
    path: bool = False,
    secret: bool = False,
    raw: bool = False,
    type_name: str = "",
) -> None:
    """Set one value. Without ``value`` it is read from stdin."""
    opened = open_stack(world, stack, config_file)
    text = value if value is not None else _read(world, secret=secret, raw=raw)
    new: Value = text
    if secret:
        opened = opened.with_passphrase()
        new = Ciphertext(opened.encrypt(text))
    elif type_name:
        new = typed_text(text, type_name)
    _save(opened, _put(opened.config.values, _key(key, opened, path=path), new, path=path))


def _read(world: World, *, secret: bool, raw: bool) -> str:
    stream = world.input
    if world.stdin is None and (sys.stdin is None or sys.stdin.isatty()):
        if not world.interactive:
            raise UsageError("config value must be specified in non-interactive mode")
        from getpass import getpass

        if secret:
            return getpass("value: ", world.stderr)
        world.stdout.write("value: ")
        world.stdout.flush()
        return stream.readline().rstrip("\r\n")
    text = stream.read()
    return text if raw else text.removesuffix("\n").removesuffix("\r")


def set_all(
    world: World,
    *,
    stack: str = "",
    config_file: str = "",
    path: bool = False,
    document: str = "",
    plaintext: tuple[str, ...] = (),
    secret: tuple[str, ...] = (),
) -> None:
    """Set several values."""
    if document and (plaintext or secret or path):
        raise UsageError("the --json option cannot be used with the --plaintext, --secret or --path options")
    opened = open_stack(world, stack, config_file)
    values = opened.config.values
    for text in plaintext:
        name, plain = split_pair(text)
        values = _put(values, _key(name, opened, path=path), plain, path=path)
    if secret:
        opened = opened.with_passphrase()
    for text in secret:
        name, plain = split_pair(text)
        key = _key(name, opened, path=path)
        values = _put(values, key, Ciphertext(opened.encrypt(plain)), path=path)
    if document:
        opened, values = _with_document(document, opened, values)
    _save(opened, values)


def _with_document(document: str, opened: OpenStack, values: Values) -> tuple[OpenStack, Values]:
    try:
        items = json.loads(document)
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


def remove_all(
    world: World, *, keys: tuple[str, ...], stack: str = "", config_file: str = "", path: bool = False
) -> None:
    """Remove values; one that is not there is no mistake."""
    opened = open_stack(world, stack, config_file)
    values = opened.config.values
    for name in keys:
        values = remove(values, _key(name, opened, path=path), path=path)
    _save(opened, values)


def remove_one(world: World, *, key: str, **more: Any) -> None:
    """Remove one value."""
    remove_all(world, keys=(key,), **more)


def copy(
    world: World, *, key: str = "", stack: str = "", config_file: str = "", path: bool = False, dest: str = ""
) -> None:
    """Copy values to another stack; secrets are encrypted for it anew. Without ``key`` all values are copied."""
    source = open_stack(world, stack, config_file)
    if not dest:
        raise UsageError("the stack to copy to is missing; name it with --dest")
    if dest == source.ref.name:
        raise UsageError("current stack and destination stack are the same")
    workspace = source.workspace
    target = workspace.open(workspace.require(dest), config_file)
    chosen: Values = source.config.values
    if key:
        wanted = _key(key, source, path=path)
        chosen = {wanted: _value(source, chosen, wanted, path=path)}
    if any(is_secure(v) for v in chosen.values()):
        target = target.with_passphrase()
    values = target.config.values
    for name, value in sorted(chosen.items()):
        copied = reencrypted(value, source.decrypt, target.encrypt)
        values = put(values, name, copied, path=path and bool(key))
    if chosen:
        _save(target, values)


def refresh(world: World, *, stack: str = "", config_file: str = "", force: bool = False) -> None:
    """Bring the configuration back to that of the last update; the present file is kept as ``.bak``."""
    workspace = open_workspace(world, need_project=True)
    ref = workspace.require(stack)
    opened = workspace.open(ref, config_file)
    updates = workspace.backend.history(ref, 1, 1)
    if not updates:
        raise EngineError("getting latest configuration: no previous deployment")
    values = {parse_key(k, opened.project.name): from_document(v) for k, v in updates[0].config.items()}
    salt = passphrase_verifier(workspace.backend.export(ref))
    config = opened.config.with_values(values)
    if salt is not None:
        config = under_passphrase(config, salt)
    backup = None
    if config.path.exists() and not force:
        backup = config.path.with_name(config.path.name + ".bak")
        while backup.exists():
            backup = backup.with_name(backup.name + ".bak")
        config.path.rename(backup)
        world.say(f"backed up existing configuration file to {backup}")
    opened.with_config(config).save_config()
    if backup is not None:
        world.say(f"refreshed configuration for stack '{ref.name}'")


def _key(text: str, opened: OpenStack, *, path: bool) -> Key:
    try:
        return parse_key(text, opened.project.name, path=path)
    except ConfigError as error:
        raise ConfigError(f"invalid configuration key: {error}") from error


def _value(opened: OpenStack, values: Values, key: Key, *, path: bool) -> Value:
    value, found = get(values, key, path=path)
    if not found:
        raise ConfigError(
            f"configuration key '{key.pretty(opened.project.name)}' not found for stack "
            f"'{opened.workspace.shown(opened.ref)}'"
        )
    return value


def _put(values: Values, key: Key, value: Value, *, path: bool) -> Values:
    try:
        return put(values, key, value, path=path)
    except ConfigError as error:
        raise ConfigError(f"could not set config: {error}") from error


def _save(opened: OpenStack, values: Values) -> None:
    opened.with_config(opened.config.with_values(values)).save_config()
