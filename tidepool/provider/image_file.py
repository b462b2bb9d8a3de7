"""tidepool:image:File."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from tidepool.images import FORMS, Form, ImageError, ImageStore, Machine, export
from tidepool.provider.image import ProgressReport
from tidepool.resources.difference import Rules
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Inputs, Plain


@dataclass(frozen=True, slots=True)
class Desired:
    """The inputs."""

    image: str
    form: str


class ImageFileKind(Kind[Desired]):
    """An image of this machine's store as one file, written once. Its path is known before it is."""

    token = "tidepool:image:File"  # noqa: S105 - a type of resource
    keys = frozenset({"image", "form"})
    rules = Rules(replaces=frozenset({"image", "form"}), delete_first=False)
    timeout_s = 1800.0

    def __init__(self, home: Home) -> None:
        self._store = ImageStore(home.images)
        self._machine = Machine(home.environment)

    def read(self, reader: Reader) -> Desired:
        return Desired(reader.text("image"), reader.text("form"))

    def mistakes(self, wanted: Desired) -> Iterable[Mistake]:
        if wanted.form not in FORMS:
            yield Mistake("form", f"it is {wanted.form!r}; allowed: {', '.join(FORMS)}")

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        image, form = inputs.get("image"), inputs.get("form")
        known = isinstance(image, str) and isinstance(form, str)
        return {"path": self._path(Desired(str(image), str(form)))} if known else {}

    def create(self, wanted: Desired, task: Task) -> Made:
        image = self._store.find(wanted.image)
        if image is None:
            raise ImageError(
                f"there is no image {wanted.image} in {self._store.folder}; `tidepool up` builds it"
            )
        written = export(
            image,
            cast(Form, wanted.form),
            self._store,
            self._machine,
            observe=ProgressReport(task.status, task.info),
        )
        return Made(f"{wanted.image}/{wanted.form}", {"path": str(written.path)})

    def look(self, id: str, state: Desired) -> Mapping[str, Plain] | None:
        image = self._store.find(state.image)
        there = image is not None and (image.folder / f"image.{state.form}").exists()
        return AS_KNOWN if there else None

    def _path(self, wanted: Desired) -> str:
        return str(self._store.folder / wanted.image / f"image.{wanted.form}")
