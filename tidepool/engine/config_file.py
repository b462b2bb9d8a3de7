"""A stack's configuration file, ``Pulumi.<stack>.yaml`` (or ``.json``): reading, and writing with comments kept.

Reading takes PyYAML, which is there anyway; writing takes ruamel.yaml, which keeps comments, quotes and
order, and touches only what changed. Source: ``LoadProjectStack`` in Pulumi's ``sdk/go/common/workspace``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

from tidepool.engine import yaml_reading
from tidepool.engine.config import ConfigError, Key, Values, from_document, full_key, to_document
from tidepool.engine.state import files

#: The text settings, in the order in which they are written to a new file.
_SETTINGS: Final = ("secretsprovider", "encryptedkey", "encryptionsalt")


@dataclass(frozen=True, slots=True)
class StackConfig:
    """The content of a stack's configuration file. ``path`` need not exist: then everything is empty."""

    path: Path
    values: Values = field(default_factory=dict)
    #: How secrets are encrypted: empty, "default" or "passphrase", or the URL of a key service.
    secrets_provider: str = ""
    encrypted_key: str = ""
    #: The encryption salt of the passphrase; see :mod:`tidepool.engine.state.secrets`.
    encryption_salt: str = ""
    #: Whether the file imports Pulumi ESC environments, which the file backend does not have.
    has_environment: bool = False
    #: Keys that were written without a value. They are read as empty texts; the CLI warns of them.
    empty_keys: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, str]:
        """The text settings by their keys, in the order in which they are written to a new file."""
        return dict(
            zip(_SETTINGS, (self.secrets_provider, self.encrypted_key, self.encryption_salt), strict=True)
        )

    def with_values(self, values: Values) -> StackConfig:
        """The same with other values."""
        return replace(self, values=values)


