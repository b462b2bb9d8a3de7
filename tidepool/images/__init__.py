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

from tidepool.images.build import build as build
from tidepool.images.catalog import Entry as Entry
from tidepool.images.catalog import read_catalog as read_catalog
from tidepool.images.errors import BuildFailed as BuildFailed
from tidepool.images.errors import ImageError as ImageError
from tidepool.images.errors import LockError as LockError
from tidepool.images.errors import MirrorError as MirrorError
from tidepool.images.errors import MirrorSilent as MirrorSilent
from tidepool.images.errors import MissingTool as MissingTool
from tidepool.images.errors import RecipeError as RecipeError
from tidepool.images.forms import FORMS as FORMS
from tidepool.images.forms import Form as Form
from tidepool.images.forms import export as export
from tidepool.images.forms import find_form as find_form
from tidepool.images.forms import refuse_forms as refuse_forms
from tidepool.images.forms import verify as verify
from tidepool.images.locked import Lock as Lock
from tidepool.images.locked import LockedPackage as LockedPackage
from tidepool.images.locked import differences as differences
from tidepool.images.locked import parse_lock as parse_lock
from tidepool.images.locked import render_lock as render_lock
from tidepool.images.machine import Machine as Machine
from tidepool.images.progress import Phase as Phase
from tidepool.images.progress import Progress as Progress
from tidepool.images.recipe import Recipe as Recipe
from tidepool.images.recipe import parse_recipe as parse_recipe
from tidepool.images.removal import disk_bytes as disk_bytes
from tidepool.images.removal import in_use as in_use
from tidepool.images.removal import remove_images as remove_images
from tidepool.images.renewal import Buildable as Buildable
from tidepool.images.renewal import buildable as buildable
from tidepool.images.renewal import known as known
from tidepool.images.renewal import lock as lock
from tidepool.images.renewal import write_lock as write_lock
from tidepool.images.source import ImageSource as ImageSource
from tidepool.images.source import holds_package as holds_package
from tidepool.images.source import package_version as package_version
from tidepool.images.source import read_lacks as read_lacks
from tidepool.images.source import read_recipe as read_recipe
from tidepool.images.source import read_source as read_source
from tidepool.images.store import LOCK_FILE as LOCK_FILE
from tidepool.images.store import Image as Image
from tidepool.images.store import ImageStore as ImageStore
from tidepool.images.store import default_folder as default_folder
from tidepool.images.writer import boots as boots
