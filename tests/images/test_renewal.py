"""Images outlive the versions that a mirror has: what is resolved instead of a lock, and when it is.

The mirror is the test's own, and has two moments of time. Nothing depends on what a real one has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.images.conftest import ROOT
from tests.images.mirror import Mirror, a_package
from tidepool.images import (
    Buildable,
    ImageError,
    ImageSource,
    ImageStore,
    Lock,
    LockError,
    Machine,
    MirrorError,
    MirrorSilent,
    build,
    buildable,
    known,
    lock,
    parse_lock,
    read_recipe,
    read_source,
    render_lock,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="asking a mirror makes namespaces, which needs root"
)
RECIPE = "release: trixie\npackages: [tool]\n"


class Site:
    """A machine with a mirror of ``base`` and ``tool`` 1.0, and a project with an image of them."""

    def __init__(self, folder: Path) -> None:
        self.mirror = Mirror.make(folder, base="1.0", tool="1.0", other="1.0")
        self.machine = self.mirror.machine
        self.store = ImageStore(folder / "store")
        self.image = folder / "images/x"
        self.playbooks = folder / "playbooks"
        self.image.mkdir(parents=True)
        (self.image / "recipe.yaml").write_text(RECIPE)
        self.write(
            lock(read_recipe(self.image, self.playbooks), self.store, self.machine, epoch=1_700_000_000)
        )

    def write(self, made: Lock) -> None:
        (self.image / "packages.lock").write_text(render_lock(made))

    def read(self) -> ImageSource:
        return read_source(
            self.image, self.playbooks, architecture=self.machine.architecture(), environment={}
        )

    def buildable(self) -> Buildable:
        return buildable(self.read(), self.store, self.machine)

    def moves_on(self) -> None:
        self.mirror.moves_on(base="1.0", tool="2.0", other="1.0")

    def downloads(self, source: ImageSource) -> None:
        """Put the packages of ``source`` into the store, as a build does."""
        for package in source.lock.packages:
            file = self.mirror.folder / f"{package.name}_{package.version}_all.deb"
            self.store.deb(package.sha256).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, self.store.deb(package.sha256))

    def makes(self, source: ImageSource) -> None:
        """Put an image of ``source`` into the store, as a build does."""
        partial = self.store.partial(source.digest)
        (partial / "root").mkdir(parents=True)
        (partial / "packages.lock").write_text(render_lock(source.lock))
        fields = {"name": "x", "release": "trixie", "architecture": "amd64", "epoch": source.lock.epoch}
        self.store.finish(source.digest, {**fields, "size_mib": 256, "root_bytes": 1, "packages": []})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def version_of(lock: Lock, name: str = "tool") -> str:
    return next(package.version for package in lock.packages if package.name == name)


def test_a_lock_that_the_mirror_still_has_is_taken_as_it_is(site: Site) -> None:
    assert site.buildable() == Buildable(site.read())
    assert not (site.store.folder / "renewed").exists()


def test_where_the_mirror_has_moved_on_it_is_resolved_anew_once_and_kept(site: Site) -> None:
    committed = site.read()
    site.moves_on()
    first = site.buildable()
    assert version_of(first.source.lock) == "2.0"
    assert version_of(first.source.lock, "base") == "1.0"
    assert first.source.digest != committed.digest
    assert "\n" not in first.note
    assert "image x: the mirror has moved on from its lock." in first.note
    assert (
        "1 of its packages changed (tool 1.0 -> 2.0); `tidepool image lock x` brings that into" in first.note
    )
    # The same lock, whenever it is asked for, and whatever else the mirror has by then that it could be of.
    assert site.buildable() == first == known(site.read(), site.store)
    site.mirror.lists([*site.mirror.folder.glob("*.deb"), a_package(site.mirror.folder, "tool", "3.0")])
    assert site.buildable() == first
    # That one is gone as well.
    site.mirror.moves_on(base="1.0", tool="3.0")
    again = site.buildable()
    assert version_of(again.source.lock) == "3.0"
    assert "tool 1.0 -> 3.0" in again.note


def test_nobody_is_asked_for_what_is_in_the_store(site: Site) -> None:
    """Neither for an image that was made before, nor for one whose packages were downloaded before."""
    committed = site.read()
    site.downloads(committed)
    site.mirror.goes()
    assert site.buildable() == Buildable(committed)
    shutil.rmtree(site.store.folder)
    with pytest.raises(MirrorSilent):
        site.buildable()
    site.makes(committed)
    assert site.buildable() == Buildable(committed)


def test_a_stack_keeps_its_image_whatever_comes_of_mirror_and_packages(site: Site) -> None:
    site.moves_on()
    renewed = site.buildable().source
    site.makes(renewed)
    site.mirror.moves_on(base="9.0", tool="9.0")
    site.store.clear([site.read().lock])
    assert site.buildable().source == renewed
    site.mirror.goes()
    assert site.buildable().source == renewed


def test_an_image_by_the_recipes_own_lock_goes_before_one_by_a_renewed_lock(site: Site) -> None:
    site.moves_on()
    site.makes(site.buildable().source)
    site.makes(site.read())
    assert site.buildable() == Buildable(site.read()) == known(site.read(), site.store)


def test_the_renewed_lock_is_brought_into_the_recipe_and_the_image_stays_the_same(site: Site) -> None:
    site.moves_on()
    renewed = site.buildable().source
    site.mirror.moves_on(base="1.0", tool="3.0")
    made = lock(site.read().recipe, site.store, site.machine, epoch=1, previous=site.read().lock)
    assert made == renewed.lock
    site.write(made)
    assert site.read().digest == renewed.digest
    # From there on the mirror is asked.
    made = lock(site.read().recipe, site.store, site.machine, epoch=1, previous=made)
    assert version_of(made) == "3.0"


def test_a_new_lock_of_the_recipe_has_no_part_in_what_was_kept_for_the_old_one(site: Site) -> None:
    site.moves_on()
    site.buildable()
    made = replace(site.read().lock, epoch=1_700_000_001)
    site.write(made)
    assert site.store.renewed_lock(made) is None


def test_a_renewed_lock_of_other_packages_is_not_brought_into_a_recipe_that_changed(site: Site) -> None:
    site.moves_on()
    site.buildable()
    before = site.read().lock
    (site.image / "recipe.yaml").write_text("release: trixie\npackages: [tool, other]\n")
    with pytest.raises(LockError, match=r"asks as well for other\. Make the lock anew: `tidepool image lock"):
        site.read()
    made = lock(read_recipe(site.image, site.playbooks), site.store, site.machine, epoch=1, previous=before)
    assert {package.name for package in made.packages} == {"base", "tool", "other"}


def test_a_recipe_that_is_locked_refuses_and_its_digest_is_the_same_as_without(site: Site) -> None:
    before = site.read()
    (site.image / "recipe.yaml").write_text(f"{RECIPE}locked: true\n")
    assert site.read().digest == before.digest
    assert site.buildable().source.digest == before.digest
    site.moves_on()
    with pytest.raises(MirrorError) as raised:
        site.buildable()
    assert "tool 1.0 (the mirror has 2.0)" in str(raised.value)
    assert "Make the lock anew: `tidepool image lock x`" in str(raised.value)
    assert not (site.store.folder / "renewed").exists()


def test_what_is_kept_does_not_make_up_for_a_lock_that_is_meant(site: Site) -> None:
    site.moves_on()
    site.makes(site.buildable().source)
    (site.image / "recipe.yaml").write_text(f"{RECIPE}locked: true\n")
    assert known(site.read(), site.store) == Buildable(site.read())
    with pytest.raises(MirrorError, match="does not have any more"):
        site.buildable()


def test_a_recipe_that_extends_a_locked_one_is_locked(site: Site) -> None:
    (site.image / "recipe.yaml").write_text(f"{RECIPE}locked: true\n")
    other = site.image.with_name("y")
    other.mkdir()
    (other / "recipe.yaml").write_text("extends: x\n")
    assert read_recipe(other, site.playbooks).locked
    (other / "recipe.yaml").write_text("extends: x\nlocked: false\n")
    assert not read_recipe(other, site.playbooks).locked


def test_several_who_ask_at_once_come_to_one_lock(site: Site) -> None:
    site.moves_on()
    found: list[Buildable] = []
    threads = [threading.Thread(target=lambda: found.append(site.buildable())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert found == found[:1] * 4


def test_a_renewed_lock_that_was_cut_off_is_made_anew(site: Site) -> None:
    site.moves_on()
    first = site.buildable()
    (path,) = (site.store.folder / "renewed").iterdir()
    path.write_text(path.read_text()[:100])
    assert version_of(site.buildable().source.lock) == version_of(first.source.lock)
    assert parse_lock(path.read_text(), origin="x").packages == first.source.lock.packages


def test_a_mirror_that_does_not_answer_is_told_and_nothing_is_kept(site: Site) -> None:
    site.mirror.goes()
    with pytest.raises(
        MirrorSilent, match=r"does not answer as it should\. `apt-get update` mends it or says why"
    ):
        site.buildable()
    assert not (site.store.folder / "renewed").exists()
    # It comes back.
    site.mirror.moves_on(base="1.0", tool="1.0")
    assert site.buildable().source.lock.packages


def test_a_mirror_whose_lists_are_out_of_date_is_not_believed(site: Site, tmp_path: Path) -> None:
    site.moves_on()
    site.mirror.lists(site.mirror.folder.glob("*.deb"), Valid_Until="Thu, 01 Jan 2015 00:00:00 UTC")
    strict = tmp_path / "strict.conf"
    strict.write_text('Dir::Etc::parts "/dev/null";\nAcquire::Check-Valid-Until "true";\n')
    machine = Machine({**os.environ, "APT_CONFIG": str(strict)}, site.machine.apt_folder)
    with pytest.raises(MirrorSilent, match="does not answer as it should"):
        buildable(site.read(), site.store, machine)
    assert not (site.store.folder / "renewed").exists()


def test_a_release_that_became_oldstable_is_the_same_release(site: Site) -> None:
    site.buildable()
    site.mirror.lists(site.mirror.folder.glob("*.deb"), Suite="oldstable", Label="Old", Version="13.9")
    assert site.buildable() == Buildable(site.read())


def test_packages_that_the_mirror_has_in_no_version_are_told(site: Site) -> None:
    site.mirror.moves_on(base="1.0")
    with pytest.raises(MirrorError, match=r"the mirror cannot give the recipe's packages: .*tool"):
        site.buildable()


def test_a_disk_that_is_full_is_told_with_the_remedy(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.downloads(site.read())

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/store")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(ImageError, match="/store: No space left on device; an image takes about 1 GB"):
        build(site.read(), site.store, site.machine)
    assert not site.store.partial(site.read().digest).exists()


def test_a_package_that_was_damaged_in_the_store_is_removed_and_told(site: Site) -> None:
    site.downloads(site.read())
    package = site.read().lock.packages[0]
    site.store.deb(package.sha256).write_bytes(b"x" * package.size)
    with pytest.raises(ImageError, match="was damaged, and is removed: build again"):
        build(site.read(), site.store, site.machine)
    assert [missing.name for missing in site.store.missing(site.read().lock.packages)] == [package.name]


def test_clearing_takes_what_nothing_names(site: Site) -> None:
    committed = site.read()
    site.downloads(committed)
    shutil.rmtree(site.store.folder / "debs")
    site.moves_on()
    renewed = site.buildable().source
    site.downloads(renewed)
    stray = site.store.deb(hashlib.sha256(b"stray").hexdigest())
    stray.write_bytes(b"stray")
    # By the recipe's lock, what is kept for it is named as well.
    assert site.store.unused([committed.lock]) == (stray,)
    # By an image, its packages are.
    site.makes(renewed)
    assert site.store.unused([]) == (stray,)
    assert site.store.clear([]) == (stray,)
    assert site.store.renewed_lock(committed.lock) == renewed.lock
    # By nothing.
    site.store.remove(renewed.digest)
    assert len(site.store.clear([])) == len(renewed.lock.packages) + 1
    assert site.store.packages() == ()
    assert site.store.renewed_lock(committed.lock) is None
    assert list((site.store.folder / "mirror").iterdir()) == []


def test_packages_may_be_fetched_before_anything_is_installed(site: Site, tmp_path: Path) -> None:
    """By a script that needs only apt; images/x is where it looks for it, beside its own folder."""
    script = tmp_path / "scripts/fetch-packages"
    script.parent.mkdir()
    shutil.copy(ROOT / "scripts/fetch-packages", script)
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "state/status").touch()
    (tmp_path / "apt.conf").write_text(
        f'Dir::State "{tmp_path}/state";\nDir::State::status "{tmp_path}/state/status";\n'
        f'Dir::Cache "{tmp_path}/cache";\nDir::Etc::parts "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::Etc::sourcelist "{site.machine.apt_folder}/sources.list";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf")}
    fetch = [str(script), "x", str(site.store.folder)]
    for command in (["apt-get", "update"], fetch, fetch):
        subprocess.run(command, env=environment, check=True, capture_output=True)
    lock = site.read().lock
    assert {path.stem for path in site.store.packages()} == {package.sha256 for package in lock.packages}
    assert [path.name for path in (site.store.folder / "debs").iterdir() if path.is_dir()] == []
    site.mirror.goes()
    assert site.buildable() == Buildable(site.read())
