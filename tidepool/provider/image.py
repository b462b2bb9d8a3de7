"""tidepool:image:Image and tidepool:image:File."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from tidepool.cluster.failures import Note
from tidepool.cluster.roles import ROLES
from tidepool.images import (
    FORMS,
    Buildable,
    Form,
    ImageError,
    ImageSource,
    ImageStore,
    Machine,
    MirrorSilent,
    MissingTool,
    Phase,
    Progress,
    build,
    buildable,
    export,
    known,
    read_source,
    refuse_forms,
)
from tidepool.resources.declarations import Image, ImageFile, ImageFileModel, ImageModel
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Inputs, Plain

#: A build takes minutes; who reads a log of lines hears of it once in so long.
_TEXT_EVERY_S: Final = 60.0
_STATUS_EVERY_S: Final = 0.1
#: An operation checks an image several times, and the mirror is asked once.
_ASKED_FOR_S: Final = 60.0


class ImageKind(Kind[ImageModel]):
    """An image in this machine's store. Its digest is known before it is built."""

    resource = Image
    timeout_s = 1800.0

    def __init__(self, home: Home) -> None:
        self._store = ImageStore(home.images)
        self._machine = Machine(home.environment)
        self._lock = threading.Lock()
        #: By the digest of the recipe with its own lock: when the mirror was asked, and what came of it.
        self._answers: dict[str, tuple[float, Buildable]] = {}

    def mistakes(self, wanted: ImageModel) -> Iterable[Mistake | Note]:
        for key, path in (("recipe", wanted.recipe), ("playbooks", wanted.playbooks)):
            if not Path(path).is_absolute():
                yield Mistake(key, f"it is {path!r}; an absolute path is wanted")
                return
        try:
            found = self._buildable(wanted)
        except ImageError as error:
            yield Mistake("recipe", str(error))
            return
        source = found.source
        for role in wanted.needs:
            if role not in ROLES:
                yield Mistake("needs", f"{role!r} is no role; allowed: {', '.join(ROLES)}")
            elif lacks := source.lacking(role):
                yield Mistake(
                    "needs",
                    f"the image {source.name} does not hold the role {role}: it lacks {', '.join(lacks)}. Add that to "
                    f"{wanted.recipe}/recipe.yaml, or name an image that has it, such as debian-12-converged",
                )
        if unknown := [form for form in wanted.forms if form not in FORMS]:
            yield Mistake("forms", f"there is no form {', '.join(unknown)}; allowed: {', '.join(FORMS)}")
            return
        try:
            refuse_forms(source, (cast(Form, form) for form in wanted.forms))
        except ImageError as error:
            yield Mistake("forms", str(error))
            return
        # One that is there already is no news.
        if found.note and self._store.find(source.digest) is None:
            yield Note(found.note)

    def derived(self, wanted: ImageModel) -> Mapping[str, Plain]:
        return {"digest": self._buildable(wanted).source.digest}

    def create(self, wanted: ImageModel, task: Task) -> Made:
        report = ProgressReport(task.status, task.info)
        source = self._source(wanted)
        # What was previewed, by whichever lock.
        if source.digest != wanted.digest:
            source = buildable(source, self._store, self._machine, observe=report).source
        image = build(source, self._store, self._machine, observe=report, wait_s=task.left_s)
        return Made(image.digest)

    def look(self, id: str, state: ImageModel) -> Mapping[str, Plain] | None:
        return AS_KNOWN if self._store.find(id) is not None else None

    def _buildable(self, wanted: ImageModel) -> Buildable:
        """Return the source with a lock that can be met, as far as that can be known: the mirror may be asked."""
        source = self._source(wanted)
        for same in (Buildable(source), known(source, self._store)):
            # The stack has this one, whether or not it could be built again.
            if same.source.digest == wanted.digest:
                return same
        with self._lock:
            at, found = self._answers.get(source.digest, (0.0, None))
            if found is not None and time.monotonic() - at < _ASKED_FOR_S:
                return found
            found = self._ask(source)
            self._answers[source.digest] = time.monotonic(), found
            return found

    def _ask(self, source: ImageSource) -> Buildable:
        if os.geteuid() != 0:
            return known(source, self._store)
        try:
            return buildable(source, self._store, self._machine)
        except (MirrorSilent, MissingTool) as error:
            # A preview needs no mirror; the build that does fails by itself.
            reason = str(error).splitlines()[0]
            found = known(source, self._store)
            return Buildable(
                found.source,
                f"image {source.name}: whether its packages are still to be had is not known: {reason}",
            )

    def _source(self, wanted: ImageModel) -> ImageSource:
        return read_source(
            Path(wanted.recipe),
            Path(wanted.playbooks),
            architecture=self._machine.architecture(),
            environment=self._machine.environment,
        )


class ProgressReport:
    """Reports the progress of a build: often for as long as it matters, and seldom for good."""

    def __init__(
        self,
        status: Callable[[str], None],
        info: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._status, self._info, self._clock = status, info, clock
        self._lock = threading.Lock()
        self._status_at = -_STATUS_EVERY_S
        self._info_at = clock()
        self._phase: Phase | None = None

    def __call__(self, progress: Progress) -> None:
        now = self._clock()
        with self._lock:
            to_status = progress.phase is not self._phase or now - self._status_at >= _STATUS_EVERY_S
            to_info = now - self._info_at >= _TEXT_EVERY_S
            self._phase = progress.phase
            self._status_at = now if to_status else self._status_at
            self._info_at = now if to_info else self._info_at
        text = f"{progress.phase} {progress.fraction:.0%} {progress.text}".rstrip()
        if to_status:
            self._status(text)
        if to_info:
            self._info(text)


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
        return {"path": str(self._store.folder / str(image) / f"image.{form}")} if known else {}

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
