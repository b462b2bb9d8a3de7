"""The digest changes with what matters, and with nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.images.conftest import ROOT, a_lock
from tidepool.images import ImageSource, LockError, RecipeError, read_source, render_lock
from tidepool.images import source as source_module

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
        return read_source(self.image, self.playbooks, architecture="amd64")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


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


def test_the_images_of_the_repository_are_whole() -> None:
    folders = sorted((ROOT / "images").glob("*/"))
    assert folders
    for folder in folders:
        assert read_source(folder, ROOT / "playbooks", architecture="amd64").digest
