"""Golden images: one recipe, one digest, one root for every infrastructure.

machine = Machine(os.environ)
source = read_source(
    Path("images/debian-12"), Path("playbooks"), architecture=machine.architecture(), environment=machine.environment
)
image = build(source, ImageStore(default_folder(os.environ)), machine, observe=print)
image.root                                    # unpacked, for overlays
export(image, "tar", store, machine).sha256   # or another of FORMS
"""

from tidepool.images.bootable import boots
from tidepool.images.build import build, lock
from tidepool.images.catalog import Catalog, Entry, PackageChange, differences, read_catalog
from tidepool.images.errors import BuildFailed, ImageError, LockError, MirrorError, MissingTool, RecipeError
from tidepool.images.forms import FORMS, Form, ImageFile, export, find_form, refuse_forms
from tidepool.images.locked import Lock, LockedPackage, parse_lock, render_lock
from tidepool.images.machine import Machine
from tidepool.images.progress import Observer, Phase, Progress
from tidepool.images.recipe import Account, FileText, Recipe, parse_recipe
from tidepool.images.source import ImageSource, read_lacks, read_recipe, read_source
from tidepool.images.store import Image, ImageStore, InstalledPackage, default_folder
from tidepool.images.verify import Verdict, verify

__all__ = [
    "FORMS",
    "Account",
    "BuildFailed",
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
    "default_folder",
    "differences",
    "export",
    "find_form",
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
