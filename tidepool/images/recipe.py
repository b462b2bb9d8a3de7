"""Recipe of an image, as a person writes it: ``images/<name>/recipe.yaml``. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tidepool.images.containers import Container, is_plain, refuse_names
from tidepool.images.errors import RecipeError
from tidepool.toolchain.source import KUBERNETES

Release = Literal["bullseye", "bookworm", "trixie", "forky"]

#: The key that names the recipe which this one begins with.
EXTENDS: Final = "extends"

#: Debian policy, "The system": below 100 is base-passwd's, 65534 is nobody, 65535 is the 16-bit "none".
_RESERVED_BELOW: Final = 100
_NOBODY: Final = 65534

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid", strict=True)
_ACCOUNT_NAME: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PACKAGE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+")
#: Of a folder of a person's; a variable of the environment is named after it.
_FOLDER_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MODE: Final = re.compile(r"0[0-7]{3}")
#: Keys that older recipes could not have.
_NEWER: Final = ("tools", "containers", "from_release", "folders")
#: Not by a recipe, as each machine has its own.
_PER_MACHINE: Final = (
    re.compile(r"/etc/munge/munge\.key"),
    re.compile(r"/etc/ssh/ssh_host_.*"),
    re.compile(r"/etc/machine-id"),
)


def _plain_path(path: str) -> str:
    if not is_plain(path):
        raise ValueError("an absolute path without '.', '..' and a slash at its end")
    return path


class Account(BaseModel):
    """A user and the group of the same name, with the same number in every image and on every machine."""

    model_config = _FROZEN

    uid: int
    #: The user's own group; its number is the uid's where nothing is said.
    gid: int = 0
    home: str = "/nonexistent"
    shell: str = "/usr/sbin/nologin"

    @model_validator(mode="before")
    @classmethod
    def _gid_is_the_uid(cls, given: Any) -> Any:
        if isinstance(given, dict) and "gid" not in given and "uid" in given:
            # A wrong uid is reported once, not as a gid again.
            uid = given["uid"]
            return {
                **given,
                "gid": uid if isinstance(uid, int) and _RESERVED_BELOW <= uid < _NOBODY else _NOBODY,
            }
        return given

    @field_validator("uid", "gid")
    @classmethod
    def _free(cls, number: int, info: ValidationInfo) -> int:
        # `sshd` and its like live in the group nogroup.
        if info.field_name == "gid" and number == _NOBODY:
            return number
        if not _RESERVED_BELOW <= number < _NOBODY:
            raise ValueError(f"{_RESERVED_BELOW} to {_NOBODY - 1}; those below are Debian's own")
        return number

    @field_validator("home", "shell")
    @classmethod
    def _path(cls, path: str) -> str:
        return _plain_path(path)

    @property
    def is_person(self) -> bool:
        """Tell if somebody logs in with it, and needs a home."""
        return self.home.startswith("/home/")


class FileText(BaseModel):
    """A file that a recipe adds after the roles."""

    model_config = _FROZEN

    text: str
    mode: str = "0644"
    uid: Annotated[int, Field(ge=0)] = 0
    gid: Annotated[int, Field(ge=0)] = 0

    @field_validator("mode")
    @classmethod
    def _octal(cls, mode: str) -> str:
        if not _MODE.fullmatch(mode):
            raise ValueError('four octal digits in quotes, such as "0644"')
        return mode


class Recipe(BaseModel):
    """Recipe of an image. ``size_mib`` is that of its ext4 and qcow2 forms."""

    model_config = _FROZEN

    release: Release
    packages: tuple[str, ...] = Field(strict=False, min_length=1)
    roles: tuple[str, ...] = Field(default=(), strict=False)
    users: Mapping[str, Account] = Field(default_factory=dict)
    files: Mapping[str, FileText] = Field(default_factory=dict)
    #: Programs of the toolchain, by the path that each has in the image.
    tools: Mapping[str, str] = Field(default_factory=dict)
    #: Container images that it brings along, by name and tag.
    containers: Mapping[str, Container] = Field(default_factory=dict)
    #: Folders of a person's, by the path that each has in the image; where they are, the environment says.
    folders: Mapping[str, str] = Field(default_factory=dict)
    #: Paths, with shell wildcards, that no package brings into the image.
    leave_out: tuple[str, ...] = Field(default=(), strict=False)
    #: Of the packages, those that are another release's: its name, and theirs. What they need and the recipe's own
    #: release has no more comes along from there.
    from_release: Mapping[Release, Annotated[tuple[str, ...], Field(strict=False, min_length=1)]] = Field(
        default_factory=dict
    )
    size_mib: Annotated[int, Field(ge=256, le=1024 * 1024)] = 4096
    #: Build it from its lock alone: where a mirror has moved on, nothing else is taken.
    locked: bool = False

    @field_validator("packages")
    @classmethod
    def _package_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _PACKAGE_NAME.fullmatch(name):
                raise ValueError(
                    f"names of Debian packages, without versions, which the lock has; not {name!r}"
                )
        return tuple(sorted(set(names)))

    @field_validator("from_release")
    @classmethod
    def _each_of_one_release(
        cls, others: Mapping[Release, tuple[str, ...]], info: ValidationInfo
    ) -> Mapping[Release, tuple[str, ...]]:
        seen: set[str] = set()
        for release, names in others.items():
            if release == info.data.get("release"):
                raise ValueError(f"other releases than the recipe's own; not {release}")
            for name in names:
                if name not in info.data.get("packages", (name,)):
                    raise ValueError(f"packages that the recipe has; not {name!r}")
                if name in seen:
                    raise ValueError(f"each package of one release; not {name} of {release} again")
                seen.add(name)
        return others

    @field_validator("roles")
    @classmethod
    def _known_roles(cls, roles: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        known = info.context["roles"] if info.context else None
        for role in roles:
            if known is not None and role not in known:
                raise ValueError(
                    f"of {', '.join(sorted(known)) or 'nothing'}{_nearest(role, known)}; not {role!r}"
                )
        if len(set(roles)) < len(roles):
            raise ValueError("each role once")
        return roles

    @field_validator("users")
    @classmethod
    def _one_number_each(cls, users: Mapping[str, Account]) -> Mapping[str, Account]:
        owner: dict[int, str] = {}
        for name, account in users.items():
            if not _ACCOUNT_NAME.fullmatch(name):
                raise ValueError(
                    f"names of lower-case letters, digits, '-' and '_', at most 32; not {name!r}"
                )
            other = owner.setdefault(account.uid, name)
            if other != name:
                raise ValueError(f"a uid of its own for each; {other} and {name} both have {account.uid}")
        return users

    @field_validator("files")
    @classmethod
    def _file_paths(cls, files: Mapping[str, FileText]) -> Mapping[str, FileText]:
        for path in files:
            _plain_path(path)
            if any(pattern.fullmatch(path) for pattern in _PER_MACHINE):
                raise ValueError(f"nothing that each machine has of its own; not {path}")
        return files

    @field_validator("tools")
    @classmethod
    def _known_tools(cls, tools: Mapping[str, str]) -> Mapping[str, str]:
        for path, tool in tools.items():
            _plain_path(path)
            _known_tool(tool)
        return tools

    @field_validator("folders")
    @classmethod
    def _folder_names(cls, folders: Mapping[str, str]) -> Mapping[str, str]:
        for path, name in folders.items():
            _plain_path(path)
            if not _FOLDER_NAME.fullmatch(name):
                raise ValueError(f"names of lower-case letters, digits and '_', at most 32; not {name!r}")
        return folders

    @field_validator("containers")
    @classmethod
    def _known_containers(cls, containers: Mapping[str, Container]) -> Mapping[str, Container]:
        refuse_names(containers)
        for container in containers.values():
            for tool in container.tools.values():
                _known_tool(tool)
        return containers

    @field_validator("leave_out")
    @classmethod
    def _patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if not pattern.startswith("/") or "\n" in pattern:
                raise ValueError(f"absolute paths, with wildcards; not {pattern!r}")
        return patterns

    @property
    def requested(self) -> tuple[str, ...]:
        """Its packages, as apt is given them: those of another release with its name, such as slurmd/bookworm."""
        release_of = {name: release for release, names in self.from_release.items() for name in names}
        return tuple(f"{name}/{release_of[name]}" if name in release_of else name for name in self.packages)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools that are in the image, or in a container that it brings along; each once."""
        inside = (tool for container in self.containers.values() for tool in container.tools.values())
        return tuple(sorted({*self.tools.values(), *inside}))

    @property
    def plain(self) -> dict[str, Any]:
        """The recipe as plain values that decide what is in the image, in one order whatever order it was written in."""
        said = self.model_dump(mode="json", exclude={"locked"})
        # What older recipes could not say changes none of their images.
        return {key: value for key, value in said.items() if value or key not in _NEWER}


