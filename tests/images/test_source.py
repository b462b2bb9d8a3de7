"""The digest changes with what matters, and with nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden import CONVERGED, NEXT_CONVERGED
from tests.images.conftest import ROOT, a_lock, a_toolchain
from tests.repository import tracked
from tests.toolchain import kubernetes_tools
from tidepool.images import (
    ImageError,
    ImageSource,
    LockError,
    Recipe,
    RecipeError,
    parse_lock,
    read_recipe,
    read_source,
    render_lock,
)
from tidepool.images import source as source_module

#: Images for machines of converged pools.
BOTH = (
    CONVERGED,
    NEXT_CONVERGED,
    "debian-12-vm-converged",
    "debian-12-cloud-converged",
    "debian-12-metal-converged",
    "debian-12-flux",
)
#: For those whose roles have an image each.
KUBERNETES_ALONE = ("debian-13-vm-kubernetes",)
#: Those of the repository: what a person has beside them, a folder of his own or one left empty, is not tested.
IMAGES = {
    "debian-12",
    "debian-12-cloud",
    "debian-12-cloud-nfs",
    "debian-12-dev",
    "debian-12-metal",
    "debian-12-nfs",
    "debian-12-vm",
    "debian-12-vm-nfs",
    "debian-13",
    "debian-13-slurm-22.05",
    "debian-14",
    *BOTH,
    *KUBERNETES_ALONE,
}
RECIPE = "release: bookworm\npackages: [munge]\nroles: [one]\nusers: {munge: {uid: 980}}\n"


class Folders:
    def __init__(self, path: Path) -> None:
        self.image = path / "images/x"
        self.role = path / "playbooks/roles/one/tasks/main.yaml"
        self.recipe = self.image / "recipe.yaml"
        self.lock = self.image / "packages.lock"
        self.image.mkdir(parents=True)
        for role in (self.role, path / "playbooks/roles/two/tasks/main.yaml"):
            role.parent.mkdir(parents=True)
            role.write_text("- name: nothing\n")
        self.other_role = role
        self.playbooks = path / "playbooks"
        self.recipe.write_text(RECIPE)
        self.lock.write_text(render_lock(a_lock()))

    def move(self) -> None:
        self.image = self.image.rename(self.image.with_name("y"))

    def read(self) -> ImageSource:
        return read_source(self.image, self.playbooks, architecture="amd64", environment={})


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def compiled(path: Path) -> None:
    folder = path.with_name("__pycache__")
    folder.mkdir()
    (folder / "programcpython-311.pyc").write_bytes(b"of this clone")


MATTERS: dict[str, Callable[[Folders], object]] = {
    "a uid": lambda f: rewrite(f.recipe, "980", "981"),
    "the size": lambda f: rewrite(f.recipe, "users", "size_mib: 300\nusers"),
    "a file": lambda f: rewrite(f.recipe, "users", "files: {/etc/motd: {text: hello}}\nusers"),
    "what is left out": lambda f: rewrite(f.recipe, "users", "leave_out: [/usr/share/man/*]\nusers"),
    "a role more": lambda f: rewrite(f.recipe, "[one]", "[one, two]"),
    "a version": lambda f: rewrite(f.lock, "0.5.15-2", "0.5.15-3"),
    "a package's digest": lambda f: rewrite(f.lock, "a" * 64, "b" * 64),
    "the time": lambda f: rewrite(f.lock, "1700000000", "1700000001"),
    "a role's text": lambda f: rewrite(f.role, "nothing", "something"),
    "a role's file": lambda f: (f.role.parent / "more.yaml").touch(),
    "a role's file's name": lambda f: f.role.rename(f.role.with_name("other.yaml")),
    "whether a role's file can be run": lambda f: f.role.chmod(0o755),
}

DOES_NOT: dict[str, Callable[[Folders], object]] = {
    "a comment": lambda f: rewrite(f.recipe, "release", "# why\nrelease"),
    "the order of keys": lambda f: f.recipe.write_text("\n".join(reversed(RECIPE.splitlines()))),
    "what is said as it would be": lambda f: rewrite(f.recipe, "980", "980, gid: 980"),
    "a role that is not the recipe's": lambda f: rewrite(f.other_role, "nothing", "something"),
    "when a file was written": lambda f: os.utime(f.role, (0, 0)),
    "a comment in the lock": lambda f: rewrite(f.lock, "release ", "# why\nrelease "),
    "the place": lambda f: f.move(),
    "what Python left beside a program": lambda f: compiled(f.role),
}


@pytest.mark.parametrize("what", MATTERS)
def test_the_digest_changes_with(folders: Folders, what: str) -> None:
    before = folders.read().digest
    MATTERS[what](folders)
    assert folders.read().digest != before


@pytest.mark.parametrize("what", DOES_NOT)
def test_the_digest_does_not_change_with(folders: Folders, what: str) -> None:
    before = folders.read().digest
    DOES_NOT[what](folders)
    assert folders.read().digest == before


def test_the_digest_changes_with_the_builder(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folders.read().digest
    monkeypatch.setattr(source_module, "BUILDER", source_module.BUILDER + 1)
    assert folders.read().digest != before


def test_the_digest_follows_the_bytes_of_the_tools_that_are_named_and_of_no_other(
    folders: Folders, tmp_path: Path
) -> None:
    environment = a_toolchain(tmp_path / "tools")
    before = folders.read().digest
    rewrite(folders.recipe, "users", "tools: {/usr/bin/kubelet: kubelet}\nusers")

    def digest() -> str:
        return read_source(
            folders.image, folders.playbooks, architecture="amd64", environment=environment
        ).digest

    with_tool = digest()
    assert with_tool != before
    (tmp_path / "tools/etcd").write_text("another")
    assert digest() == with_tool
    (tmp_path / "tools/kubelet").write_text("another")
    assert digest() != with_tool
    (tmp_path / "tools/kubelet").unlink()
    with pytest.raises(
        ImageError, match=r"image x holds kubelet\. .* has no program kubelet: unset TIDEPOOL_TOOLCHAIN"
    ):
        digest()


def test_what_is_missing_is_said_with_the_remedy(folders: Folders) -> None:
    folders.lock.unlink()
    with pytest.raises(LockError, match=r"there is no lock beside the recipe\. Make the lock anew"):
        folders.read()
    folders.recipe.unlink()
    with pytest.raises(RecipeError, match="there is no such file"):
        folders.read()


def test_a_role_that_is_not_there_is_refused_with_those_that_are(folders: Folders) -> None:
    rewrite(folders.recipe, "[one]", "[oen]")
    with pytest.raises(RecipeError, match=r"of one, two \(did you mean one\?\); not 'oen'"):
        folders.read()


def test_each_image_of_the_repository_has_its_test() -> None:
    assert {recipe.parent.name for recipe in tracked("images/*/recipe.yaml")} == IMAGES


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in (*BOTH, *KUBERNETES_ALONE) else [])
        for name in sorted(IMAGES)
    ],
)
def test_the_images_of_the_repository_are_whole(name: str, tmp_path: Path) -> None:
    folder = ROOT / "images" / name
    environment = dict(os.environ)
    recipe = read_recipe(folder, ROOT / "playbooks")
    if recipe.tools:
        kubernetes_tools()
    for word in recipe.folders.values():
        (tmp_path / word).mkdir()
        (tmp_path / word / "program").touch()
        environment[f"TIDEPOOL_FOLDER_{word.upper()}"] = str(tmp_path / word)
    source = read_source(folder, ROOT / "playbooks", architecture="amd64", environment=environment)
    assert source.digest
    assert (source.lacking("slurm") == ()) == (name not in KUBERNETES_ALONE)
    assert (source.lacking("kubernetes") == ()) == (name in (*BOTH, *KUBERNETES_ALONE))


class Extending:
    """Image `y`, which extends `x`."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.folder = folders.image.with_name("y")
        self.folder.mkdir()
        self.says("extends: x\n")

    def says(self, text: str) -> None:
        (self.folder / "recipe.yaml").write_text(text)

    def read(self) -> Recipe:
        return read_recipe(self.folder, self.folders.playbooks)


