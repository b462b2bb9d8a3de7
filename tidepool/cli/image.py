"""`image`: golden images: build them, look at them, compare them, write them in other forms."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidepool import shipped
from tidepool.cli import errors, show
from tidepool.cli.context import Context
from tidepool.cli.errors import LACKS, NOT_THERE, Failure
from tidepool.cli.options import chosen, folder_option, json_option, yes_option

if TYPE_CHECKING:
    from tidepool.images import Entry, Image, ImageSource, ImageStore, Lock, Machine, Progress

_FORMS = ("tar", "ext4", "qcow2", "disk", "disk.qcow2", "iso", "oci")


def _names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        names = [each.name for each in _Images.of(context, None).catalog().entries]
    except Exception:  # noqa: BLE001  (a shell that completes shows no errors)
        return []
    return sorted({name for name in names if name.startswith(incomplete)})


class _Images:
    """The project's images and the store."""

    def __init__(self, context: Context, project: Path) -> None:
        from tidepool.images import ImageStore, Machine

        own = project / "images"
        self.folder = own if own.exists() else shipped.IMAGES
        self.playbooks = shipped.playbooks(project)
        self.store: ImageStore = ImageStore(context.images)
        self.machine: Machine = Machine(dict(context.env))
        self._context = context

    @classmethod
    def of(cls, context: click.Context, folder: str | None) -> _Images:
        from tidepool.engine.project import find_project

        choice = chosen(context)
        return cls(choice.context, find_project(choice.where(folder)).root)

    def catalog(self) -> Any:
        from tidepool.images import read_catalog

        return read_catalog(self.folder, self.playbooks, self.store, **self._target())

    def source(self, name: str) -> ImageSource:
        """Return the source of that name, with the lock of its recipe."""
        from tidepool.images import read_source

        return read_source(self.folder / name, self.playbooks, **self._target())

    def _target(self) -> dict[str, Any]:
        return {"architecture": self.machine.architecture(), "environment": self.machine.environment}

    def one(self, name: str) -> Entry:
        from tidepool.images import ImageError

        try:
            found: Entry = self.catalog().one(name)
        except ImageError as error:
            raise Failure(str(error), code=errors.USAGE) from error
        return found

    def locks(self) -> list[Lock]:
        """Return the locks of the project's recipes; those that cannot be read name nothing."""
        from tidepool.images import LOCK_FILE, LockError, parse_lock

        found = []
        for path in self.folder.glob(f"*/{LOCK_FILE}"):
            with contextlib.suppress(LockError):
                found.append(parse_lock(path.read_text(), origin=str(path)))
        return found

    def built(self, name: str) -> Image:
        entry = self.one(name)
        if entry.image is None:
            raise Failure(
                f"image {entry.name} is not built ({entry.digest[:12]} is not in {self.store.folder})",
                remedy=f"`tidepool image build {entry.name}`",
                code=NOT_THERE,
            )
        return entry.image

    def require_answer(self, yes: bool) -> None:
        if not yes and not self._context.person:
            raise Failure(
                "removing images is asked about, and there is no terminal to ask at",
                remedy="`tidepool image remove --yes`",
                code=errors.USAGE,
            )

    def require_root(self) -> None:
        if not self._context.root:
            raise Failure(
                "images are root's, as their files have many owners", remedy="run it with sudo", code=LACKS
            )


def _image_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """``--json`` and ``-C``; the verb's first argument is the `_Images` of that folder."""

    @json_option
    @folder_option("The project's folder.")
    @functools.wraps(verb)
    def with_images(*args: Any, folder: str | None, **more: Any) -> Any:
        return verb(_Images.of(click.get_current_context(), folder), *args, **more)

    return with_images


@click.group("image")
def image_verb() -> None:
    """Build golden images, show, compare and verify them, and write them in other forms."""


