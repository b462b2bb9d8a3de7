"""The project: what ``Pulumi.yaml`` says. Source: Pulumi's ``sdk/go/common/workspace/project.go``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tidepool.engine import yaml_reading
from tidepool.engine.errors import EngineError

#: In the order in which Pulumi looks for them.
EXTENSIONS: Final = (".json", ".yaml", ".yml")

ConfigTypeName = Literal["string", "integer", "boolean", "array", "object"]
_TYPE_NAMES: Final = ("string", "integer", "boolean", "array", "object")


class ProjectError(EngineError):
    """A project file is not there or not right."""


class ProjectNotFoundError(ProjectError):
    """No project file in the folder or above it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"no Pulumi.yaml project file found (searching upwards from {folder}). If you have not "
            "created a project yet, use `pulumi new` to do so: no project file found"
        )


@dataclass(frozen=True, slots=True)
class ConfigType:
    """The type of a declared configuration value; ``items`` is set for arrays only."""

    name: ConfigTypeName
    items: ConfigType | None = None

    def __str__(self) -> str:
        return f"array<{self.items}>" if self.items is not None else self.name

    def admits(self, value: Any) -> bool:
        """Return whether ``value`` is of this type, as the CLI judges it: numbers and booleans may be text."""
        match self.name:
            case "string":
                return isinstance(value, str)
            case "integer":
                if isinstance(value, str):
                    return value.removeprefix("-").removeprefix("+").isdecimal() and value.isascii()
                if isinstance(value, float):
                    return value.is_integer()
                return isinstance(value, int) and not isinstance(value, bool)
            case "boolean":
                return isinstance(value, bool) or value in ("true", "false")
            case "object":
                return isinstance(value, dict)
            case _:
                items = self.items
                return isinstance(value, list) and items is not None and all(items.admits(v) for v in value)


@dataclass(frozen=True, slots=True)
class ConfigDeclaration:
    """One key of the project's ``config`` section.

    A key of the project itself may have a type and a ``default``; a key of another namespace has a
    ``value`` only. ``default`` and ``value`` are None where they are not given.
    """

    type: ConfigType | None = None
    default: Any = None
    value: Any = None
    secret: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class PluginPath:
    """A provider of the ``plugins`` section; ``path`` is absolute."""

    name: str
    path: Path
    version: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """The content of a project file; paths in it are relative to ``root``, the folder of the file."""

    name: str
    file: Path
    runtime: str = ""
    runtime_options: Mapping[str, Any] = field(default_factory=dict)
    main: str = ""
    description: str = ""
    stack_config_dir: str = ""
    backend_url: str = ""
    config: Mapping[str, ConfigDeclaration] = field(default_factory=dict)
    providers: tuple[PluginPath, ...] = ()
    refresh_always: bool = False
    required_pulumi_version: str = ""
    #: Stack tags of the ``config`` section's ``pulumi:tags``.
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.file.parent

    @property
    def program(self) -> Path:
        """The folder or file of the program: ``main``, or the project's folder."""
        return (self.root / self.main) if self.main else self.root

    def stack_file(self, stack: str) -> Path:
        """Return the path of the configuration of ``stack`` (its short name)."""
        return self.root / self.stack_config_dir / f"Pulumi.{stack.replace('/', '-')}{self.file.suffix}"


def find_project_file(folder: Path) -> Path | None:
    """The project file in ``folder`` or the nearest one above it."""
    for parent in (folder, *folder.parents):
        for extension in EXTENSIONS:
            path = parent / f"Pulumi{extension}"
            try:
                if path.is_file():
                    return path
            except PermissionError:
                # As the CLI does: folders above that may not be read end the search.
                return None
    return None


def find_project(folder: Path) -> Project:
    """The project that ``folder`` belongs to.

    Raises:
        ProjectNotFoundError: when there is none.
        ProjectError: when its file is not right.
    """
    path = find_project_file(folder)
    if path is None:
        raise ProjectNotFoundError(folder)
    return load_project(path)


