"""Where things are on a disk: as sfdisk understands it, and as the first sectors of GRUB do."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.images.disk import MIB, SECTOR, Layout, core_at, first_sector


@given(st.integers(256, 1024 * 1024))
def test_nothing_lies_over_anything_else(size_mib: int) -> None:
    layout = Layout.around(size_mib * MIB)
    parts = [layout.bios, layout.efi, layout.root]
    assert parts[0].begin >= MIB, "the table is before it"
    for one, other in pairwise(parts):
        assert one.begin + one.size <= other.begin
    assert layout.root.size == size_mib * MIB
    # GPT keeps its copy, 33 sectors, at the end.
    assert layout.root.begin + layout.root.size <= layout.size - 33 * SECTOR
    assert all(number % MIB == 0 for part in parts for number in (part.begin, part.size))


@given(st.binary(min_size=SECTOR, max_size=64 * 1024), st.integers(1, 1 << 20))
def test_the_first_sector_of_the_loader_says_where_the_others_are(core: bytes, sector: int) -> None:
    written = core_at(core, sector * SECTOR)
    assert len(written) % SECTOR == 0
    start, count, segment = struct.unpack_from("<QHH", written, SECTOR - 12)
    assert (start, count, segment) == (sector + 1, len(written) // SECTOR - 1, 0x820)
    assert written[: SECTOR - 12] == core[: SECTOR - 12]
    assert written[SECTOR : len(core)] == core[SECTOR:]


@given(st.binary(min_size=SECTOR, max_size=SECTOR), st.binary(min_size=SECTOR, max_size=SECTOR))
def test_the_table_stays_in_the_first_sector(boot: bytes, now: bytes) -> None:
    written = first_sector(boot, now, 2048 * SECTOR)
    assert len(written) == SECTOR
    assert written[440:] == now[440:]
    assert struct.unpack_from("<Q", written, 0x5C) == (2048,)


@pytest.mark.skipif(shutil.which("sfdisk") is None, reason="sfdisk is not installed (package fdisk)")
def test_the_table_is_one_of_an_image_and_no_other(tmp_path: Path) -> None:
    layout = Layout.around(256 * MIB)

    def table(digest: str) -> dict[str, object]:
        disk = tmp_path / digest[:4]
        with disk.open("wb") as file:
            file.truncate(layout.size)
        command = ["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", str(disk)]
        subprocess.run(command, input=layout.script(digest), text=True, check=True)
        said = subprocess.run(["sfdisk", "--verify", disk], capture_output=True, text=True, check=True)
        assert "No errors detected" in said.stdout
        read = subprocess.run(["sfdisk", "--json", disk], capture_output=True, text=True, check=True)
        told: dict[str, object] = json.loads(read.stdout)["partitiontable"]
        return told

    one, other = table("ab" * 32), table("cd" * 32)
    parts = one["partitions"]
    assert isinstance(parts, list)
    assert [(part["name"], part["start"], part["size"]) for part in parts] == [
        ("bios", 2048, 2048),
        ("efi", 4096, 62 * 2048),
        ("root", 64 * 2048, 256 * 2048),
    ]
    assert one["id"] != other["id"]
    assert one["label"] == "gpt"
