"""Makes a root from a recipe, its lock and its roles; once for each digest.

packages   from the store of packages, else from the machine's mirror, by the lock's digests
mmdebstrap unpacks and configures them, from a repository that holds just them: no network, no other version
accounts   with fixed numbers, before the packages that would number them as they come
roles      by Ansible, in the chroot
tools      of the toolchain, and containers made of them
folders    of a person's, which no registry has
files      of the recipe
cleanup    what each machine has of its own, and what differs between builds, goes
rename     and it is whole
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

import yaml

from tidepool.images.apt import private_apt
from tidepool.images.contents import clean, write_files, write_folders, write_tools
from tidepool.images.errors import BuildFailed, ImageError, MirrorError
from tidepool.images.locked import MAKE_ANEW, InstalledPackage, Lock, LockedPackage, render_lock
from tidepool.images.machine import Machine, ansible_playbook, require, run
from tidepool.images.progress import BuildLines, Observer, Phase, Progress, unseen
from tidepool.images.recipe import Recipe, account_lines
from tidepool.images.renewal import MERGED
from tidepool.images.source import ImageSource
from tidepool.images.store import LOCK_FILE, Image, ImageStore, root_sha256, sha256_of

_BUILD_S: Final = 1800.0
_DPKG_DEB_S: Final = 60.0
#: Of an ar archive, which a package is (deb(5)): where the second member begins, the tar of `control`; bytes of its head.
_CONTROL_AT: Final = 8 + 60 + 4
_AR_HEAD: Final = 60
_LINKS: Final = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
#: Runs Ansible's modules; where it is in an image while roles are applied, with the package of them.
_RUNNER: Final = Path(__file__).with_name("ansible_module.py")
#: Where a root has Ansible's modules, and the program that runs them, while roles are applied.
MODULES: Final = "/run/tidepool-ansible"
#: Environment of those modules, beside the time that what is made should bear.
_MODULES_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"


def build(
    source: ImageSource,
    store: ImageStore,
    machine: Machine,
    *,
    observe: Observer = unseen,
    wait_s: float = _BUILD_S,
) -> Image:
    """Return the image of ``source``: from the store where it is there, which takes milliseconds; else built.

    Of two builders of one image the second waits, for ``wait_s`` at most, and takes what the first made.

    Raises:
        MissingTool: a program is missing, or root.
        MirrorError: the mirror does not have what is locked.
        BuildFailed: a program failed; with the end of what it said, and where all of it is.
        ImageError: another build went on for too long, or there are roles and no Python to apply them with.
    """
    digest = source.digest
    if (image := store.find(digest)) is not None:
        return image
    require("mmdebstrap", "apt-get", "dpkg-deb", "setpriv", "unshare")
    if source.recipe.roles:
        ansible_playbook()
        if not any(package.name == "python3" for package in source.lock.packages):
            raise ImageError(
                f"image {source.name} has roles, which Ansible applies with the image's own Python: "
                f"add python3 to its packages, then: {MAKE_ANEW}"
            )
    with store.locked(
        digest, on_wait=lambda: observe(Progress(Phase.WAIT, 0.0)), timeout_s=wait_s
    ) as lock_descriptor:
        if (image := store.find(digest)) is not None:
            return image
        store.clear_partial(digest)
        try:
            return _build(source, store, machine, observe, lock_descriptor)
        except ImageError:
            # All that ran has ended. The log stays.
            store.clear_partial(digest)
            raise
        except OSError as error:
            store.clear_partial(digest)
            raise ImageError(
                f"{error.filename or store.folder}: {error.strerror}; an image takes about 1 GB of {store.folder} while it is "
                "built (`tidepool image packages --clear` frees some of it, TIDEPOOL_IMAGES names another folder)"
            ) from error


def _build(
    source: ImageSource, store: ImageStore, machine: Machine, observe: Observer, lock_descriptor: int
) -> Image:
    log = store.log(source.digest)
    log.unlink(missing_ok=True)
    # It names the mirror.
    log.touch(0o600)
    partial = store.partial(source.digest)
    (partial / "work").mkdir(parents=True)
    # From here on its packages are named by it, and stay.
    (partial / LOCK_FILE).write_text(render_lock(source.lock))
    _fetch_packages(source, store, machine, log, partial / "work", observe)
    _make_root(source, store, partial, log, observe, lock_descriptor)
    observe(Progress(Phase.CLEAN, 0.0))
    root = partial / "root"
    write_tools(root, source)
    write_folders(root, source)
    write_files(root, source.recipe.files)
    root_bytes = clean(root, source.lock.epoch)
    packages = _installed(root)
    _compare(packages, source.lock, log)
    shutil.rmtree(partial / "work")
    log.rename(partial / "build.log")
    manifest = {
        "name": source.name,
        "release": source.recipe.release,
        "architecture": source.lock.architecture,
        "epoch": source.lock.epoch,
        "size_mib": source.recipe.size_mib,
        "root_bytes": root_bytes,
        "packages": [[p.name, p.version, p.architecture] for p in packages],
        "tools": [tool.name for tool in source.tools],
        "root_sha256": root_sha256(root),
    }
    return store.finish(source.digest, manifest)


def _fetch_packages(
    source: ImageSource, store: ImageStore, machine: Machine, log: Path, work: Path, observe: Observer
) -> None:
    lock = source.lock
    missing = store.missing(lock.packages)
    if not missing:
        return
    observe(Progress(Phase.ASK, 0.0))
    (store.folder / "debs").mkdir(parents=True, exist_ok=True)
    with (
        private_apt(machine, lock.release, store, source.recipe.from_release, log=log) as apt,
        tempfile.TemporaryDirectory(dir=work) as name,
    ):
        apt.refuse_what_is_gone(missing, source.name)
        apt.download(
            missing,
            Path(name),
            lambda n, what: observe(Progress(Phase.DOWNLOAD, min(1.0, n / len(missing)), what)),
        )
        fetched = {sha256_of(path): path for path in Path(name).glob("*.deb")}
        for package in missing:
            if package.sha256 not in fetched:
                raise MirrorError(
                    f"the mirror gave other bytes for {package.name} {package.version} than are locked"
                )
            fetched[package.sha256].rename(store.deb(package.sha256))


def _make_root(
    source: ImageSource, store: ImageStore, partial: Path, log: Path, observe: Observer, lock_descriptor: int
) -> None:
    work = partial / "work"
    repository = work / "repository"
    repository.mkdir(parents=True)
    _write_repository(source.lock.packages, store, repository)
    hooks = [f"--essential-hook={_accounts_hook(source.recipe, work)}"]
    if source.recipe.release != "bookworm" or any(p.name == MERGED for p in source.lock.packages):
        hooks.append(f"--setup-hook={_links_hook(source.lock.architecture, work)}")
    if source.recipe.roles:
        hooks.append(f"--customize-hook={_roles_hook(source, partial)}")
    command = ["mmdebstrap", "--mode=root", "--variant=essential", "--format=directory", "--verbose"]
    command += [f"--architectures={source.lock.architecture}"]
    command += [f"--include={','.join(package.name for package in source.lock.packages)}"]
    # Flushing each file to the disk is for machines that somebody works on; this one is renamed when it is whole.
    command += ["--dpkgopt=force-unsafe-io"]
    # The store may lie where only root can look.
    command += ['--aptopt=APT::Sandbox::User "root"']
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in source.recipe.leave_out]
    command += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"] if source.recipe.leave_out else []
    command += [*hooks, "", str(partial / "root"), f"deb [trusted=yes] copy:{quote(str(repository))} ./"]
    lines = BuildLines(packages=len(source.lock.packages), tasks=_count_tasks(source))

    def read(line: str) -> None:
        if (progress := lines.read(line)) is not None:
            observe(progress)

    run(
        command,
        what=f"building image {source.name}",
        log=log,
        environment={
            "PATH": _PATH,
            "HOME": str(work),
            "TMPDIR": str(work),
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            "SOURCE_DATE_EPOCH": str(source.lock.epoch),
            "PYTHONHASHSEED": "0",
        },
        timeout_s=_BUILD_S,
        on_line=read,
        inherited=(lock_descriptor,),
        flushes=False,
    )


def _write_repository(packages: Sequence[LockedPackage], store: ImageStore, folder: Path) -> None:
    """Write a repository of just these packages, for apt: the files, and a list of what they say of themselves."""

    def entry(package: LockedPackage) -> str:
        file = folder / f"{package.name}_{package.sha256[:12]}.deb"
        kept = store.deb(package.sha256)
        if sha256_of(kept) != package.sha256:
            kept.unlink()
            raise ImageError(
                f"{kept}, the file of {package.name} {package.version}, was damaged, and is removed: build again"
            )
        os.link(kept, file)
        more = f"Filename: ./{file.name}\nSize: {package.size}\nSHA256: {package.sha256}\n"
        return f"{_control(file).rstrip()}\n{more}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        entries = list(pool.map(entry, packages))
    (folder / "Packages").write_text("\n".join(entries))


def _control(deb: Path) -> str:
    """Return what a package says of itself. Of hundreds, a process for each would take ten times as long as reading them."""
    with deb.open("rb") as file:
        file.seek(_CONTROL_AT)
        head = file.read(_AR_HEAD)
        tar = io.BytesIO(file.read(int(head[48:58])))
    try:
        with (
            tarfile.open(fileobj=tar) as archive,
            archive.extractfile("./control") or io.BytesIO() as control,
        ):
            return control.read().decode()
    except (KeyError, tarfile.TarError):
        # Packed by what Python does not unpack, as packages of other distributions are.
        command = ["dpkg-deb", "--field", str(deb)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_DPKG_DEB_S).stdout


def _links_hook(architecture: str, work: Path) -> Path:
    links = _LINKS if architecture == "amd64" else ("bin", "lib", "sbin")
    return _script(
        work / "link", "".join(f'mkdir -p "$1/usr/{n}"\nln -s "usr/{n}" "$1/{n}"\n' for n in links)
    )


def _accounts_hook(recipe: Recipe, work: Path) -> Path:
    lines = account_lines(recipe.users)
    (work / "passwd").write_text(lines.passwd)
    (work / "group").write_text(lines.group)
    here = shlex.quote(str(work))
    return _script(
        work / "add-accounts", f'cat {here}/passwd >>"$1/etc/passwd"\ncat {here}/group >>"$1/etc/group"\n'
    )


def _roles_hook(source: ImageSource, partial: Path) -> Path:
    """Write a play of the recipe's roles for the one machine `image`, run by Ansible from outside of the chroot."""
    work, playbook = partial / "work", ansible_playbook()
    modules = ansible_modules(playbook)
    host = {
        "ansible_connection": "tidepool_chroot",
        "ansible_host": str(partial / "root"),
        "ansible_python_interpreter": f"{MODULES}/python" if modules else "/usr/bin/python3",
        "tidepool_module_runner": f"{MODULES}/python" if modules else "",
    }
    variables = {
        "tidepool_is_image": True,
        "tidepool_users": [{"name": n, **a.model_dump()} for n, a in source.recipe.users.items()],
    }
    play = {"hosts": "image", "gather_facts": False, "vars": variables, "roles": list(source.recipe.roles)}
    (work / "inventory.yaml").write_text(yaml.safe_dump({"all": {"hosts": {"image": host}}}))
    (work / "play.yaml").write_text(yaml.safe_dump([play]))
    environment = {
        "ANSIBLE_CONFIG": source.playbooks / "ansible.cfg",
        "ANSIBLE_ROLES_PATH": source.playbooks / "roles",
        "ANSIBLE_CONNECTION_PLUGINS": source.playbooks / "connection",
        "ANSIBLE_HOME": work / "ansible",
        "ANSIBLE_LOCAL_TEMP": work / "ansible/tmp",
        "ANSIBLE_NOCOLOR": 1,
    }
    command = ["env", *(f"{key}={value}" for key, value in environment.items()), str(playbook)]
    command += ["--inventory", str(work / "inventory.yaml"), str(work / "play.yaml")]
    if not modules:
        return _script(work / "apply-roles", f"exec {shlex.join(command)}\n")
    return _script(work / "apply-roles", f"{serve_modules(modules)}{shlex.join(command)}\n")


