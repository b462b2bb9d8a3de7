"""`tidepool image`, on recipes in a folder and images in a store that are small and not built by anything."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.standins import Person
from tests.images.conftest import a_lock
from tidepool.cli import errors
from tidepool.images import Image, ImageStore, LockedPackage, Machine, read_source, render_lock
from tidepool.images.store import root_sha256

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an image is root's: run the tests with sudo")

RECIPE = "release: bookworm\npackages: [munge]\n"


class Images:
    """Somebody's project with the recipes `small` and `big`, which extends it."""

    def __init__(self, somebody: Person, tmp_path: Path) -> None:
        self.somebody = somebody
        self.store = ImageStore(tmp_path / "store")
        self.project = somebody.context.cwd
        self.says("small", RECIPE)
        self.says("big", "extends: small\n")

    def says(self, name: str, recipe: str, **lock: Any) -> None:
        folder = self.project / "images" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "recipe.yaml").write_text(recipe)
        (folder / "packages.lock").write_text(
            render_lock(a_lock(**{"epoch": 1_700_000_000 + len(name), **lock}))
        )

    def digest(self, name: str) -> str:
        folder = self.project / "images" / name
        return read_source(folder, self.project / "playbooks", architecture="amd64", environment={}).digest

    def put(self, name: str, digest: str | None = None, version: str = "0.5.15-2") -> Image:
        """An image in the store, with one file, as a build leaves it."""
        digest = digest or self.digest(name)
        root = self.store.partial(digest) / "root"
        (root / "etc").mkdir(parents=True)
        (root / "etc/motd").write_text(name)
        fields = {"name": name, "release": "bookworm", "architecture": "amd64", "epoch": 1_700_000_000}
        more = {"size_mib": 256, "root_bytes": 3 << 20, "packages": [["munge", version, "amd64"]]}
        return self.store.finish(digest, {**fields, **more, "root_sha256": root_sha256(root)})

    def runs(self, *words: str, **context: Any) -> Any:
        env = {
            **self.somebody.context.env,
            "TIDEPOOL_IMAGES": str(self.store.folder),
            "PATH": os.environ["PATH"],
        }
        return self.somebody.runs("image", *words, **{"env": env, **context})

    def told(self, *words: str) -> Any:
        return json.loads(self.runs(*words, "--json").stdout)


@pytest.fixture
def images(somebody: Person, tmp_path: Path) -> Images:
    if Machine(dict(os.environ)).architecture() != "amd64":
        pytest.skip("its locks are for amd64")
    return Images(somebody, tmp_path)


def test_a_list_tells_what_is_built_what_is_not_what_is_old_and_what_is_wrong(images: Images) -> None:
    images.put("small")
    images.put("small", "f" * 64)
    images.says("broken", "release: woody\n")
    told = {(each["name"], each["state"]) for each in images.told("list")}
    assert told == {("small", "built"), ("small", "old"), ("big", "not built"), ("broken", "wrong")}
    said = images.runs("list")
    assert said.exit_code == errors.OK
    assert "broken/recipe.yaml: 2 mistakes" in said.output
    assert images.digest("small")[:12] in said.output


def test_an_image_is_shown_by_name_and_by_digest_built_or_not(images: Images) -> None:
    small = images.put("small")
    told = images.told("show", "small")
    assert told == images.told("show", small.digest[:8])
    assert told["packages"] == [{"name": "munge", "version": "0.5.15-2", "architecture": "amd64"}]
    assert (told["state"], told["root"], told["boots"]) == ("built", str(small.root), False)
    told = images.told("show", "big")
    assert (told["state"], told["root"], told["boots"], told["files"]) == ("not built", None, None, [])
    assert [package["name"] for package in told["packages"]] == ["munge"]
    assert "munge" in images.runs("show", "small").output


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("show", "smal"), errors.USAGE, "there is no image of that name or digest; there are big, small"),
        (("build", "nothing"), errors.USAGE, "there is no image of that name"),
        (("build", "small", "--form", "vhd"), errors.USAGE, "'vhd' is not one of"),
        (
            ("build", "small", "--form", "disk"),
            errors.FAILED,
            "its recipe has no role boot. Take an image that extends",
        ),
        (("verify", "small"), errors.NOT_THERE, "remedy: `tidepool image build small`"),
        (("lock", "nothing"), errors.FAILED, "nothing/recipe.yaml: 1 mistake"),
    ],
)
def test_what_cannot_be_done_is_told_with_what_can(
    images: Images, words: tuple[str, ...], code: int, told: str
) -> None:
    said = images.runs(*words)
    assert said.exit_code == code, said.output
    assert told in said.output
    assert not images.store.folder.exists() or not list(images.store.folder.glob("?" * 64))


