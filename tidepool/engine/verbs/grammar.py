"""Reading a command line: flags anywhere, ``--flag value``, ``--flag=value``, ``-abc``, ``--``.

Pure: a tree of :class:`Command` and a list of words go in, a :class:`Parsed` comes out. The rules are those
of the CLI's own parser (cobra and pflag).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tidepool.engine.errors import NotSupportedError, UsageError

#: "list" is given several times; "optional" is text that may be left out.
Kind = Literal["bool", "text", "int", "list", "optional"]

#: Texts that switch a flag on, and off.
TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_INT: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Flag:
    """One flag of a command. ``field`` is where its value goes; empty: the flag's name.

    ``implied`` is the value of an "optional" flag that is given without one. ``refused`` flags are known,
    but this engine does not do what they ask for; ``ignored`` ones change nothing here.
    """

    name: str
    help: str
    kind: Kind = "bool"
    short: str = ""
    field: str = ""
    implied: str = ""
    choices: tuple[str, ...] = ()
    refused: bool = False
    ignored: bool = False
    hidden: bool = False
    #: Also a flag of the commands below.
    inherited: bool = False

    @property
    def target(self) -> str:
        """The name of the field that gets the value."""
        return self.field or self.name.replace("-", "_")

    @property
    def takes_word(self) -> bool:
        return self.kind not in ("bool", "optional")


@dataclass(frozen=True)
class Positional:
    """One positional argument; ``many`` takes all that are left."""

    name: str
    required: bool = False
    many: bool = False


@dataclass(frozen=True)
class Command:
    """One command, or a group of commands.

    ``function`` is called with the world and the values: ``module:NAME`` below
    :mod:`tidepool.engine.verbs`; it is imported only when the command is run. Empty: a group, which shows
    its help. ``refused`` commands are known, but this engine does not do them.
    """

    name: str
    help: str
    function: str = ""
    aliases: tuple[str, ...] = ()
    positionals: tuple[Positional, ...] = ()
    flags: tuple[Flag, ...] = ()
    commands: tuple[Command, ...] = ()
    #: Flags of which at most one may be given.
    exclusive: tuple[tuple[str, ...], ...] = ()
    refused: bool = False

    def child(self, name: str) -> Command | None:
        """The command below this one that ``name`` calls."""
        return next((c for c in self.commands if name == c.name or name in c.aliases), None)


@dataclass(frozen=True)
class Parsed:
    """The content of a command line: the commands from the root down, and the values by field."""

    path: tuple[Command, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    help: bool = False

    @property
    def command(self) -> Command:
        return self.path[-1]


class WrongCount(UsageError):
    """Too few or too many positional arguments."""

    def __init__(self, text: str, path: tuple[Command, ...]) -> None:
        super().__init__(text)
        self.path = path


HELP: Final = Flag("help", "Show this help", short="h", inherited=True)


def parse(root: Command, words: Sequence[str]) -> Parsed:
    """Read a command line.

    Raises:
        UsageError: when a command, flag or value is not known; names it and the nearest known one.
        NotSupportedError: when it asks for something that only the CLI does.
    """
    path, rest = _find(root, words)
    if any(c.refused for c in path):
        raise NotSupportedError(f"`pulumi {' '.join(c.name for c in path[1:])}`")
    flags = visible_flags(path)
    values: dict[str, Any] = {}
    given: list[Flag] = []
    positionals: list[str] = []
    for found, value in _scan(rest, flags):
        if found is None:
            positionals.append(value)
            continue
        given.append(found)
        if found.kind == "list":
            values[found.target] = (*values.get(found.target, ()), value)
        else:
            values[found.target] = value
    if values.pop("help", False):
        return Parsed(path, help=True)
    for flag in given:
        if flag.refused and values[flag.target] is not False:
            raise NotSupportedError(f"the flag --{flag.name}")
    _check_exclusive(path[-1], given)
    if path[-1].commands and positionals:
        raise _unknown_command(path, positionals[0])
    values.update(_positionals(path, positionals))
    ignored = {f.target for f in flags if f.ignored}
    return Parsed(path, {k: v for k, v in values.items() if k not in ignored})


def visible_flags(path: Sequence[Command]) -> tuple[Flag, ...]:
    """The flags of the last command of ``path``, its own first; a flag hides one further up of its name or letter."""
    flags = [*path[-1].flags]
    for command in reversed(path[:-1]):
        names = {f.name for f in flags}
        letters = {f.short for f in flags if f.short}
        flags += [
            replace(flag, short="") if flag.short in letters else flag
            for flag in command.flags
            if flag.inherited and flag.name not in names
        ]
    return (*flags, HELP)


def _find(root: Command, words: Sequence[str]) -> tuple[tuple[Command, ...], list[str]]:
    """The commands that ``words`` name, and the words without those names."""
    path: tuple[Command, ...] = (root,)
    rest: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            break
        if word.startswith("-") and word != "-":
            rest.append(word)
            at += 1
            if at < len(words) and _takes_next(word, path[-1], path):
                rest.append(words[at])
                at += 1
            continue
        child = path[-1].child(word)
        if child is None:
            if path[-1].commands:
                raise _unknown_command(path, word)
            break
        path = (*path, child)
        at += 1
    return path, [*rest, *words[at:]]


def _takes_next(word: str, command: Command, path: Sequence[Command]) -> bool:
    """Return whether the flag ``word`` before the command's name is complete takes the next word as its value."""
    if "=" in word:
        return False
    # A flag of the commands so far comes first: `config --json` takes no word, `config set-all --json` does.
    known = [*visible_flags(path), *_flags_below(command)]
    if word.startswith("--"):
        found = next((f for f in known if f.name == word[2:]), None)
    else:
        found = next((f for f in known if f.short == word[1:]), None)
    return found is not None and found.takes_word


