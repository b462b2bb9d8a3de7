"""tidepool:image:File."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from tidepool.images import FORMS, Form, ImageError, ImageStore, Machine, export
from tidepool.provider.image import ProgressReport
from tidepool.resources.images import ImageFile, ImageFileModel
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Inputs, Plain


class ImageFileKind(Kind[ImageFileModel]):
    """An image of this machine's store as one file, written once. Its path is known before it is."""

    resource = ImageFile
    timeout_s = 1800.0

    def __init__(self, home: Home) -> None:
        self._store = ImageStore(home.images)
        self._machine = Machine(home.environment)

    def mistakes(self, wanted: ImageFileModel) -> Iterable[Mistake]:
        if wanted.form not in FORMS:
            yield Mistake("form", f"it is {wanted.form!r}; allowed: {', '.join(FORMS)}")

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        image, form = inputs.get("image"), inputs.get("form")
        known = isinstance(image, str) and isinstance(form, str)
        return {"path": self._path(ImageFileModel(image=image, form=form))} if known else {}

    def create(self, wanted: ImageFileModel, task: Task) -> Made:
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

    def look(self, id: str, state: ImageFileModel) -> Mapping[str, Plain] | None:
        image = self._store.find(state.image)
        there = image is not None and (image.folder / f"image.{state.form}").exists()
        return AS_KNOWN if there else None

    def _path(self, wanted: ImageFileModel) -> str:
        return str(self._store.folder / wanted.image / f"image.{wanted.form}")