def read(path: Path, project: str | None) -> StackConfig:
    """Read the file ``path``; keys without a namespace are keys of ``project``.

    Raises:
        ConfigError: when it is not a configuration file.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return StackConfig(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"could not read '{path}': {error}") from error
    try:
        raw = json.loads(text) if path.suffix == ".json" else yaml_reading.load(text)
    except ValueError as error:
        raise ConfigError(f"'{path}': {error}") from error
    if raw is None:
        return StackConfig(path)
    if not isinstance(raw, dict):
        raise ConfigError(f"'{path}': expected an object with the key 'config', was {type(raw).__name__}")
    config = raw.get("config")
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise ConfigError(f"'{path}': expected 'config' to be an object, was {type(config).__name__}")
    values: dict[Key, Any] = {}
    for name, value in config.items():
        try:
            key = _key(name, project)
        except ConfigError as error:
            raise ConfigError(f"'{path}': {error}") from error
        values[key] = from_document(value)
    settings = {name: raw.get(name) or "" for name in _SETTINGS}
    for name, setting in settings.items():
        if not isinstance(setting, str):
            raise ConfigError(f"'{path}': expected '{name}' to be a string, was {type(setting).__name__}")
    return StackConfig(
        path,
        values,
        secrets_provider=settings["secretsprovider"],
        encrypted_key=settings["encryptedkey"],
        encryption_salt=settings["encryptionsalt"],
        has_environment=bool(raw.get("environment")),
        empty_keys=tuple(name for name, value in config.items() if value is None),
    )


def write(config: StackConfig, project: str | None) -> None:
    """Write ``config`` to its file, at once or not at all. What did not change stays as it was written.

    Raises:
        EngineError: when the file cannot be written.
    """
    path = config.path
    try:
        text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"could not read '{path}': {error}") from error
    new = rewritten(text, config, project)
    # Readable for all: it is a file of the project, which is kept in version control.
    files.write(path, new.encode(), mode=0o644)


def rewritten(text: str, config: StackConfig, project: str | None) -> str:
    """The ``text`` of a file changed so that it says what ``config`` says, in the form that its path tells."""
    return _json(config, text) if config.path.suffix == ".json" else edited(text, config, project)


def edited(text: str, config: StackConfig, project: str | None) -> str:
    """The YAML ``text`` changed so that it says what ``config`` says."""
    if (extended := _with_more_settings(text, config, project)) is not None:
        return extended
    # ruamel.yaml costs 60 ms to import; only the verbs that write need it.
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 1 << 30  # long values stay on one line
    yaml.indent(mapping=2, sequence=4, offset=2)
    document = yaml.load(text) if text.strip() else None
    if not isinstance(document, CommentedMap):
        # A file of comments only: they stay on top.
        header = text if text.strip() else ""
        document, text = CommentedMap(), ""
    else:
        header = ""
    _edit_settings(document, config)
    _edit_config(document, config, project)
    if not document:
        return header + "{}\n"
    stream = StringIO()
    yaml.dump(document, stream)
    return header + stream.getvalue()


def _with_more_settings(text: str, config: StackConfig, project: str | None) -> str | None:
    """Return ``text`` with settings below it, where it says all the rest already; else None.

    Each first operation adds a salt, and ruamel.yaml takes a second for the spec of a thousand users.
    """
    try:
        document = yaml_reading.load(text)
        values = {_key(name, project): from_document(value) for name, value in document["config"].items()}
        more = {name: value for name, value in config.settings.items() if value and name not in document}
        extended = "".join([text, *(f"{name}: {value}\n" for name, value in more.items())])
        said = {name: document.get(name) or "" for name in config.settings} | more
        as_meant = yaml_reading.load(extended) == {**document, **more}
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError):
        return None
    return extended if as_meant and values == config.values and said == config.settings else None


def _edit_settings(document: Any, config: StackConfig) -> None:
    for name, setting in config.settings.items():
        if (document.get(name) or "") == setting:
            continue
        if not setting:
            _delete(document, name)
        else:
            document[name] = setting


def _edit_config(document: Any, config: StackConfig, project: str | None) -> None:
    from ruamel.yaml.comments import CommentedMap

    section = document.get("config")
    if not isinstance(section, CommentedMap):
        section = CommentedMap()
    # As written (`region`) to what it stands for (`shop:region`).
    spelled = {_key(str(name), project): name for name in section}
    for key, name in spelled.items():
        if key not in config.values:
            _delete(section, name)
    for key, value in config.values.items():
        wanted = to_document(value)
        name = spelled.get(key, str(key))
        if name not in section:
            section[name] = _node(wanted)
        elif to_document(from_document(_plain(section[name]))) != wanted:
            _merge(section, name, wanted)
    if not section:
        if "config" in document:
            _delete(document, "config")
    elif "config" not in document or document["config"] is not section:
        document["config"] = section


def _merge(parent: Any, key: Any, wanted: Any) -> None:
    """Make ``parent[key]`` say what ``wanted`` says, with as little change as possible."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    old = parent[key]
    if isinstance(old, CommentedMap) and isinstance(wanted, dict):
        for name in [n for n in old if n not in wanted]:
            _delete(old, name)
        for name, value in wanted.items():
            if name not in old:
                old[name] = _node(value)
            elif _plain(old[name]) != value:
                _merge(old, name, value)
    elif isinstance(old, CommentedSeq) and isinstance(wanted, list):
        del old[len(wanted) :]
        for index, value in enumerate(wanted):
            if index >= len(old):
                old.append(_node(value))
            elif _plain(old[index]) != value:
                _merge(old, index, value)
    else:
        parent[key] = _node(wanted)
        _unalign(parent, key)


def _unalign(parent: Any, key: Any) -> None:
    """Let the comment beside an entry follow its new value, not the column where it stood."""
    from ruamel.yaml.error import CommentMark

    for token in parent.ca.items.get(key) or ():
        if token is not None and not isinstance(token, list) and not token.value.startswith("\n"):
            token.start_mark = CommentMark(0)


