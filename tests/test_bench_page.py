"""The page that a measurement is written into."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from bench.page import add_page_option


def parsed(path: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_page_option(parser)
    return parser.parse_args(["--write", str(path)])


def test_figures_take_the_place_of_the_last_ones_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n<!-- figures -->\nold\n<!-- end of figures -->\n\nA remark.\n")
    for _ in range(2):
        parsed(page).write.write("new\n")
    assert page.read_text() == "# Title\n<!-- figures -->\n\nnew\n<!-- end of figures -->\n\nA remark.\n"


@pytest.mark.parametrize("text", [None, "# no markers\n", "<!-- figures -->\nno end\n"])
def test_what_cannot_be_written_is_refused_before_anything_is_measured(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(SystemExit):
        parsed(page)
    assert str(page) in capsys.readouterr().err
