"""tidepool:image:Image."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tidepool.cluster.roles import ROLES
from tidepool.images import (
    FORMS,
    Form,
    ImageError,
    ImageSource,
    ImageStore,
    Machine,
    Phase,
    Progress,
    build,
    read_source,
    refuse_forms,
)
from tidepool.resources.difference import Rules
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Plain

#: A build takes minutes; who reads a log of lines hears of it once in so long.
_TEXT_EVERY_S: Final = 60.0
_STATUS_EVERY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    recipe: str
    playbooks: str
    digest: str
    needs: tuple[str, ...]
    forms: tuple[str, ...]


class ImageKind(Kind[Wanted]):
    """An image in this machine's store. Its digest is known before it is built."""

    token = "tidepool:image:Image"  # noqa: S105 - a type of resource
    keys = frozenset({"recipe", "playbooks", "digest", "needs", "forms"})
    derives = frozenset({"digest"})
    rules = Rules(replaces=frozenset({"digest"}), delete_first=False)
    timeout_s = 1800.0

    def __init__(self, home: Home) -> None:
        self._store = ImageStore(home.images)
        self._machine = Machine(home.environment)

    def read(self, reader: Reader) -> Wanted:
        return Wanted(
            reader.text("recipe"),
            reader.text("playbooks"),
            reader.text("digest", ""),
            reader.texts("needs"),
            reader.texts("forms"),
        )

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        for key, path in (("recipe", wanted.recipe), ("playbooks", wanted.playbooks)):
            if not Path(path).is_absolute():
                yield Mistake(key, f"it is {path!r}; an absolute path is wanted")
                return
        try:
            source = self._source(wanted)
        except ImageError as error:
            yield Mistake("recipe", str(error))
            return
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

    def derived(self, wanted: Wanted) -> Mapping[str, Plain]:
        return {"digest": self._source(wanted).digest}

    def create(self, wanted: Wanted, task: Task) -> Made:
        image = build(
            self._source(wanted),
            self._store,
            self._machine,
            observe=Telling(task.status, task.info),
            wait_s=task.left_s,
        )
        return Made(image.digest)

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        return AS_KNOWN if self._store.find(id) is not None else None

    def _source(self, wanted: Wanted) -> ImageSource:
        folder, playbooks = Path(wanted.recipe), Path(wanted.playbooks)
        return read_source(
            folder,
            playbooks,
            architecture=self._machine.architecture(),
            environment=self._machine.environment,
        )


class Telling:
    """Tells the progress of a build: often for as long as it matters, and seldom for good."""

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
        """Tell of it, where it is time to."""
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
