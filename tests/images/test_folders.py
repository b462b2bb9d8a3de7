"""Folders of a person's come into an image as they are, and the image's digest follows them."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.images.conftest import a_lock
from tidepool.images import ImageError, ImageSource, RecipeError, parse_recipe, read_source, render_lock
from tidepool.images.contents import write_folders
from tidepool.images.folders import find_folder

RECIPE = "release: bookworm\npackages: [munge]\nfolders: {/opt/soft: soft}\n"


@pytest.fixture
def soft(tmp_path: Path) -> Path:
    folder = tmp_path / "soft"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/run").write_text("#!/bin/sh\n")
    (folder / "bin/run").chmod(0o700)
    (folder / "lib").mkdir()
    (folder / "lib/libsoft.so.1").write_bytes(b"\x7fELF")
    (folder / "lib/libsoft.so").symlink_to("libsoft.so.1")
    return folder


@pytest.fixture
def source(tmp_path: Path, soft: Path) -> Callable[[], ImageSource]:
    image = tmp_path / "images/x"
    image.mkdir(parents=True)
    (image / "recipe.yaml").write_text(RECIPE)
    (image / "packages.lock").write_text(render_lock(a_lock()))
    (tmp_path / "playbooks/roles").mkdir(parents=True)
    environment = {"TIDEPOOL_FOLDER_SOFT": str(soft)}
    return lambda: read_source(
        image, tmp_path / "playbooks", architecture="amd64", environment=environment if soft.exists() else {}
    )


def test_an_image_has_the_files_of_a_folder_and_they_are_root_s(
    source: Callable[[], ImageSource], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    write_folders(root, source())
    run, library, link = (
        root / "opt/soft" / name for name in ("bin/run", "lib/libsoft.so.1", "lib/libsoft.so")
    )
    assert (run.read_text(), run.stat().st_mode & 0o7777) == ("#!/bin/sh\n", 0o755)
    assert (library.read_bytes(), library.stat().st_mode & 0o7777) == (b"\x7fELF", 0o644)
    assert os.readlink(link) == "libsoft.so.1"
    assert {path.stat().st_uid for path in root.rglob("*")} == {os.geteuid()}


def test_a_folder_that_became_another_is_not_taken(
    source: Callable[[], ImageSource], soft: Path, tmp_path: Path
) -> None:
    read = source()
    (soft / "bin/run").write_text("another")
    with pytest.raises(ImageError, match=r"soft became another while the image was built"):
        write_folders(tmp_path / "root", read)


def test_files_that_packages_have_there_are_not_mixed_with_it(
    source: Callable[[], ImageSource], tmp_path: Path
) -> None:
    other = tmp_path / "root/opt/soft/other"
    other.parent.mkdir(parents=True)
    other.touch()
    with pytest.raises(ImageError, match=r"or .*/opt/soft was not empty"):
        write_folders(tmp_path / "root", source())


@pytest.mark.parametrize(
    "change",
    [
        lambda soft: (soft / "bin/run").write_text("another"),
        lambda soft: (soft / "bin/run").chmod(0o644),
        lambda soft: (soft / "bin/run").rename(soft / "bin/walk"),
        lambda soft: (soft / "new").touch(),
        lambda soft: (
            (soft / "lib/libsoft.so").unlink(),
            (soft / "lib/libsoft.so").symlink_to("libsoft.so.2"),
        ),
    ],
    ids=["content", "mode", "name", "a file more", "link"],
)
def test_the_digest_follows_what_is_in_the_folder(
    source: Callable[[], ImageSource], soft: Path, change: Callable[[Path], object]
) -> None:
    before = source().digest
    change(soft)
    assert source().digest != before


def test_the_digest_does_not_follow_where_it_is_or_when_it_was_made(
    source: Callable[[], ImageSource], soft: Path, tmp_path: Path
) -> None:
    before = source()
    moved = tmp_path / "elsewhere"
    shutil.copytree(soft, moved, symlinks=True)
    os.utime(moved / "bin/run", (0, 0))
    (moved / "lib/__pycache__").mkdir()
    (moved / "lib/__pycache__/x.pyc").write_bytes(b"of this run")
    there = replace(before, folders=(find_folder("soft", {"TIDEPOOL_FOLDER_SOFT": str(moved)}),))
    assert there.digest == before.digest


def test_a_folder_that_is_not_there_is_told_with_the_remedy(
    source: Callable[[], ImageSource], soft: Path, tmp_path: Path
) -> None:
    shutil.rmtree(soft)
    with pytest.raises(
        ImageError, match=r"image x: TIDEPOOL_FOLDER_SOFT does not say where the folder soft is"
    ):
        source()
    soft.touch()
    with pytest.raises(
        ImageError, match=r"image x: .*/soft, which TIDEPOOL_FOLDER_SOFT names, is no folder; set"
    ):
        source()
    soft.unlink()
    soft.mkdir()
    with pytest.raises(ImageError, match="has no file; install into it"):
        source()


def test_an_image_takes_no_socket(
    source: Callable[[], ImageSource], soft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(soft)  # as addresses of sockets are short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("talk")
        with pytest.raises(ImageError, match=r"talk is no file, link or folder; .*: remove it"):
            source()


@pytest.mark.parametrize(
    ("folders", "told"),
    [
        ("{/opt/soft: Soft}", "names of lower-case letters, digits and '_', at most 32; not 'Soft'"),
        ("{opt/soft: soft}", "an absolute path"),
        ("{/opt/../soft: soft}", "an absolute path"),
    ],
)
def test_mistakes_about_folders_are_told(folders: str, told: str) -> None:
    with pytest.raises(RecipeError, match=rf"folders: .*{told}"):
        parse_recipe(f"release: bookworm\npackages: [munge]\nfolders: {folders}\n", origin="x")


def test_recipes_without_folders_are_what_they_were() -> None:
    assert "folders" not in parse_recipe("release: bookworm\npackages: [munge]\n", origin="x").plain
