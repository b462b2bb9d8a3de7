"""An image as one file: written once, found afterwards, known in previews."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import golden_image
from tests.provider.calls import Calls, plainly
from tests.repository import ROOT
from tidepool.images import ImageError
from tidepool.resources.values import UNKNOWN

TOKEN = "tidepool:image:File"


@pytest.mark.slow
def test_a_disk_of_an_image_that_does_not_boot_is_refused_before_it_is_built(tmp_path: Path) -> None:
    inputs = {
        "recipe": str(ROOT / "images/debian-12"),
        "playbooks": str(ROOT / "playbooks"),
        "forms": ["disk.qcow2"],
    }
    failures = Calls(tmp_path, "tidepool:image:Image").failures(inputs)
    assert "image debian-12 does not boot by itself, as its recipe has no role boot" in failures["forms"]


def test_its_path_is_known_before_it_is_written(tmp_path: Path) -> None:
    files = Calls(tmp_path, TOKEN)
    inputs = files.checked({"image": "d" * 64, "form": "tar"})
    made = plainly(files.create(inputs, preview=True).properties)
    assert made["path"] == str(tmp_path / "images" / ("d" * 64) / "image.tar")
    unknown = files.checked({"image": UNKNOWN, "form": "tar"})
    assert "path" not in plainly(files.create(unknown, preview=True).properties)


def test_a_form_that_there_is_not_is_refused(tmp_path: Path) -> None:
    failures = Calls(tmp_path, TOKEN).failures({"image": "d" * 64, "form": "vmdk"})
    assert "allowed: tar, " in failures["form"]


def test_an_image_that_is_not_there_is_told(tmp_path: Path) -> None:
    files = Calls(tmp_path, TOKEN)
    with pytest.raises(ImageError, match="`tidepool up` builds it"):
        files.create(files.checked({"image": "d" * 64, "form": "tar"}))


def test_it_is_written_once_and_gone_when_it_is_not_there(tmp_path: Path) -> None:
    """Of an image with one file, as the store keeps one."""
    image = golden_image()
    digest = image.digest
    whole = tmp_path / "images" / digest
    whole.mkdir(parents=True)
    (whole / "manifest.json").write_text((image.folder / "manifest.json").read_text())
    (whole / "root").mkdir()
    (whole / "root/hello").write_text("hello\n")
    files = Calls(tmp_path, TOKEN)
    inputs = {"image": digest, "form": "tar"}
    made = files.create(files.checked(inputs))
    state = plainly(made.properties)
    written, id = Path(state["path"]), made.resource_id
    assert id is not None
    assert written.read_bytes()
    before = written.stat().st_mtime_ns
    files.create(files.checked(inputs))
    assert written.stat().st_mtime_ns == before
    assert files.read(id, state, inputs).resource_id == id
    written.unlink()
    assert not files.read(id, state, inputs).resource_id
