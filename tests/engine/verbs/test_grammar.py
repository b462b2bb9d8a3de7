"""How command lines are read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine.errors import NotSupportedError, UsageError
from tidepool.engine.verbs.about import help_text
from tidepool.engine.verbs.commands import ROOT
from tidepool.engine.verbs.grammar import Command, Flag, parse, visible_flags

words = st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1).filter(
    lambda w: not w.startswith("-")
)


def all_commands(path: tuple[Command, ...] = (ROOT,)) -> Iterator[tuple[Command, ...]]:
    yield path
    for child in path[-1].commands:
        yield from all_commands((*path, child))


COMMANDS = list(all_commands())


@given(
    st.permutations([("--message", "m"), ("--stack=dev",), ("-y",), ("-p", "3"), ("--target", "a"), ("-tb",)])
)
def test_flags_stand_anywhere(groups: list[tuple[str, ...]]) -> None:
    for at in range(len(groups) + 1):
        line = [w for g in groups[:at] for w in g] + ["up"] + [w for g in groups[at:] for w in g]
        values = parse(ROOT, line).values
        assert values["message"] == "m"
        assert values["stack"] == "dev"
        assert values["yes"] is True
        assert values["parallel"] == 3
        assert sorted(values["targets"]) == ["a", "b"]


@given(words, st.text())
def test_value_as_word_and_after_equals(key: str, value: str) -> None:
    line = ["config", "set-all", "--plaintext"]
    assert parse(ROOT, [*line, f"{key}={value}"]).values == {"plaintext": (f"{key}={value}",)}
    assert parse(ROOT, ["stack", "ls", f"--tag={value}"]).values == {"tag": value}


@given(st.lists(st.text(), min_size=1, max_size=1))
def test_everything_after_the_separator_is_positional(rest: list[str]) -> None:
    values = parse(ROOT, ["config", "set", "key", "--secret", "--", *rest]).values
    assert values == {"key": "key", "secret": True, "value": rest[0]}


def test_optional_value_takes_no_word() -> None:
    assert parse(ROOT, ["preview", "--refresh", "--diff"]).values == {"refresh": "true", "diff": True}
    assert parse(ROOT, ["preview", "-r=false"]).values == {"refresh": "false"}


def test_letters_in_one_word() -> None:
    assert parse(ROOT, ["stack", "-iu"]).values == {"show_ids": True, "show_urns": True}
    assert parse(ROOT, ["stack", "-isdev"]).values == {"show_ids": True, "stack": "dev"}


def test_inherited_flags_before_and_after_the_command() -> None:
    for line in (
        "config --stack dev get k",
        "config get --stack dev k",
        "--stack dev config get k",
        "config get k -s dev",
    ):
        assert parse(ROOT, line.split()).values == {"stack": "dev", "key": "k"}


def test_flag_of_the_command_so_far_comes_first() -> None:
    line = "config --show-secrets --json --stack dev"
    assert parse(ROOT, line.split()).values == {"show_secrets": True, "json": True, "stack": "dev"}


def test_own_letter_hides_the_global_one() -> None:
    assert parse(ROOT, ["whoami", "-v"]).values == {"verbose": True}
    assert parse(ROOT, ["stack", "ls", "-v", "3"]).values == {"verbosity": 3}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("stak ls", 'unknown command "stak" for "pulumi"\n\nDid you mean this?\n\tpulumi stack\n'),
        ("stack histry", "pulumi stack history"),
        ("up --targt x", "unknown flag: --targt; did you mean --target?"),
        ("up --xyzzy", "unknown flag: --xyzzy"),
        ("up -Z", "unknown shorthand flag: 'Z' in -Z"),
        ("up --stack", "flag needs an argument: --stack"),
        ("up -s", "flag needs an argument: 's' in -s"),
        ("up --yes=perhaps", 'invalid argument "perhaps" for "-y, --yes" flag: expected true or false'),
        ("stack ls --output jsn", "expected default or json; did you mean json?"),
        ("up --target a --exclude b", "[exclude target] were all set"),
    ],
)
def test_mistakes_are_named(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(ROOT, line.split())
    assert message in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("path", [p for p in COMMANDS if p[-1].refused], ids=lambda p: p[-1].name)
def test_what_only_the_cli_does_is_refused_by_name(path: tuple[Command, ...]) -> None:
    names = [c.name for c in path[1:]]
    with pytest.raises(NotSupportedError, match=f"`pulumi {' '.join(names)}` is not supported"):
        parse(ROOT, names)
    # Its flags are the CLI's business, and are not read.
    with pytest.raises(NotSupportedError):
        parse(ROOT, [*names, "--anything", "at all"])


REFUSED = [(p, f) for p in COMMANDS for f in p[-1].flags if f.refused]


@pytest.mark.parametrize(
    ("path", "flag"), REFUSED, ids=lambda v: v.name if isinstance(v, Flag) else v[-1].name
)
def test_flags_of_the_cli_alone_are_refused_by_name(path: tuple[Command, ...], flag: Flag) -> None:
    value = ["x"] if flag.takes_word else []
    with pytest.raises(NotSupportedError, match=f"the flag --{flag.name} is not supported"):
        parse(ROOT, [*(c.name for c in path[1:]), f"--{flag.name}", *value])


def test_remote_operations_are_refused_by_name() -> None:
    with pytest.raises(NotSupportedError, match="--remote-git-branch"):
        parse(ROOT, ["up", "--remote-git-branch", "main"])
    # The Automation API looks for this word to find out whether they are there.
    assert "--remote" not in help_text(parse(ROOT, ["preview", "--help"]).path)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda p: " ".join(c.name for c in p))
def test_table_of_commands_is_sound(path: tuple[Command, ...]) -> None:
    command = path[-1]
    names = [n for c in command.commands for n in (c.name, *c.aliases)]
    assert len(names) == len(set(names))
    flags = visible_flags(path)
    assert len({f.name for f in flags}) == len(flags)
    letters = [f.short for f in flags if f.short]
    assert len(letters) == len(set(letters))
    assert not any(f.refused and not f.hidden for f in flags), "a refused flag must not be shown in the help"
    assert command.refused or command.function or command.commands
    assert {n for g in command.exclusive for n in g} <= {f.name for f in flags}


@pytest.mark.parametrize("path", [p for p in COMMANDS if not p[-1].refused], ids=lambda p: p[-1].name)
def test_every_command_has_help(path: tuple[Command, ...]) -> None:
    names = [c.name for c in path[1:]]
    parsed = parse(ROOT, [*names, "--help"])
    assert parsed.help
    text = help_text(parsed.path)
    assert path[-1].help in text
    assert all(f"--{f.name}" in text for f in visible_flags(path) if not f.hidden)
    assert max(map(len, text.splitlines())) < 400


@given(
    st.lists(
        st.sampled_from(["up", "stack", "ls", "-s", "--", "--yes", "x", "--stack=", "-", "--json=", "config"])
    )
)
def test_any_line_is_read_or_refused(line: list[str]) -> None:
    with contextlib.suppress(UsageError, NotSupportedError):
        assert parse(ROOT, line).path[0] is ROOT