def _flags_below(command: Command) -> Iterator[Flag]:
    for child in command.commands:
        yield from child.flags
        yield from _flags_below(child)


def _scan(words: Sequence[str], flags: Sequence[Flag]) -> Iterator[tuple[Flag | None, Any]]:
    """Each flag with its value, and each positional argument with None."""
    names = {f.name: f for f in flags}
    letters = {f.short: f for f in flags if f.short}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            yield from ((None, w) for w in words[at:])
            return
        if word.startswith("--"):
            name, has_value, text = word[2:].partition("=")
            flag = names.get(name)
            if flag is None:
                raise _unknown_flag(name, names)
            if not has_value and flag.takes_word:
                if at == len(words):
                    raise UsageError(f"flag needs an argument: --{name}")
                text, has_value, at = words[at], "=", at + 1
            yield flag, _value(flag, text if has_value else None)
        elif word.startswith("-") and len(word) > 1:
            cluster = word[1:]
            while cluster:
                letter, cluster = cluster[0], cluster[1:]
                flag = letters.get(letter)
                if flag is None:
                    raise UsageError(f"unknown shorthand flag: {letter!r} in {word}")
                if cluster.startswith("="):
                    yield flag, _value(flag, cluster[1:])
                    break
                if not flag.takes_word:
                    yield flag, _value(flag, None)
                    continue
                if not cluster and at == len(words):
                    raise UsageError(f"flag needs an argument: {letter!r} in {word}")
                if not cluster:
                    cluster, at = words[at], at + 1
                yield flag, _value(flag, cluster)
                break
        else:
            yield None, word


def _value(flag: Flag, text: str | None) -> Any:
    shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
    wrong = f'invalid argument "{text}" for "{shown}" flag: expected '
    if flag.kind == "bool":
        if text is None or text in TRUE:
            return True
        if text not in FALSE:
            raise UsageError(f"{wrong}true or false")
        return False
    if text is None:  # of an optional one alone
        return flag.implied
    if flag.kind == "int":
        if _INT.fullmatch(text) is None:
            raise UsageError(f"{wrong}a whole number")
        return int(text)
    if flag.choices and text not in flag.choices:
        near = _nearest(text, flag.choices)
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f"{wrong}{' or '.join(flag.choices)}{hint}")
    return text


def _check_exclusive(command: Command, given: Sequence[Flag]) -> None:
    names = {f.name for f in given}
    for group in command.exclusive:
        both = sorted(names.intersection(group))
        if len(both) > 1:
            raise UsageError(
                f"if any flags in the group [{' '.join(group)}] are set none of the others can be; "
                f"[{' '.join(both)}] were all set"
            )


def _positionals(path: tuple[Command, ...], words: Sequence[str]) -> dict[str, Any]:
    specs = path[-1].positionals
    required = sum(p.required for p in specs)
    many = any(p.many for p in specs)
    all_required = required == len(specs)
    if len(words) < required:
        exactly = all_required and not many
        wanted = f"accepts {required} arg(s)," if exactly else f"requires at least {required} arg(s), only"
        raise WrongCount(f"{wanted} received {len(words)}", path)
    if len(words) > len(specs) and not many:
        wanted = f"accepts {required} arg(s)" if all_required else f"accepts at most {len(specs)} arg(s)"
        raise WrongCount(f"{wanted}, received {len(words)}", path)
    values: dict[str, Any] = {}
    for at, spec in enumerate(specs):
        if spec.many:
            values[spec.name] = tuple(words[at:])
        elif at < len(words):
            values[spec.name] = words[at]
    return values


def _nearest(word: str, known: Sequence[str]) -> str | None:
    # Only for mistakes: importing it takes a fifth of what showing the version takes.
    from tidepool.engine.project import nearest

    return nearest(word, tuple(known))


def _unknown_command(path: Sequence[Command], word: str) -> UsageError:
    names = [n for c in path[-1].commands for n in (c.name, *c.aliases)]
    near = _nearest(word, names)
    called = " ".join(("pulumi", *(c.name for c in path[1:])))
    hint = f"\n\nDid you mean this?\n\t{called} {near}\n" if near else ""
    return UsageError(f'unknown command "{word}" for "{called}"{hint}\nRun \'{called} --help\' for usage.')


def _unknown_flag(name: str, names: Mapping[str, Flag]) -> UsageError | NotSupportedError:
    if name.startswith("remote"):
        return NotSupportedError(f"the flag --{name} (Pulumi Deployments)")
    near = _nearest(name, [n for n, f in names.items() if not f.hidden])
    return UsageError(f"unknown flag: --{name}" + (f"; did you mean --{near}?" if near else ""))
