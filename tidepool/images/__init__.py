"""Golden images: one recipe, one digest, one root for every infrastructure.

machine = Machine(os.environ)
source = read_source(
    Path("images/debian-12"), Path("playbooks"), architecture=machine.architecture(), environment=machine.environment
)
store = ImageStore(default_folder(os.environ))
found = buildable(source, store, machine)     # by another lock where the mirror has moved on, of which found.note tells
image = build(found.source, store, machine, observe=print)
image.root                                    # unpacked, for overlays
export(image, "tar", store, machine).sha256   # or another of FORMS
"""

from tidepool.images.bootable import boots
from tidepool.images.build import build
from tidepool.images.catalog import Catalog, Entry, PackageChange, differences, read_catalog
from tidepool.images.errors import (
    BuildFailed,
    ImageError,
    LockError,
    MirrorError,
    MirrorSilent,
    MissingTool,
    RecipeError,
)
from tidepool.images.forms import FORMS, Form, ImageFile, Verdict, export, find_form, refuse_forms, verify
from tidepool.images.locked import Lock, LockedPackage, parse_lock, render_lock
from tidepool.images.machine import Machine
from tidepool.images.progress import Observer, Phase, Progress
from tidepool.images.recipe import Account, FileText, Recipe, parse_recipe
from tidepool.images.renewal import Buildable, buildable, known, lock
from tidepool.images.source import ImageSource, holds_package, read_lacks, read_recipe, read_source
from tidepool.images.store import LOCK_FILE, Image, ImageStore, InstalledPackage, default_folder

__all__ = [
    "FORMS",
    "LOCK_FILE",
    "Account",
    "BuildFailed",
    "Buildable",
    "Catalog",
    "Entry",
    "FileText",
    "Form",
    "Image",
    "ImageError",
    "ImageFile",
    "ImageSource",
    "ImageStore",
    "InstalledPackage",
    "Lock",
    "LockError",
    "LockedPackage",
    "Machine",
    "MirrorError",
    "MirrorSilent",
    "MissingTool",
    "Observer",
    "PackageChange",
    "Phase",
    "Progress",
    "Recipe",
    "RecipeError",
    "Verdict",
    "boots",
    "build",
    "buildable",
    "default_folder",
    "differences",
    "export",
    "find_form",
    "holds_package",
    "known",
    "lock",
    "parse_lock",
    "parse_recipe",
    "read_catalog",
    "read_lacks",
    "read_recipe",
    "read_source",
    "refuse_forms",
    "render_lock",
    "verify",
]
