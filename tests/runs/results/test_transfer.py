"""Several files at once: all that can be are kept, whatever becomes of one; and what is there is looked at."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tidepool.runs.ports import Refused, RunError
from tidepool.runs.record import Output
from tidepool.runs.results.store import Store
from tidepool.runs.results.transfer import FileSource, output_name, spoiled, upload_all


def _outputs(folder: Path, number: int) -> list[Output]:
    found = []
    for i in range(number):
        data = b"%d" % i * 1000
        (folder / f"f{i}").write_bytes(data)
        found.append(Output(f"f{i}", len(data), hashlib.sha256(data).hexdigest()))
    return found


def test_all_are_kept_with_progress(store: Store, tmp_path: Path) -> None:
    outputs, kept, sent = _outputs(tmp_path, 12), list[Output](), list[int]()
    upload_all(
        store, "r", outputs, lambda o: FileSource(tmp_path / o.path, o.size, o.sha256), kept.append,
        lambda _, size: sent.append(size),
    )  # fmt: skip
    assert sorted(kept, key=outputs.index) == outputs
    assert sum(sent) == sum(output.size for output in outputs)
    assert spoiled(store, "r", outputs) == ()
    store.remove(output_name("r", "f3"))
    assert spoiled(store, "r", outputs) == (outputs[3],)


def test_one_that_cannot_be_kept_keeps_no_other_back(store: Store, tmp_path: Path) -> None:
    outputs, kept = _outputs(tmp_path, 6), list[Output]()
    (tmp_path / "f2").unlink()
    store.write(output_name("r", "f4"), b"another")

    def keep() -> None:
        upload_all(
            store, "r", outputs, lambda o: FileSource(tmp_path / o.path, o.size, o.sha256), kept.append,
            lambda _, size: None,
        )  # fmt: skip

    with pytest.raises(
        RunError, match=r"f2 cannot be read: No such file or directory \(and 1 more\)"
    ) as error:
        keep()
    assert not isinstance(error.value, Refused)
    assert {output.path for output in kept} == {"f0", "f1", "f3", "f5"}
    (tmp_path / "f2").write_bytes(b"2" * 1000)
    with pytest.raises(Refused, match="f4 is there already, and is another file"):
        keep()