@image_verb.command("build")
@click.argument("name", shell_complete=_names)
@click.option("--form", "forms", multiple=True, type=click.Choice(_FORMS), help="Write it in this form too.")
@_image_options
def build_verb(images: _Images, name: str, forms: tuple[str, ...], as_json: bool) -> None:
    """Build the image NAME, where it is not in the store already, and write it in the wanted forms.

    Forms: tar; ext4 and qcow2, a file system; disk and disk.qcow2, a whole disk that boots by BIOS and UEFI; oci, a
    container image. What an image cannot be written as is refused before it is built.
    """
    source = images.one(name).source
    if source is None:
        raise Failure(
            f"{name}: no recipe leads to this image any more, and so it cannot be built",
            remedy="name one that `tidepool image list` shows as built or not built",
            code=errors.USAGE,
        )
    images.require_root()
    from tidepool.images import Form, build, buildable, export, refuse_forms

    wanted: list[Form] = list(dict.fromkeys(forms))  # type: ignore[arg-type]
    refuse_forms(source, wanted)
    progress = _ProgressLine()
    found = buildable(images.source(source.name), images.store, images.machine, observe=progress)
    if found.note:
        show.warn(found.note)
    image = build(found.source, images.store, images.machine, observe=progress)
    files = [export(image, form, images.store, images.machine, observe=progress) for form in wanted]
    if as_json:
        show.emit({**_document(images.one(name)), "files": show.document(files)})
        return
    show.say(f"{image.digest}  {image.root}")
    for file in files:
        show.say(f"{file.sha256}  {file.path}")


@image_verb.command("lock")
@click.argument("name", shell_complete=_names)
@_image_options
def lock_verb(images: _Images, name: str, as_json: bool) -> None:
    """Write the versions of the packages of NAME into the lock beside its recipe.

    They are those by which NAME is built here already, where the mirror has moved on from the recipe's lock; else those
    that this machine's mirror has now. To go from the former to the latter, run it twice.
    """
    images.require_root()
    from tidepool.images import LOCK_FILE, write_lock

    path = images.folder / name / LOCK_FILE
    made, is_new = write_lock(path.parent, images.playbooks, images.store, images.machine)
    if as_json:
        show.emit({"name": name, "lock": str(path), "changed": is_new, "packages": len(made.packages)})
    else:
        show.say(f"{path}: {len(made.packages)} packages, {'changed' if is_new else 'as before'}")


@image_verb.command("packages")
@click.option("--clear", is_flag=True, help="Remove those that no recipe's lock and no image names.")
@_image_options
def packages_verb(images: _Images, clear: bool, as_json: bool) -> None:
    """Show the package files that are kept, so that images can be built again without a mirror; or clear them.

    Kept are those that were downloaded for any image. Those that a recipe of this project, its image or another image of
    the store names are never removed.
    """
    files = {path: path.stat().st_size for path in images.store.packages()}
    if clear:
        images.require_root()
        gone = images.store.clear(images.locks())
    else:
        gone = images.store.unused(images.locks())
    unused = [size for path in gone if (size := files.get(path)) is not None]
    document: dict[str, Any] = {
        "folder": str(images.store.folder / "debs"),
        "packages": len(files),
        "bytes": sum(files.values()),
        "unused": len(unused),
        "unused_bytes": sum(unused),
        "removed": clear,
    }
    if as_json:
        show.emit(document)
        return
    show.say(f"{document['folder']}: {len(files)} packages, {document['bytes'] >> 20} MiB")
    remedy = "; removed" if clear else "; `tidepool image packages --clear` removes them"
    told = f"{len(unused)} packages, {document['unused_bytes'] >> 20} MiB{remedy if unused else ''}"
    show.say(f"named by no recipe and no image: {told}")