def test_a_recipe_with_mistakes_is_told_with_all_of_them(images: Images) -> None:
    images.says("broken", "release: woody\nsize_mib: 1\n")
    said = images.runs("show", "broken")
    assert said.exit_code == errors.USAGE
    assert "3 mistakes" in said.output
    assert "size_mib: 1; allowed: 256 to 1048576 (MiB)" in said.output


def test_digests_that_begin_alike_are_told_apart(images: Images) -> None:
    images.put("small", "f" * 64)
    images.put("small", "f" * 63 + "0")
    said = images.runs("show", "ff")
    assert said.exit_code == errors.USAGE
    assert "several images begin so" in said.output


def test_a_difference_is_told_by_package_and_by_the_exit_code(images: Images) -> None:
    assert images.runs("diff", "small", "big").exit_code == errors.OK
    old = images.put("small", "f" * 64, version="0.5.14-1")
    said = images.runs("diff", "ffff", "small")
    assert said.exit_code == errors.FAILED
    assert "munge" in said.output
    assert "0.5.14-1" in said.output
    told = images.told("diff", "ffff", "small")
    assert told["before"] == {"name": "small", "digest": old.digest}
    assert told["packages"] == [{"name": "munge", "before": "0.5.14-1", "after": "0.5.15-2"}]


@pytest.mark.parametrize(
    "harm",
    [
        lambda image: (image.root / "etc/motd").write_text("more"),
        lambda image: (image.root / "etc/more").touch(),
        lambda image: (image.root / "etc/motd").unlink(),
        lambda image: (image.root / "etc/motd").chmod(0o4755),
        lambda image: os.chown(image.root / "etc/motd", 1, 1),
        lambda image: os.utime(image.root / "etc/motd", (0, 0)),
    ],
    ids=["content", "a file more", "a file less", "a mode", "an owner", "a time"],
)
def test_what_was_changed_since_it_was_built_is_found(images: Images, harm: Any) -> None:
    image = images.put("small")
    assert images.runs("verify").exit_code == errors.OK
    assert images.runs("verify", "small").exit_code == errors.OK
    harm(image)
    said = images.runs("verify", "small")
    assert said.exit_code == errors.FAILED
    assert f"remove {image.folder}, and build again" in said.output
    (verdict,) = images.told("verify")
    assert (verdict["what"], verdict["well"]) == ("root", False)


def test_a_form_that_was_changed_is_found_and_the_others_are_well(images: Images) -> None:
    image = images.put("small")
    for form in ("tar", "oci"):
        (image.folder / f"image.{form}").write_text(form)
        sha256 = hashlib.sha256(form.encode()).hexdigest()
        (image.folder / f"image.{form}.sha256").write_text(f"{sha256}  image.{form}\n")
    assert {each["form"] for each in images.told("show", "small")["files"]} == {"tar", "oci"}
    assert images.runs("verify").exit_code == errors.OK
    (image.folder / "image.oci").write_text("0ci")
    assert images.runs("verify").exit_code == errors.FAILED
    assert {each["what"]: each["well"] for each in images.told("verify")} == {
        "root": True,
        "tar": True,
        "oci": False,
    }


def test_an_image_of_before_is_neither_well_nor_changed(images: Images) -> None:
    image = images.put("small")
    manifest = json.loads((image.folder / "manifest.json").read_text())
    del manifest["root_sha256"]
    (image.folder / "manifest.json").write_text(json.dumps(manifest))
    said = images.runs("verify")
    assert said.exit_code == errors.OK
    assert "unknown" in said.output


def test_what_touches_images_needs_root(images: Images) -> None:
    for words in (("build", "small"), ("lock", "small"), ("verify",)):
        said = images.runs(*words, root=False)
        assert said.exit_code == errors.LACKS
        assert "run it with sudo" in said.output
    assert images.runs("list", root=False).exit_code == errors.OK


def test_the_folder_may_be_named_and_need_not_be_the_one_that_a_person_is_in(
    images: Images, tmp_path: Path
) -> None:
    said = images.runs("show", "small", "--json", "-C", str(images.project), cwd=tmp_path)
    assert json.loads(said.stdout)["name"] == "small"
    said = images.runs("list", cwd=tmp_path)
    assert said.exit_code == errors.USAGE