@dataclass(frozen=True)
class AccountLines:
    """Lines that are added to the files of the same names in ``/etc``. `*` is a password that none matches."""

    passwd: str
    group: str


def account_lines(users: Mapping[str, Account]) -> AccountLines:
    """Return the lines for those of ``users`` that nobody logs in with; a role makes the others, and their homes.

    They have to be there before the packages: one that finds no account of its name takes the next free number.
    """
    system = {name: account for name, account in users.items() if not account.is_person}
    return AccountLines(
        passwd="".join(f"{n}:*:{a.uid}:{a.gid}::{a.home}:{a.shell}\n" for n, a in system.items()),
        group="".join(f"{n}:*:{a.gid}:\n" for n, a in system.items() if a.gid != _NOBODY),
    )


def _known_tool(tool: str) -> None:
    if tool not in KUBERNETES.tools:
        raise ValueError(f"of {', '.join(KUBERNETES.tools)}{_nearest(tool, KUBERNETES.tools)}; not {tool!r}")


def parse_recipe(
    text: str,
    *,
    origin: str,
    roles: Collection[str] | None = None,
    base: Callable[[str], Recipe] | None = None,
) -> Recipe:
    """Read a recipe. ``roles`` are those that there are; None leaves them unchecked.

    ``base`` gives the recipe of that name, for one that says what it ``extends``; it may raise ValueError.

    Raises:
        RecipeError: with every mistake, each with its key, its value and what is allowed.
    """
    try:
        given = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (both are safe)
    except yaml.YAMLError as error:
        raise RecipeError(origin, [f"not YAML: {' '.join(str(error).split())}"]) from None
    if not isinstance(given, dict):
        raise RecipeError(origin, [f"a mapping of {', '.join(_keys_beside([]))} is wanted"])
    if EXTENDS in given:
        given = _extended(given, origin, base)
    try:
        return Recipe.model_validate(given, context={"roles": roles} if roles is not None else None)
    except ValidationError as error:
        mistakes = [_in_words(each) for each in error.errors(include_url=False)]
        raise RecipeError(origin, mistakes) from None