@image_verb.command("list")
@_image_options
def list_verb(images: _Images, as_json: bool) -> None:
    """List the images that have a recipe, and those of the store that no recipe leads to any more."""
    entries = images.catalog().entries
    if as_json:
        show.emit([_document(entry) for entry in entries])
        return
    styles = {"built": "green", "not built": "", "old": "dim", "wrong": "red"}
    rows = []
    for entry in entries:
        document = _document(entry)
        size = f"{document['root_bytes'] >> 20} MiB" if document["root_bytes"] else ""
        rows.append(
            (
                entry.name,
                (document["state"], styles[document["state"]]),
                entry.digest[:12],
                document["release"] or "",
                len(entry.packages) or "",
                size,
                " ".join(entry.forms),
                entry.trouble.splitlines()[0] if entry.trouble else "lock kept here" if entry.note else "",
            )
        )
    columns = ["image", "is", "digest", "release", "#packages", "#root", "forms", ""]
    show.show(show.table(f"images of {images.folder}, built in {images.store.folder}", columns, rows))


@image_verb.command("show")
@click.argument("name", shell_complete=_names)
@_image_options
def show_verb(images: _Images, name: str, as_json: bool) -> None:
    """Show an image, by name or digest: what it is made from, its forms with their digests, its software."""
    entry = images.one(name)
    document = _document(entry)
    if as_json:
        show.emit(document)
        return
    facts = [
        ("is", document["state"]),
        ("digest", document["digest"]),
        ("release", f"Debian {document['release']}, {document['architecture']}"),
        ("its lock", entry.note),
        ("time of its lock", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(document["epoch"]))),
        ("roles", " ".join(document["roles"])),
        ("tools", " ".join(document["tools"])),
        ("boots by itself", {True: "yes", False: "no", None: "known when it is built"}[document["boots"]]),
        ("root", document["root"] or ""),
        *((f"as {each['form']}", f"{each['sha256']}  {each['path']}") for each in document["files"]),
    ]
    show.show(
        show.table(f"image {entry.name}", ["", ""], [fact for fact in facts if fact[1]]),
        show.table(
            "software",
            ["package", "version", "architecture"],
            [(p["name"], p["version"], p["architecture"]) for p in document["packages"]],
        ),
    )


@image_verb.command("diff")
@click.argument("one", shell_complete=_names)
@click.argument("other", shell_complete=_names)
@_image_options
def diff_verb(images: _Images, one: str, other: str, as_json: bool) -> int:
    """Show which packages differ between two images, each by name or digest, built or not.

    The exit code is 0 where none does, 1 where some do.
    """
    from tidepool.images import differences

    before, after = images.one(one), images.one(other)
    changes = differences(before.packages, after.packages)
    if as_json:
        show.emit(
            {
                "before": {"name": before.name, "digest": before.digest},
                "after": {"name": after.name, "digest": after.digest},
                "packages": show.document(changes),
            }
        )
    else:
        rows = [(c.name, c.before or ("-", "dim"), c.after or ("-", "dim")) for c in changes]
        show.show(
            show.table(
                f"{len(changes)} packages differ",
                ["package", f"{before.name} {before.digest[:12]}", f"{after.name} {after.digest[:12]}"],
                rows,
            )
        )
    return errors.FAILED if changes else errors.OK


@image_verb.command("verify")
@click.argument("names", nargs=-1, shell_complete=_names)
@_image_options
def verify_verb(images: _Images, names: tuple[str, ...], as_json: bool) -> None:
    """Read built images (all, or those NAMES) byte by byte: whether each still is what was built.

    The exit code is 1 where one is not.
    """
    from tidepool.images import verify

    images.require_root()
    built = [images.built(name) for name in names] or list(images.store.images())
    verdicts = [(image, verdict) for image in built for verdict in verify(image)]
    if as_json:
        show.emit(
            [
                {"name": image.name, "digest": image.digest, **show.document(verdict)}
                for image, verdict in verdicts
            ]
        )
    else:
        words = {True: ("well", "green"), False: ("changed", "bold red"), None: ("unknown", "yellow")}
        rows = [(i.name, i.digest[:12], v.what, words[v.well], v.detail) for i, v in verdicts]
        show.show(show.table("verified", ["image", "digest", "what", "is", ""], rows))
    changed = dict.fromkeys(image.folder for image, verdict in verdicts if verdict.well is False)
    if changed:
        raise Failure(
            f"{len(changed)} images are not what was built",
            remedy=f"take down the clusters that stand on them, remove {', '.join(map(str, changed))}, and build again",
        )


