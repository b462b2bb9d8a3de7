from __future__ import annotations

import re
import textwrap
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.images import RecipeError, parse_recipe

GOOD = "release: bookworm\npackages: [munge]\n"


def mistakes(text: str, **known: object) -> list[str]:
    with pytest.raises(RecipeError) as raised:
        parse_recipe(textwrap.dedent(text), origin="images/x/recipe.yaml", **known)  # type: ignore[arg-type]
    return list(raised.value.mistakes)


def test_all_mistakes_are_told_at_once_each_with_its_key_and_what_is_allowed() -> None:
    text = """
    release: wheezy
    packages: [munge, "Slurm D"]
    roles: [slurm_nod]
    pakages: [x]
    size_mib: 3
    users:
      munge: {uid: 5}
      slurm: {uid: 980, shel: /bin/sh}
    files:
      /etc/motd: {text: hello, mode: 420}
    """
    told = mistakes(text, roles={"slurm_node", "sshd"})
    assert len(told) == 8
    for start, allowed in (
        ("release: 'wheezy'", "bullseye, bookworm, trixie, forky"),
        ("packages:", "not 'Slurm D'"),
        ("roles:", "of slurm_node, sshd (did you mean slurm_node?)"),
        ("pakages: there is no such key (did you mean packages?)", "release, packages, roles"),
        ("size_mib: 3", "256 to 1048576"),
        ("users.munge.uid: 5", "100 to 65533"),
        ("users.slurm.shel: there is no such key (did you mean shell?)", "uid, gid, home, shell"),
        ("files./etc/motd.mode: 420", "string"),
    ):
        assert any(line.startswith(start) and allowed in line for line in told), (start, told)


def test_mistakes_about_tools_and_containers_are_told() -> None:
    text = """
    release: bookworm
    packages: [munge]
    tools: {/usr/bin/kubelet: kublet, /usr/./x: etcd}
    containers:
      tidepool/pause: {tools: {/pause: pause}, command: [/pause]}
      tidepool/one:1: {tools: {pause: pause}, command: [], comand: x}
    """
    told = mistakes(text)
    for start, allowed in (
        ("tools:", "(did you mean kubelet?); not 'kublet'"),
        ("containers.tidepool/one:1.tools:", "absolute paths"),
        ("containers.tidepool/one:1.command:", "a program and its arguments"),
        ("containers.tidepool/one:1.comand: there is no such key (did you mean command?)", "aliases"),
    ):
        assert any(line.startswith(start) and allowed in line for line in told), (start, told)
    assert (
        "such as tidepool/pause:1; not 'tidepool/pause'"
        in mistakes(GOOD + "containers: {tidepool/pause: {command: [/x]}}")[0]
    )
    assert "not 'moon'" in mistakes(GOOD + "containers: {a:1: {tools: {/x: moon}, command: [/x]}}")[0]


def test_tools_are_named_once_wherever_they_are() -> None:
    recipe = parse_recipe(
        GOOD + "tools: {/a: kubelet, /b: kubelet}\ncontainers: {a:1: {tools: {/x: pause}, command: [/x]}}",
        origin="x",
    )
    assert recipe.tool_names == ("kubelet", "pause")
    assert parse_recipe(GOOD, origin="x").plain.keys() & {"tools", "containers"} == set()


def test_one_mistake_is_not_called_mistakes() -> None:
    with pytest.raises(RecipeError, match=r"^here: 1 mistake\n  release: "):
        parse_recipe("release: 12\npackages: [munge]", origin="here")


@pytest.mark.parametrize("text", ["", "[]", "- a\n- b", "release: [", "release: !!python/object:os.system x"])
def test_what_is_not_a_recipe_is_refused(text: str) -> None:
    assert len(mistakes(text)) == 1


@given(st.text(max_size=200))
def test_no_text_is_more_than_a_recipe_error(text: str) -> None:
    with suppress(RecipeError):
        assert parse_recipe(text, origin="x").packages


@pytest.mark.parametrize("path", ["/etc/munge/munge.key", "/etc/ssh/ssh_host_ed25519_key", "/etc/machine-id"])
def test_a_recipe_cannot_bring_what_each_machine_has_of_its_own(path: str) -> None:
    assert mistakes(f"{GOOD}files: {{{path}: {{text: x}}}}")[0].endswith(f"not {path}")


@pytest.mark.parametrize("path", ["etc/motd", "/etc/../motd", "/etc//motd", "/etc/", "/"])
def test_paths_are_plain(path: str) -> None:
    assert len(mistakes(f"{GOOD}files: {{'{path}': {{text: x}}}}")) == 1


def test_two_accounts_cannot_have_one_number() -> None:
    (told,) = mistakes(f"{GOOD}users: {{a: {{uid: 500}}, b: {{uid: 500}}}}")
    assert told.startswith("users: ")
    assert told.endswith("allowed: a uid of its own for each; a and b both have 500")


def test_an_account_has_a_group_of_its_number_unless_said_otherwise() -> None:
    users = parse_recipe(
        f"{GOOD}users: {{a: {{uid: 500}}, b: {{uid: 501, gid: 65534, home: /home/b}}}}", origin="x"
    ).users
    assert (users["a"].gid, users["a"].is_person) == (500, False)
    assert (users["b"].gid, users["b"].is_person) == (65534, True)


def test_the_order_of_packages_means_nothing() -> None:
    one, other = (
        parse_recipe(f"release: bookworm\npackages: [{names}]", origin="x")
        for names in ("munge, passwd", "passwd, munge, munge")
    )
    assert one == other


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{bookworm: [munge]}",
            "from_release: .* allowed: other releases than the recipe's own; not bookworm",
        ),
        ("{trixie: [slurmd]}", "from_release: .* allowed: packages that the recipe has; not 'slurmd'"),
        ("{trixie: [munge], bullseye: [munge]}", "each package of one release; not munge of bullseye again"),
        (
            "{woody: [munge]}",
            r"from_release.woody.\[key\]: 'woody'; allowed: bullseye, bookworm, trixie, forky",
        ),
        ("{trixie: []}", "from_release.trixie: .* allowed: "),
    ],
)
def test_packages_of_another_release_are_some_of_the_recipe_s(text: str, told: str) -> None:
    (mistake,) = mistakes(GOOD + f"from_release: {text}\n")
    assert re.search(told, mistake), mistake


def test_apt_is_asked_for_a_package_of_another_release_by_both_names() -> None:
    recipe = parse_recipe("release: trixie\npackages: [a2, b2]\nfrom_release: {bookworm: [b2]}\n", origin="x")
    assert recipe.requested == ("a2", "b2/bookworm")
    assert parse_recipe(GOOD, origin="x").requested == ("munge",)
    assert "from_release" not in parse_recipe(GOOD, origin="x").plain