def _extended(given: Mapping[str, Any], origin: str, base: Callable[[str], Recipe] | None) -> dict[str, Any]:
    """Merge the recipe that ``given`` extends with what is given: lists one behind the other."""
    name = given[EXTENDS]
    if "release" in given:
        raise RecipeError(origin, [f"release: it is that of {name}, which this recipe extends; leave it out"])
    if not isinstance(name, str) or base is None:
        raise RecipeError(
            origin, [f"{EXTENDS}: {_short(name)}; allowed: the name of an image beside this one"]
        )
    try:
        extended = base(name)
    except ValueError as error:
        raise RecipeError(origin, [f"{EXTENDS}: {_short(name)}; allowed: {error}"]) from None
    merged = {**extended.plain, "locked": extended.locked}
    for key, value in given.items():
        before = merged.get(key)
        match value:
            case list() if isinstance(before, list):
                merged[key] = [*before, *value]
            case dict() if isinstance(before, dict):
                merged[key] = {**before, **value}
            case _:
                merged[key] = value
    del merged[EXTENDS]
    return merged


def _in_words(error: Any) -> str:
    """Return one finding of pydantic's as a line for a person."""
    *parents, last = where = [str(part) for part in error["loc"]]
    key = ".".join(where)
    value = error["input"]
    match error["type"]:
        case "extra_forbidden":
            known = _keys_beside(parents)
            return f"{key}: there is no such key{_nearest(last, known)}; allowed: {', '.join(known)}"
        case "missing":
            return f"{key}: is missing; allowed: {_allowed(where)}"
        case "literal_error":
            return f"{key}: {value!r}; allowed: {', '.join(get_args(Release))}"
        case "value_error":
            return f"{key}: {_short(value)}; allowed: {error['ctx']['error']}"
        case "greater_than_equal" | "less_than_equal" | "too_short":
            return f"{key}: {_short(value)}; allowed: {_allowed(where)}"
        case _:
            return f"{key}: {_short(value)}; allowed: {error['msg'].removeprefix('Input should be ')}"


def _keys_beside(parents: list[str]) -> list[str]:
    match parents:
        case ["users", *_]:
            return list(Account.model_fields)
        case ["files", *_]:
            return list(FileText.model_fields)
        case ["containers", *_]:
            return list(Container.model_fields)
        case _:
            return [EXTENDS, *Recipe.model_fields]


def _allowed(where: list[str]) -> str:
    match where[-1]:
        case "release":
            return ", ".join(get_args(Release))
        case "packages":
            return "a list of at least one Debian package"
        case "command":
            return "a program and its arguments"
        case "size_mib":
            return "256 to 1048576 (MiB)"
        case "uid" | "gid":
            return f"{_RESERVED_BELOW} to {_NOBODY - 1}" if where[0] == "users" else "0 and more"
        case _:
            return "text"


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _nearest(given: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