def serve_modules(modules: Sequence[Path]) -> str:
    """Return the lines of a hook that copy Ansible's modules into the root, and wait until a process there serves them."""
    runner = f"{MODULES}/python"
    serve = ["env", *(f"{key}={value}" for key, value in _MODULES_ENVIRONMENT.items()), runner, "--serve"]
    return (
        f'mkdir --parents "$1{MODULES}/ansible"\ninstall --mode=755 {shlex.quote(str(_RUNNER))} "$1{runner}"\n'
        f'cp --recursive --preserve=timestamps {shlex.join(map(str, modules))} "$1{MODULES}/ansible"\n'
        f"chroot \"$1\" {shlex.join(serve)} {runner}.socket &\ntrap 'kill '$! EXIT\n"
        f'until test -S "$1{runner}.socket"; do kill -0 $! || exit 1; sleep 0.05; done\n'
    )


def ansible_modules(playbook: Path) -> tuple[Path, ...]:
    """Return what of Ansible's package modules need, where ``playbook`` is of this interpreter's."""
    found = find_spec("ansible")
    if found is None or found.origin is None or playbook.parent != Path(sys.executable).parent:
        return ()
    package = Path(found.origin).parent
    return tuple(
        package / name for name in ("__init__.py", "release.py", "_vendor", "module_utils", "modules")
    )