@image_verb.command("remove")
@click.argument("names", nargs=-1, shell_complete=_names)
@click.option(
    "--old", is_flag=True, help="Those that no recipe of this project leads to, but for those in use."
)
@yes_option
@_image_options
def remove_verb(images: _Images, names: tuple[str, ...], old: bool, yes: bool, as_json: bool) -> None:
    """Remove built images with all their forms from the store: those NAMES, or all that are old.

    One that machines here stand on is never removed. Machines elsewhere have a copy of theirs, in their infrastructure. A
    stack that needs an image again builds it again, where a recipe still leads to it.
    """
    from tidepool.images import disk_bytes, in_use, remove_images

    if old == bool(names):
        raise Failure(
            "name images, or write --old: one of the two",
            remedy="`tidepool image list` shows them",
            code=errors.USAGE,
        )
    images.require_root()
    images.require_answer(yes)
    if old:
        entries = images.catalog().entries
        older = [entry.image for entry in entries if entry.source is None and entry.image is not None]
        unread = {entry.name for entry in entries if entry.trouble}
        used = in_use(older)
        wanted = []
        for image in older:
            if image.digest in used:
                show.warn(f"{image.name} {image.digest[:12]} stays: machines here stand on it")
            elif image.name in unread:
                show.warn(
                    f"{image.name} {image.digest[:12]} stays: its recipe cannot be read, and may lead to it"
                )
            else:
                wanted.append(image)
    else:
        wanted = list({image.digest: image for image in map(images.built, names)}.values())
    sizes = {image.digest: disk_bytes(image) for image in wanted}
    if not yes and wanted:
        for image in wanted:
            show.tell(f"{image.name} {image.digest[:12]}  {sizes[image.digest] >> 20} MiB")
        if not click.confirm(f"Remove {_counted(wanted)} from {images.store.folder}?", err=True):
            return
    remove_images(wanted, images.store)
    if as_json:
        removed = [{"name": i.name, "digest": i.digest, "bytes": sizes[i.digest]} for i in wanted]
        show.emit({"folder": str(images.store.folder), "removed": removed})
    else:
        show.say(f"{_counted(wanted)} removed, {sum(sizes.values()) >> 20} MiB")


def _counted(images: Sequence[Image]) -> str:
    return f"{len(images)} image{'' if len(images) == 1 else 's'}"


def _document(entry: Entry) -> dict[str, Any]:
    from tidepool.images import boots, find_form

    source, image = entry.source, entry.image
    state = "wrong" if entry.trouble else "old" if source is None else "built" if image else "not built"
    about: Any = image or (source and source.lock)
    files = [found for form in entry.forms if image and (found := find_form(image, form))]
    return {
        "name": entry.name,
        "state": state,
        "trouble": entry.trouble,
        "note": entry.note,
        "digest": entry.digest,
        "release": about.release if about else None,
        "architecture": about.architecture if about else None,
        "epoch": about.epoch if about else None,
        "roles": list(source.recipe.roles) if source else [],
        "tools": list(image.tools if image else source.recipe.tool_names if source else ()),
        "boots": boots(image) if image else None,
        "root": str(image.root) if image else None,
        "root_bytes": image.root_bytes if image else None,
        "root_sha256": (image.root_sha256 or None) if image else None,
        "files": show.document(files),
        "packages": show.document(entry.packages),
    }


class _ProgressLine:
    """Shows the progress on standard error: over itself on a terminal, a line for each phase elsewhere."""

    def __init__(self) -> None:
        self._phase: object = None
        self._on_terminal = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        line = f"{progress.phase} {progress.fraction:.0%} {progress.text}".rstrip()
        if self._on_terminal:
            click.echo(f"\r\x1b[K{line[:100]}", nl=False, err=True)
        elif progress.phase is not self._phase:
            show.tell(str(progress.phase))
        self._phase = progress.phase