def test_images_are_removed_by_name_and_digest(images: Images) -> None:
    small, big = images.put("small"), images.put("big")
    kept = images.put("small", "f" * 64)
    assert images.runs("remove", "small", big.digest[:12]).exit_code == errors.USAGE  # nobody to ask
    declined = images.runs("remove", "small", "big", person=True, input="n\n")
    assert f"small {small.digest[:12]}" in declined.stderr
    assert {image.digest for image in images.store.images()} == {small.digest, big.digest, kept.digest}
    removed = images.told("remove", "small", big.digest[:12], "--yes")["removed"]
    assert {(each["name"], each["bytes"] > 0) for each in removed} == {("small", True), ("big", True)}
    assert [image.digest for image in images.store.images()] == [kept.digest]
    assert images.runs("remove", "small", "--yes").exit_code == errors.NOT_THERE
    assert images.runs("remove", "--yes").exit_code == errors.USAGE
    assert images.runs("remove", "small", "--old", "--yes").exit_code == errors.USAGE


def test_what_a_machine_stands_on_stays(images: Images, tmp_path: Path) -> None:
    current, used, old = images.put("small"), images.put("small", "e" * 64), images.put("small", "f" * 64)
    for name in ("upper", "work", "over"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={used.root},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    mounts = ["mount", "-t", "overlay", "over", "-o", layers, str(tmp_path / "over")]
    # In mounts of its own, as a machine's are; `up` is told once it is there, and it ends with its input.
    script = '"$@" && echo up && read -r _'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *mounts]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as machine:
        assert machine.stdout is not None
        assert machine.stdout.readline() == "up\n"
        refused = images.runs("remove", "eeee", "ffff", "--yes")
        assert refused.exit_code == errors.FAILED
        assert f"machines here stand on small {'e' * 12}, by process {machine.pid}" in refused.stderr
        assert len(images.store.images()) == 3
        rest = images.runs("remove", "--old", "--yes")
        assert f"{'e' * 12} stays" in rest.stderr
        assert {image.digest for image in images.store.images()} == {current.digest, used.digest}
        machine.communicate("\n", timeout=30)
    assert old.digest not in {image.digest for image in images.store.images()}
    # A recipe with a mistake may lead to it once it is mended.
    images.says("small", "release: woody\n")
    assert f"{'e' * 12} stays: its recipe cannot be read" in images.runs("remove", "--old", "--yes").stderr
    images.says("small", RECIPE)
    assert images.runs("remove", "--old", "--yes").exit_code == errors.OK
    assert [image.digest for image in images.store.images()] == [current.digest]


def test_packages_are_shown_and_cleared_but_for_those_that_something_names(images: Images) -> None:
    for name in ("a" * 64, "b" * 64):  # the first is that of the recipes' locks
        images.store.deb(name).parent.mkdir(parents=True, exist_ok=True)
        images.store.deb(name).write_bytes(b"x" * 1000)
    told = images.told("packages")
    assert (told["packages"], told["bytes"], told["unused"], told["unused_bytes"]) == (2, 2000, 1, 1000)
    assert "named by no recipe and no image: 1 packages" in images.runs("packages").output
    assert images.runs("packages", "--clear", root=False).exit_code == errors.LACKS
    assert images.told("packages", "--clear")["unused"] == 1
    assert [path.stem for path in images.store.packages()] == ["a" * 64]
    assert images.told("packages")["unused"] == 0


def test_a_lock_that_is_kept_here_is_told_and_brought_into_the_recipe(images: Images) -> None:
    committed = a_lock(epoch=1_700_000_000 + len("small"))
    newer = LockedPackage("munge", "0.5.15-3", "amd64", 1000, "c" * 64)
    kept = replace(committed, epoch=1_800_000_000, packages=(newer,))
    images.store.save_renewed_lock(committed, kept)
    told = images.told("show", "small")
    assert (
        "1 of its packages changed (munge 0.5.15-2 -> 0.5.15-3); `tidepool image lock small`" in told["note"]
    )
    assert told["packages"] == [{"name": "munge", "version": "0.5.15-3", "architecture": "amd64"}]
    assert "lock kept here" in images.runs("list").output
    said = images.told("lock", "small")
    assert (said["changed"], said["packages"]) == (True, 1)
    after = images.told("show", "small")
    assert (after["note"], after["digest"]) == ("", told["digest"])
