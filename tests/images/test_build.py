"""Images that are really built, by mmdebstrap and Ansible, from the machine's own mirror."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.images.conftest import ROOT, Built, builder
from tests.test_project import registry_hosts
from tidepool.images import (
    BuildFailed,
    Form,
    ImageError,
    ImageStore,
    MirrorError,
    MissingTool,
    Phase,
    build,
    export,
    lock,
    parse_recipe,
)
from tidepool.images.__main__ import main
from tidepool.images.contents import write_tools

pytestmark = pytest.mark.slow


@pytest.fixture
def store(built: Built, tmp_path: Path) -> ImageStore:
    """An empty store that has the packages already."""
    return store_with_packages(built, tmp_path / "store")


def store_with_packages(built: Built, folder: Path) -> ImageStore:
    shutil.copytree(built.store.folder / "debs", folder / "debs", copy_function=os.link)
    return ImageStore(folder)


def test_the_second_build_does_nothing(built: Built) -> None:
    # Of this image alone: others work in the store meanwhile.
    manifest = built.image.root.parent / "manifest.json"
    before = manifest.stat().st_mtime_ns
    image = build(built.source, built.store, built.machine, observe=lambda p: pytest.fail(str(p)))
    assert image == built.image
    assert manifest.stat().st_mtime_ns == before


def test_progress_goes_forward_through_the_phases(built: Built) -> None:
    order = list(Phase)
    assert {p.phase for p in built.progress} == set(order) - {Phase.WAIT, Phase.WRITE}
    for phase in order:
        fractions = [p.fraction for p in built.progress if p.phase is phase]
        assert all(0 <= one <= other <= 1 for one, other in pairwise(fractions))
    roles = [p.text for p in built.progress if p.phase is Phase.ROLES]
    assert "sshd : Log in by key alone" in roles


def test_the_image_holds_just_what_is_locked(built: Built) -> None:
    locked = {(package.name, package.version) for package in built.source.lock.packages}
    assert {(package.name, package.version) for package in built.image.packages} == locked
    assert {"munge", "openssh-server", "base-files"} <= {package.name for package in built.image.packages}


def test_accounts_have_their_numbers_and_so_have_the_files_of_packages(built: Built) -> None:
    passwd = (built.image.root / "etc/passwd").read_text()
    for line in (
        "munge:x:980:980::/nonexistent:/usr/sbin/nologin",
        "sshd:x:982:65534::/run/sshd:/usr/sbin/nologin",
        "ada:x:2000:2000::/home/ada:/bin/bash",
    ):
        assert line in passwd.splitlines()
    munge = (built.image.root / "etc/munge").stat()
    assert (munge.st_uid, munge.st_gid, stat.S_IMODE(munge.st_mode)) == (980, 980, 0o700)
    assert (built.image.root / "home/ada").stat().st_uid == 2000
    shadow = (built.image.root / "etc/shadow").read_text()
    assert not re.search(r"(?m)^[^:]+:[^*!]", shadow), "an account has a password, or none is needed"


def test_roles_and_files_are_in_the_image(built: Built) -> None:
    assert (
        "PasswordAuthentication no" in (built.image.root / "etc/ssh/sshd_config.d/tidepool.conf").read_text()
    )
    motd = built.image.root / "etc/motd"
    assert (motd.read_text(), motd.stat().st_uid) == ("made by a test\n", 980)
    assert stat.S_IMODE(motd.stat().st_mode) == 0o600


def test_tools_and_containers_are_in_the_image_and_in_its_manifest(built: Built) -> None:
    kubelet = built.image.root / "usr/lib/tools/kubelet"
    assert (kubelet.read_text(), stat.S_IMODE(kubelet.stat().st_mode)) == ("kubelet\n", 0o755)
    with tarfile.open(built.image.root / "usr/share/tidepool/containers/tidepool_small_1.tar") as archive:
        layer = archive.extractfile("layer.tar")
        assert layer is not None
        with tarfile.open(fileobj=layer) as inside:
            assert inside.getnames() == ["pause", "sh"]
            assert inside.getmember("sh").size == (built.image.root / "usr/bin/dash").stat().st_size
    assert built.image.tools == ("kubelet", "pause")
    assert built.image.holds == ()


def test_a_tool_that_becomes_another_while_the_image_is_built_fails_it(built: Built, tmp_path: Path) -> None:
    changed = tuple(replace(tool, sha256="0" * 64) for tool in built.source.tools)
    with pytest.raises(ImageError, match="became another while the image was built: build it again"):
        write_tools(tmp_path, replace(built.source, tools=changed))
    recipe = built.source.recipe
    without = {
        name: c.model_copy(update={"files": {"/sh": "/usr/no"}}) for name, c in recipe.containers.items()
    }
    source = replace(built.source, recipe=recipe.model_copy(update={"containers": without}))
    with pytest.raises(ImageError, match="tidepool/small:1 asks for /usr/no, which is no file of the image"):
        write_tools(tmp_path, source)


def test_nothing_of_one_machine_or_of_the_build_is_in_the_image(built: Built) -> None:
    root = built.image.root
    assert (root / "usr/sbin/munged").exists()
    assert (root / "usr/sbin/sshd").exists()
    assert not list((root / "etc/munge").iterdir())
    assert not list((root / "etc/ssh").glob("ssh_host_*"))
    assert (root / "etc/machine-id").read_bytes() == b""
    for empty in ("dev", "proc", "run", "sys", "tmp", "var/tmp", "var/lib/munge"):
        assert list((root / empty).iterdir()) == [], empty
    # What packages bring is Debian's, and may well name Debian's own mirror.
    lists = (root / "var/lib/dpkg/info").glob("*.list")
    packaged = {line for path in lists for line in path.read_text().splitlines()}
    places = [*registry_hosts(), str(built.store.folder), str(ROOT), "PRIVATE KEY-----"]
    foreign = re.compile(
        "|".join([*map(re.escape, places), rf"(?m:^{re.escape(os.uname().nodename)}$)"]).encode()
    )
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    ours = [path for path in files if f"/{path.relative_to(root)}" not in packaged]
    assert len(ours) > 20
    found = [(path, match[0]) for path in ours if (match := foreign.search(path.read_bytes()))]
    assert found == []


def test_nothing_is_younger_than_the_lock(built: Built) -> None:
    epoch = built.source.lock.epoch
    assert max(path.lstat().st_mtime for path in built.image.root.rglob("*")) == epoch


def test_a_build_that_was_killed_and_two_builders_at_once_come_to_the_same_bytes(
    built: Built, tmp_path: Path
) -> None:
    """One test, as each of its builds takes as long as all other tests here together."""
    digest = built.source.digest
    store = store_with_packages(built, tmp_path / "store with a space")
    with builder(built.folder, store.folder) as killed:
        assert killed.stderr is not None
        assert any(line.startswith(Phase.CONFIGURE) for line in killed.stderr), "it never came that far"
        killed.kill()
    # Nothing is taken for whole.
    assert store.find(digest) is None
    names = {path.name for path in store.folder.iterdir()} - {"debs", "locks", "logs"}
    assert names == {f"{digest}.partial"}
    # The second of two waits, and takes what the first made.
    with builder(built.folder, store.folder) as one, builder(built.folder, store.folder) as other:
        outputs = [each.communicate(timeout=300) for each in (one, other)]
    image = store.find(digest)
    assert image is not None, outputs
    assert [root for root, _ in outputs] == [f"{image.root}\n"] * 2
    assert sorted(Phase.UNPACK in said for _, said in outputs) == [False, True]
    # What was cut off is gone, and so is what it had mounted.
    assert not store.partial(digest).exists()
    assert "store\\040with" not in Path("/proc/self/mounts").read_text()
    # Another place, another time, the same bytes.
    forms: tuple[Form, ...] = ("tar", "ext4")
    for form in forms:
        mine = export(built.image, form, built.store, built.machine)
        theirs = export(image, form, store, built.machine)
        assert mine.sha256 == theirs.sha256, f"{form}: {difference(built.image.root, image.root)}"
    store.remove(digest)
    assert {path.name for path in store.folder.iterdir()} == {"debs", "locks", "logs"}
    assert list((store.folder / "logs").iterdir()) == []


def difference(one: Path, other: Path) -> str:
    done = subprocess.run(
        ["diff", "--recursive", "--brief", "--no-dereference", one, other],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_a_form_is_made_once_and_stands_beside_its_digest(built: Built) -> None:
    tar = export(built.image, "tar", built.store, built.machine)
    written = tar.path.stat().st_mtime_ns
    assert export(built.image, "tar", built.store, built.machine) == tar
    assert tar.path.stat().st_mtime_ns == written
    subprocess.run(["sha256sum", "--check", "--quiet", "image.tar.sha256"], cwd=tar.path.parent, check=True)
    names = subprocess.run(["tar", "--list", "--file", tar.path], check=True, capture_output=True, text=True)
    assert "./etc/ssh/sshd_config.d/tidepool.conf" in names.stdout.splitlines()


def test_ext4_is_whole_and_has_an_identity_of_its_own(built: Built) -> None:
    ext4 = export(built.image, "ext4", built.store, built.machine)
    assert ext4.path.stat().st_size == 512 * 2**20
    subprocess.run(["e2fsck", "-fn", ext4.path], check=True, capture_output=True)
    shown = subprocess.run(
        ["debugfs", "-R", "cat /etc/motd", ext4.path], check=True, capture_output=True, text=True
    )
    assert shown.stdout == "made by a test\n"


def test_qcow2_is_made_where_qemu_img_is_installed(built: Built) -> None:
    if shutil.which("qemu-img") is None:
        with pytest.raises(MissingTool, match="no qemu-img: run as root `apt-get install qemu-utils`"):
            export(built.image, "qcow2", built.store, built.machine)
    else:
        qcow2 = export(built.image, "qcow2", built.store, built.machine)
        subprocess.run(["qemu-img", "check", qcow2.path], check=True, capture_output=True)


def test_the_mirror_is_asked_only_for_what_is_not_here_and_says_what_it_has_no_more(
    built: Built, tmp_path: Path
) -> None:
    *others, old, other = built.source.lock.packages
    packages = (*others, replace(old, version="0.0-1", sha256="0" * 64), replace(other, sha256="1" * 64))
    source = replace(built.source, lock=replace(built.source.lock, packages=packages))
    store = store_with_packages(built, tmp_path / "store")
    with pytest.raises(MirrorError) as raised:
        build(source, store, built.machine)
    told = str(raised.value)
    assert re.search(rf"{old.name} 0\.0-1 \(the mirror has .*{re.escape(old.version)}", told)
    assert f"{other.name} {other.version} (the mirror has it with other bytes)" in told
    assert "Make the lock anew" in told
    assert len(told.splitlines()) == 4
    assert store.find(source.digest) is None


def test_a_release_that_the_machine_has_no_sources_of_is_refused(built: Built, store: ImageStore) -> None:
    machine = replace(built.machine, apt_folder=store.folder)
    with pytest.raises(
        MirrorError, match=r"no package sources of bookworm \(it has nothing\): add its suites"
    ):
        lock(built.source.recipe, store, machine, epoch=1)


def test_a_package_that_does_not_exist_is_told(built: Built) -> None:
    recipe = built.source.recipe.model_copy(update={"packages": ("no-such-package",)})
    with pytest.raises(MirrorError, match="Unable to locate package no-such-package"):
        lock(recipe, built.store, built.machine, epoch=1)


def test_a_build_that_fails_keeps_its_log_and_tells_the_end_of_it(built: Built, store: ImageStore) -> None:
    few = tuple(p for p in built.source.lock.packages if p.name in ("munge", "python3"))
    source = replace(built.source, lock=replace(built.source.lock, packages=few))
    with pytest.raises(BuildFailed, match="building image small failed with exit code") as raised:
        build(source, store, built.machine)
    assert raised.value.last_lines
    assert raised.value.last_lines[-1] in raised.value.log.read_text()
    assert store.find(source.digest) is None
    assert not store.partial(source.digest).exists()


def test_roles_without_python_are_refused_before_anything_is_built(built: Built, store: ImageStore) -> None:
    none = tuple(p for p in built.source.lock.packages if p.name != "python3")
    with pytest.raises(ImageError, match="add python3 to its packages"):
        build(replace(built.source, lock=replace(built.source.lock, packages=none)), store, built.machine)


def test_the_command_says_what_is_wrong_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(tmp_path), "--store", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/recipe.yaml: 1 mistake\n  there is no such file\n"


def test_a_package_may_be_another_release_s_and_nothing_else_is(built: Built, store: ImageStore) -> None:
    """Also: this machine's apt need not know either release, as its mirror has both."""
    recipe = parse_recipe(
        "release: trixie\npackages: [libmunge2, munge]\nfrom_release: {bookworm: [libmunge2, munge]}\n",
        origin="x",
    )
    made = lock(recipe, store, built.machine, epoch=1)
    version = {package.name: package.version for package in made.packages}
    # Bookworm's munge is 0.5.15, trixie's 0.5.16; Debian's base-files has the release's number.
    assert version["munge"].startswith("0.5.15-")
    assert version["munge"] == version["libmunge2"]
    assert made.requested == ("libmunge2/bookworm", "munge/bookworm")
    assert version["base-files"].startswith("13")
    assert version["libc6"].startswith("2.41-")