def load_project(path: Path) -> Project:
    """Read the project file ``path``.

    Raises:
        ProjectError: when it cannot be read or is not right; the text names all mistakes.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"could not read '{path}': {error}") from error
    try:
        raw = json.loads(text) if path.suffix == ".json" else yaml_reading.load(text)
    except ValueError as error:
        raise ProjectError(f"could not unmarshal '{path}': {error}") from error
    return parse_project(raw, path)


def parse_project(raw: Any, path: Path) -> Project:
    """The project that the document ``raw`` of the file ``path`` describes.

    Raises:
        ProjectError: when it is not right; the text names all mistakes.
    """
    mistakes = list(_shape_mistakes(raw))
    if mistakes:
        text = mistakes[0] if len(mistakes) == 1 else "".join(f"\n  * {m}" for m in mistakes)
        raise ProjectError(f"could not validate '{path}': {text}")
    config = raw.get("config")
    stack_config_dir = raw.get("stackConfigDir") or ""
    if isinstance(config, str):
        # The old meaning of `config`: the folder of the stacks' files.
        if stack_config_dir:
            raise ProjectError(
                "Should not use both config and stackConfigDir to define the stack directory. "
                "Use only stackConfigDir instead."
            )
        stack_config_dir, config = config, None
    name = raw["name"]
    config = dict(config or {})
    tags = _tags(config.pop("pulumi:tags", None))
    declarations = {key: _declaration(name, key, value) for key, value in config.items()}
    for key, declaration in declarations.items():
        mistake = _declaration_mistake(name, key, declaration)
        if mistake:
            raise ProjectError(f"could not unmarshal '{path}': {mistake}")
    runtime = raw.get("runtime") or ""
    options: Mapping[str, Any] = {}
    if isinstance(runtime, dict):
        runtime, options = runtime.get("name", ""), runtime.get("options") or {}
    providers = tuple(
        PluginPath(p["name"], (path.parent / p["path"]).resolve(), p.get("version", ""))
        for p in (raw.get("plugins") or {}).get("providers") or ()
    )
    return Project(
        name=name,
        file=path,
        runtime=runtime,
        runtime_options=options,
        main=raw.get("main") or "",
        description=raw.get("description") or "",
        stack_config_dir=stack_config_dir,
        backend_url=(raw.get("backend") or {}).get("url", ""),
        config=declarations,
        providers=providers,
        refresh_always=(raw.get("options") or {}).get("refresh") == "always",
        required_pulumi_version=str(raw.get("requiredPulumiVersion") or ""),
        tags=tags,
    )


def require_python(project: Project) -> None:
    """Refuse a project in a language that this engine does not run.

    Raises:
        ProjectError: when the runtime is not Python.
    """
    if project.runtime != "python":
        raise ProjectError(
            f"'{project.file}': the runtime {project.runtime!r} is not supported by the embedded engine, which runs "
            "'python' only; nothing was changed. The Pulumi CLI runs other languages: install `pulumi` and put it on PATH."
        )


def is_own_key(project_name: str, key: str) -> bool:
    """Return whether the declared ``key`` belongs to the project itself, not to another namespace."""
    return ":" not in key or key.startswith(f"{project_name}:")


def _tags(declared: Any) -> dict[str, str]:
    value = declared.get("value") if isinstance(declared, dict) else None
    return {k: str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _declaration(project_name: str, key: str, raw: Any) -> ConfigDeclaration:
    if not isinstance(raw, dict):
        # Shorthand: `size: small` declares a default, `aws:region: x` a value.
        own = is_own_key(project_name, key)
        return ConfigDeclaration(default=raw) if own else ConfigDeclaration(value=raw)
    return ConfigDeclaration(
        type=_config_type(raw) if raw.get("type") is not None else None,
        default=raw.get("default"),
        value=raw.get("value"),
        secret=bool(raw.get("secret")),
        description=raw.get("description") or "",
    )


def _config_type(raw: Mapping[str, Any]) -> ConfigType:
    items = raw.get("items")
    return ConfigType(raw["type"], _config_type(items) if isinstance(items, dict) else None)


def _declaration_mistake(project_name: str, key: str, declared: ConfigDeclaration) -> str | None:
    if declared.default is not None and declared.value is not None:
        return f"project config '{key}' cannot have both a 'default' and 'value' attribute"
    if is_own_key(project_name, key):
        if declared.type is None:
            return None
        if declared.type.name == "array" and declared.type.items is None:
            return (
                f"The configuration key '{key}' declares an array but does not specify the underlying type "
                "via the 'items' attribute"
            )
        if declared.default is not None and not declared.type.admits(declared.default):
            return (
                f"The default value specified for configuration key '{key}' is not of the expected type "
                f"'{declared.type}'"
            )
        return None
    if declared.type is not None:
        return f"Configuration key '{key}' is not namespaced by the project and should not define a type"
    if declared.default is not None:
        return (
            f"Configuration key '{key}' is not namespaced by the project and should not define a default value. "
            "Did you mean to use the 'value' attribute instead of 'default'?"
        )
    if declared.value is None:
        return f"Configuration key '{key}' is namespaced and must provide an attribute 'value'"
    return None


_SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {"backend": ("url",), "options": ("refresh",)}
_TEXTS: Final = ("description", "author", "website", "license", "main", "stackConfigDir")
_DECLARATION_KEYS: Final = ("type", "items", "description", "secret", "default", "value")
_PLUGIN_KEYS: Final = ("name", "path", "version")


def _shape_mistakes(raw: Any) -> Iterator[str]:
    """Mistakes in the shape of the document, each with the path to it."""
    if not isinstance(raw, dict):
        yield f"expected project to be an object, was {_kind(raw)}"
        return
    if "name" not in raw:
        near = nearest("name", raw)
        yield "project is missing a 'name' attribute" + (f"; found '{near}' instead" if near else "")
        return
    if not isinstance(raw["name"], str) or not raw["name"]:
        yield "project is missing a non-empty string 'name' attribute"
        return
    for key in _TEXTS:
        if raw.get(key) is not None and not isinstance(raw[key], str):
            yield f"#/{key}: expected string, but got {_kind(raw[key])}"
    yield from _runtime_mistakes(raw.get("runtime", ""))
    for section, allowed in _SECTIONS.items():
        value = raw.get(section)
        if value is None:
            continue
        if not isinstance(value, dict):
            yield f"#/{section}: expected object, but got {_kind(value)}"
            continue
        yield from _unknown_keys(f"#/{section}", value, allowed)
    backend = raw.get("backend")
    if isinstance(backend, dict) and not isinstance(backend.get("url", ""), str):
        yield f"#/backend/url: expected string, but got {_kind(backend['url'])}"
    options = raw.get("options")
    if isinstance(options, dict) and options.get("refresh", "always") != "always":
        yield f"#/options/refresh: value must be 'always', but is {options['refresh']!r}"
    yield from _config_mistakes(raw.get("config"))
    yield from _plugin_mistakes(raw.get("plugins"))


def _runtime_mistakes(runtime: Any) -> Iterator[str]:
    if isinstance(runtime, dict):
        yield from _unknown_keys("#/runtime", runtime, ("name", "options"))
        if not isinstance(runtime.get("name"), str):
            yield "#/runtime/name: expected string"
        if not isinstance(runtime.get("options") or {}, dict):
            yield f"#/runtime/options: expected object, but got {_kind(runtime['options'])}"
    elif not isinstance(runtime, str):
        yield f"#/runtime: expected string or object, but got {_kind(runtime)}"


def _config_mistakes(config: Any) -> Iterator[str]:
    if config is None or isinstance(config, str):
        return
    if not isinstance(config, dict):
        yield f"#/config: expected object or string, but got {_kind(config)}"
        return
    for key, value in config.items():
        path = f"#/config/{key}"
        if isinstance(value, str | bool | int | list):
            continue
        if not isinstance(value, dict):
            yield f"{path}: expected string, integer, boolean, array or object, but got {_kind(value)}"
            continue
        yield from _unknown_keys(path, value, _DECLARATION_KEYS)
        if value.get("type") is not None:
            yield from _type_mistakes(path, value)
        if not isinstance(value.get("secret") or False, bool):
            yield f"{path}/secret: expected boolean, but got {_kind(value['secret'])}"


def _type_mistakes(path: str, declared: Mapping[str, Any]) -> Iterator[str]:
    if declared.get("type") not in _TYPE_NAMES:
        allowed = ", ".join(f"'{n}'" for n in _TYPE_NAMES)
        yield f"{path}/type: value must be one of {allowed}, but is {declared.get('type')!r}"
    items = declared.get("items")
    if items is not None and not isinstance(items, dict):
        yield f"{path}/items: expected object, but got {_kind(items)}"
    elif items is not None:
        yield from _type_mistakes(f"{path}/items", items)


def _plugin_mistakes(plugins: Any) -> Iterator[str]:
    if plugins is None:
        return
    if not isinstance(plugins, dict):
        yield f"#/plugins: expected object, but got {_kind(plugins)}"
        return
    for kind in ("providers", "analyzers", "languages"):
        for index, plugin in enumerate(plugins.get(kind) or ()):
            path = f"#/plugins/{kind}/{index}"
            if not isinstance(plugin, dict):
                yield f"{path}: expected object, but got {_kind(plugin)}"
                continue
            yield from _unknown_keys(path, plugin, _PLUGIN_KEYS)
            for key in ("name", "path"):
                if not isinstance(plugin.get(key), str):
                    yield f"{path}: missing property '{key}'"


def _unknown_keys(path: str, value: Mapping[str, Any], allowed: tuple[str, ...]) -> Iterator[str]:
    for key in value:
        if key not in allowed:
            near = nearest(key, allowed)
            hint = f"; did you mean '{near}'?" if near else f"; allowed are {', '.join(allowed)}"
            yield f"{path}: additionalProperties '{key}' not allowed{hint}"


def nearest(word: str, known: Mapping[str, Any] | tuple[str, ...]) -> str | None:
    """The one of ``known`` that ``word`` is most likely a misspelling of."""
    # difflib costs 5 ms to import, and is only needed once something is wrong.
    from difflib import get_close_matches

    spelled = {k.lower(): k for k in known}
    found = get_close_matches(word.lower(), spelled, n=1, cutoff=0.6)
    return spelled[found[0]] if found else None


_KINDS: Final = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "object")
