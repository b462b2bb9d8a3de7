"""Golden images: one recipe, one digest, one root for every infrastructure.

source = read_source(Path("images/debian-12"), Path("playbooks"), architecture=machine.architecture())
image = build(source, ImageStore(default_folder(os.environ)), machine, observe=print)
image.root                                    # unpacked, for overlays
export(image, "tar", store, machine).sha256   # or ext4, or qcow2
"""

from tidepool.images.build import build, lock
from tidepool.images.errors import BuildFailed, ImageError, LockError, MirrorError, MissingTool, RecipeError
from tidepool.images.forms import Form, ImageFile, export
from tidepool.images.locked import Lock, LockedPackage, parse_lock, render_lock
from tidepool.images.machine import Machine
from tidepool.images.progress import Observer, Phase, Progress
from tidepool.images.recipe import Account, FileText, Recipe, parse_recipe
from tidepool.images.source import ImageSource, read_recipe, read_source
from tidepool.images.store import Image, ImageStore, InstalledPackage, default_folder

__all__ = [
    "Account",
    "BuildFailed",
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
    "Phase",
    "Progress",
    "Recipe",
    "RecipeError",
    "build",
    "default_folder",
    "export",
    "lock",
    "parse_lock",
    "parse_recipe",
    "read_recipe",
    "read_source",
    "render_lock",
]