@pytest.fixture
def extending(folders: Folders) -> Extending:
    return Extending(folders)


def test_a_recipe_that_extends_another_is_that_one_and_what_it_says_more(extending: Extending) -> None:
    assert extending.read() == read_recipe(extending.folders.image, extending.folders.playbooks)
    extending.says("extends: x\npackages: [udev]\nroles: [two]\nusers: {ada: {uid: 2000}}\nsize_mib: 300\n")
    recipe = extending.read()
    assert recipe.packages == ("munge", "udev")
    assert recipe.roles == ("one", "two")
    assert {name: user.uid for name, user in recipe.users.items()} == {"munge": 980, "ada": 2000}
    assert (recipe.release, recipe.size_mib) == ("bookworm", 300)


def test_splitting_a_recipe_in_two_changes_no_image(folders: Folders) -> None:
    rewrite(folders.recipe, "[munge]", "[munge, udev]")
    folders.lock.write_text(render_lock(a_lock(requested=("munge", "udev"))))
    before = folders.read().digest
    rewrite(folders.recipe, "[munge, udev]", "[munge]")
    extending = Extending(folders)
    extending.says("extends: x\npackages: [udev]\n")
    (extending.folder / "packages.lock").write_text(render_lock(a_lock(requested=("munge", "udev"))))
    made = read_source(extending.folder, folders.playbooks, architecture="amd64", environment={})
    assert made.digest == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("extends: z\n", "extends: 'z'; allowed: x$"),
        ("extends: y\n", r"extends: 'y'; allowed: x \(they would extend each other\)"),
        ("extends: [x]\n", r"extends: \['x'\]; allowed: the name of an image beside this one"),
        ("extends: ../x\n", r"extends: '../x'; allowed: x$"),
        (
            "extends: x\nrelease: bookworm\n",
            "release: it is that of x, which this recipe extends; leave it out",
        ),
        ("extends: x\nroles: [one]\n", "roles: .* allowed: each role once"),
        ("extends: x\nusers: {ada: {uid: 980}}\n", "munge and ada both have 980"),
        ("extend: x\n", r"extend: there is no such key \(did you mean extends\?\)"),
    ],
)
def test_what_cannot_be_extended_is_told(extending: Extending, text: str, told: str) -> None:
    extending.says(text)
    with pytest.raises(RecipeError, match=told):
        extending.read()


def test_recipes_that_extend_each_other_and_mistakes_below_are_told_where_they_are(
    extending: Extending,
) -> None:
    extending.folders.recipe.write_text("extends: y\n")
    with pytest.raises(
        RecipeError, match=r"images/x/recipe.yaml: 1 mistake\n  extends: 'y'; allowed: nothing"
    ):
        extending.read()
    extending.folders.recipe.write_text(RECIPE.replace("bookworm", "woody"))
    with pytest.raises(RecipeError, match=r"images/x/recipe.yaml: 1 mistake\n  release: 'woody'"):
        extending.read()


def test_variants_of_an_image_hold_its_software_in_its_versions() -> None:
    """What is locked for debian-12 is locked for those that extend it: else they would not be one image."""

    def locked(name: str) -> dict[str, str]:
        lock = parse_lock((ROOT / "images" / name / "packages.lock").read_text(), origin=name)
        return {package.name: package.version for package in lock.packages}

    bases = {"debian-12-vm": "debian-12", "debian-12-cloud": "debian-12-vm", "debian-12-dev": "debian-12"}
    for name, base in bases.items():
        assert locked(base).items() <= locked(name).items()