def _delete(mapping: Any, name: Any) -> None:
    """Delete a key, but not the comments that stand between it and the next one.

    ruamel.yaml hangs the lines below an entry on that entry, though they mostly tell of the next one.
    """
    from ruamel.yaml.error import CommentMark
    from ruamel.yaml.tokens import CommentToken

    names = list(mapping)
    at = names.index(name)
    token = _last_comment(mapping, name)
    below = token.value.partition("\n")[2] if token is not None else ""
    mapping.ca.items.pop(name, None)
    del mapping[name]
    if not below.strip():
        return
    if at > 0:
        before = _last_comment(mapping, names[at - 1])
        if before is not None:
            before.value = before.value.rstrip("\n") + "\n" + below
            return
        value = mapping[names[at - 1]]
        if not isinstance(value, dict | list) or not value:
            token = CommentToken("\n" + below, CommentMark(0), None)
            mapping.ca.items[names[at - 1]] = [None, None, token, None]
            return
    if len(names) > at + 1:
        mapping.yaml_set_comment_before_after_key(
            names[at + 1],
            before="\n".join(line.strip().removeprefix("#").strip() for line in below.strip().split("\n")),
            indent=_column(mapping),
        )


def _column(mapping: Any) -> int:
    return mapping.lc.col if getattr(mapping, "lc", None) is not None and mapping.lc.col is not None else 2


def _last_comment(mapping: Any, name: Any) -> Any:
    """The comment token that follows the last line of an entry, however deep that line is; or None."""
    value: Any = mapping[name]
    if isinstance(value, dict) and value:
        return _last_comment(value, list(value)[-1])
    if not isinstance(value, list) or not value:
        comment = mapping.ca.items.get(name)
        return comment[2] if comment else None
    sequence: Any = value
    item = sequence[-1]
    if isinstance(item, dict) and item:
        return _last_comment(item, list(item)[-1])
    comment = sequence.ca.items.get(len(sequence) - 1)
    return comment[0] if comment else None


def _node(value: Any) -> Any:
    """``value`` as ruamel.yaml is to write it: text that looks like something else gets double quotes."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

    match value:
        case str() if "\n" in value:
            return LiteralScalarString(value) if _literal_keeps(value) else DoubleQuotedScalarString(value)
        case str() if not yaml_reading.is_string(value) or value.lower() in _YAML_1_1_WORDS:
            return DoubleQuotedScalarString(value)
        case dict():
            return CommentedMap((k, _node(v)) for k, v in value.items())
        case list():
            return CommentedSeq(_node(v) for v in value)
        case _:
            return value


#: Booleans to readers of YAML 1.1, ruamel's and PyYAML's among them.
_YAML_1_1_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off"})


def _literal_keeps(text: str) -> bool:
    """Return whether a literal block can hold ``text``: no blanks at line edges, nothing to escape."""
    return not text.startswith((" ", "\n")) and all(
        line == line.rstrip() and line.isprintable() for line in text.split("\n")
    )


def _plain(node: Any) -> Any:
    """A ruamel.yaml node as the reader would have read it."""
    if isinstance(node, dict):
        return {str(k): _plain(v) for k, v in node.items()}
    if isinstance(node, list):
        return [_plain(v) for v in node]
    if isinstance(node, bool) or node is None:
        return node
    if isinstance(node, str):
        from ruamel.yaml.scalarstring import ScalarString

        # A quoted text is one; a plain one may be a number to the reader, which ruamel took for text.
        return (
            str(node)
            if isinstance(node, ScalarString) or yaml_reading.is_string(node)
            else yaml_reading.load(node)
        )
    if isinstance(node, int):
        return int(node)
    if isinstance(node, float):
        return float(node)
    return to_document(from_document(yaml_reading.load(str(node))))  # a date


def _key(name: str, project: str | None) -> Key:
    return full_key(name if ":" in name or project is None else f"{project}:{name}")


def _json(config: StackConfig, text: str) -> str:
    document = json.loads(text) if text.strip() else {}
    kept = {k: v for k, v in document.items() if k not in _SETTINGS and k != "config"}
    new = {k: v for k, v in config.settings.items() if v}
    if config.values:
        new["config"] = {str(k): to_document(v) for k, v in config.values.items()}  # type: ignore[assignment]
    return json.dumps({**new, **kept}, indent=4, ensure_ascii=False) + "\n"