def _script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\nset -eu\n{body}")
    path.chmod(0o755)
    return path


def _count_tasks(source: ImageSource) -> int:
    tasks = [file.path for file in source.role_files if re.search(r"/tasks/[^/]+\.ya?ml$", file.path)]
    texts = [(source.playbooks / "roles" / path).read_text() for path in tasks]
    return sum(len(re.findall(r"(?m)^- name:", text)) for text in texts)


def _installed(root: Path) -> tuple[InstalledPackage, ...]:
    stanzas = (root / "var/lib/dpkg/status").read_text().split("\n\n")
    found = []
    for stanza in stanzas:
        fields = dict(re.findall(r"(?m)^(Package|Version|Architecture|Status): (.*)$", stanza))
        if fields.get("Status", "").endswith(" installed"):
            found.append(InstalledPackage(fields["Package"], fields["Version"], fields["Architecture"]))
    return tuple(sorted(found, key=lambda package: package.name))


def _compare(packages: Sequence[InstalledPackage], lock: Lock, log: Path) -> None:
    locked = {(package.name, package.version) for package in lock.packages}
    there = {(package.name, package.version) for package in packages}
    if locked != there:
        differ = ", ".join(f"{name} {version}" for name, version in sorted(locked ^ there))
        raise BuildFailed(f"the image does not hold what is locked: {differ}", log, [])
