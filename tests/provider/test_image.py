"""An image whose lock the mirror cannot meet any more, as previews and ups see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.images.test_renewal import Site
from tests.provider.calls import Calls, plainly
from tidepool.images import ImageStore, MirrorSilent
from tidepool.provider import image as image_module

pytestmark = pytest.mark.slow
TOKEN = "tidepool:image:Image"


class Previews:
    """A site with a mirror, and the provider that is asked about its image."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site = Site(folder)
        (self.site.playbooks / "roles").mkdir(parents=True)
        self.site.store = ImageStore(folder / "data/images")
        monkeypatch.setattr(image_module, "Machine", lambda _: self.site.machine)
        self.calls = Calls(folder / "data", TOKEN)
        self.warnings: list[str] = []
        monkeypatch.setattr(self.calls.provider._log, "warn", lambda _, text: self.warnings.append(text))
        self.inputs = {"recipe": str(self.site.image), "playbooks": str(self.site.playbooks)}

    def digest(self) -> Any:
        return plainly(self.calls.checked(self.inputs))["digest"]


@pytest.fixture
def previews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Previews:
    return Previews(tmp_path, monkeypatch)


def test_a_preview_tells_that_the_mirror_has_moved_on_and_knows_the_image(previews: Previews) -> None:
    previews.site.moves_on()
    digest = previews.digest()
    assert digest == previews.site.buildable().source.digest != previews.site.read().digest
    assert [line.split(".")[0] for line in previews.warnings] == [
        "image x: the mirror has moved on from its lock"
    ]
    # Once it is built, it is no news.
    previews.site.makes(previews.site.buildable().source)
    previews.warnings.clear()
    assert previews.digest() == digest
    assert previews.warnings == []


def test_of_one_operation_s_checks_the_first_alone_asks(
    previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = previews.digest()
    monkeypatch.setattr(image_module, "buildable", lambda *_: pytest.fail("asked again"))
    assert previews.digest() == digest == previews.site.read().digest
    assert previews.warnings == []


def test_a_preview_needs_no_mirror_and_says_what_it_does_not_know(previews: Previews) -> None:
    previews.site.mirror.goes()
    assert previews.digest() == previews.site.read().digest
    assert (
        "image x: whether its packages are still to be had is not known: the machine's mirror does"
        in (previews.warnings[0])
    )
    # The build does.
    checked = previews.calls.checked(previews.inputs)
    with pytest.raises(MirrorSilent, match="does not answer as it should"):
        previews.calls.create(checked)


def test_a_locked_recipe_is_refused_in_previews(previews: Previews) -> None:
    recipe = previews.site.image / "recipe.yaml"
    recipe.write_text(f"{recipe.read_text()}locked: true\n")
    previews.site.moves_on()
    refused = previews.calls.failures(previews.inputs)["recipe"]
    assert "tool 1.0 (the mirror has 2.0)" in refused
    assert "`tidepool image lock x`" in refused


def test_a_stack_that_has_an_image_keeps_it_where_the_image_is_not(previews: Previews) -> None:
    """Of another person's machine, say: neither store nor mirror has any of it."""
    digest = previews.digest()
    previews.site.moves_on()
    inputs = previews.inputs | {"digest": digest}
    assert plainly(previews.calls.checked(previews.inputs, old=inputs))["digest"] == digest
    assert previews.warnings == []
    # Another recipe is another image, and that one has to be built.
    recipe = previews.site.image / "recipe.yaml"
    recipe.write_text(f"{recipe.read_text()}size_mib: 512\n")
    other = plainly(previews.calls.checked(previews.inputs, old=inputs))["digest"]
    assert other not in (digest, previews.site.read().digest)
    assert "the mirror has moved on" in previews.warnings[0]
