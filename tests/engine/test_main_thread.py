"""Work that the engine's thread gives to the main thread."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

from tidepool.engine.program import main_thread
from tidepool.engine.program.main_thread import MainThread


class Slow(Future[Any]):
    """A future whose owner is held up as soon as it has told the result."""

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        time.sleep(0.3)

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        time.sleep(0.3)


def fail() -> None:
    raise ValueError("no")


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_free_once_the_result_is_known(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Whoever asks as soon as the result is there is not told that the program still runs."""
    monkeypatch.setattr(main_thread, "Future", Slow)
    main = MainThread()
    busy: list[bool] = []

    async def ask() -> None:
        try:
            await main.run(fail if fails else lambda: busy.append(main.is_busy))
        except ValueError:
            busy.append(True)
        busy.append(main.is_busy)

    def engine() -> None:
        asyncio.run(ask())
        main.end()

    thread = threading.Thread(target=engine)
    thread.start()
    main.serve()
    thread.join()
    assert busy == [True, False]
