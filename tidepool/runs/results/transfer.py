"""Several files at once to where results are kept, with progress; one that cannot be kept keeps no other back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.runs.ports import Refused, RunError
from tidepool.runs.record import Output
from tidepool.runs.results.store import Source, Store

#: Files that are on their way at once; of each, S3 has some parts on their way.
AT_ONCE: Final = 3


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file that this process can read."""

    path: Path
    size: int
    sha256: str

    def read(self, offset: int, length: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                data = os.pread(file.fileno(), length, offset)
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) != length:
            raise RunError(f"{self.path} became shorter while it was kept; see what still writes to it")
        return data


def output_name(run_id: str, path: str) -> str:
    """Return the name of an output where results are kept."""
    return f"{run_id}/outputs/{path}"


def upload_all(
    store: Store,
    run_id: str,
    outputs: Iterable[Output],
    source: Callable[[Output], Source],
    kept: Callable[[Output], None],
    sent: Callable[[Output, int], None],
) -> None:
    """Have ``store`` hold the outputs of a run; ``kept`` hears of each in this thread, ``sent`` of bytes, in others.

    Raises:
        Refused: one will never be there; all others are, or were tried.
        RunError: one could not be kept this time.
    """

    def upload(output: Output) -> Output:
        store.upload(output_name(run_id, output.path), source(output), lambda size: sent(output, size))
        return output

    failed: list[RunError] = []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        begun: list[Future[Output]] = [threads.submit(upload, output) for output in outputs]
        try:
            for each in as_completed(begun):
                error = each.exception()
                if error is None:
                    kept(each.result())
                elif isinstance(error, RunError):
                    failed.append(error)
                else:
                    raise error
        except BaseException:
            # Who was killed, or taken over, begins no more of them.
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    if failed:
        # What may pass is told first: what is refused is told when all others are there.
        first = next((each for each in failed if not isinstance(each, Refused)), failed[0])
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise type(first)(f"{first}{more}") from first


def spoiled(store: Store, run_id: str, outputs: Iterable[Output]) -> tuple[Output, ...]:
    """Return the outputs that ``store`` does not hold as they are: each is read there, several at once."""

    def is_there(output: Output) -> bool:
        name = output_name(run_id, output.path)
        try:
            return store.size(name) == output.size and store.sha256(name) == output.sha256
        except FileNotFoundError:
            return False

    listed = list(outputs)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return tuple(
            output for output, there in zip(listed, threads.map(is_there, listed), strict=True) if not there
        )
