from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine import assets, value_json
from tidepool.engine.assets import AssetError, archive_hash, asset_hash, with_hashes
from tidepool.engine.values import Archive, Asset, Secret
from tidepool.engine.wire import EMPTY_ARCHIVE_HASH

#: What the Pulumi CLI 3.260.0 wrote into the state for the same contents.
BY_THE_CLI = {
    "assets": "5b848b3cb6173df1a0e52557947b696ee04bd90a8a1e9134b995a25ed7fc4548",
    "folder": "edfbe20ca7bde3978ffcf54d26bc28d6208ce2780137aa5a9932098e21c0ba7f",
}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "d"
    for name, content in {
        "a.txt": "hi\n",
        "a": "b\n",
        "sub/big": "x" * 1000,
        ".pulumi/no": "n\n",
        "ä/ü.txt": "u\n",
        f"{'l' * 90}/{'l' * 90}": "long\n",
        "m" * 120: "l2\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "linkdir").symlink_to("sub")
    (root / "linkfile").symlink_to("a.txt")
    return tmp_path


def test_an_assets_hash_is_that_of_its_bytes(folder: Path) -> None:
    assert asset_hash(Asset(text="ä"), folder) == sha256("ä".encode())
    assert asset_hash(Asset(path="d/a.txt"), folder) == sha256(b"hi\n")
    assert asset_hash(Asset(path=str(folder / "d/a.txt")), Path("/")) == sha256(b"hi\n")
    assert asset_hash(Asset(uri=f"file://{folder}/d/a.txt"), Path("/")) == sha256(b"hi\n")
    assert asset_hash(Asset(text=""), folder) == value_json.EMPTY_ASSET_HASH
    assert archive_hash(Archive(assets={}), folder) == EMPTY_ARCHIVE_HASH


def test_archives_hash_as_the_cli_hashes_them(folder: Path) -> None:
    assert archive_hash(Archive(path="d"), folder) == BY_THE_CLI["folder"]
    inner = Archive(assets={"k/../j": Asset(path="d/a")})
    archive = Archive(assets={"x": Asset(text="x"), "dir": Archive(path="d"), "n": inner})
    assert archive_hash(archive, folder) == BY_THE_CLI["assets"]


def test_an_archive_that_is_a_file_hashes_as_that_file(folder: Path) -> None:
    for name in ("a.zip", "a.tar", "a.tgz", "a.tar.gz", "a.jar"):
        (folder / name).write_bytes(b"whatever")
        assert archive_hash(Archive(path=name), folder) == sha256(b"whatever")
        assert archive_hash(Archive(uri=f"file://{folder}/{name}"), Path("/")) == sha256(b"whatever")


def test_members_of_archives_within_archives_count_as_files(folder: Path) -> None:
    with zipfile.ZipFile(folder / "z.zip", "w") as zipped:
        zipped.writestr("q/r.txt", "rr")
        zipped.writestr("empty/", "")
    with tarfile.open(folder / "t.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("./q/r.txt")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"rr"))
    unpacked = archive_hash(Archive(assets={"in/q/r.txt": Asset(text="rr")}), folder)
    assert archive_hash(Archive(assets={"in": Archive(path="z.zip")}), folder) == unpacked
    assert archive_hash(Archive(assets={"in": Archive(path="t.tar.gz")}), folder) == unpacked


def test_hashes_are_computed_once_and_wherever_they_lack(folder: Path) -> None:
    properties = {"l": [Asset(text="x")], "o": {"s": Secret(Archive(path="d"))}, "n": 1}
    hashed = with_hashes(properties, folder)
    assert hashed == {
        "l": [Asset(sha256(b"x"), text="x")],
        "o": {"s": Secret(Archive(BY_THE_CLI["folder"], path="d"))},
        "n": 1,
    }
    # Nothing is read any more: the folder is not even there.
    assert with_hashes(hashed, Path("/nonexistent")) is hashed
    plain = {"a": [1, {"b": "c"}]}
    assert with_hashes(plain, folder) is plain


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (Asset(path="none"), r"failed to open asset file '.*/none': No such file or directory"),
        (Asset(path="d"), "is a directory; try using an archive"),
        (
            Asset(uri="ftp://host/x"),
            "unsupported scheme 'ftp' of 'ftp://host/x'; allowed are file, http and https",
        ),
        (Asset(uri="file://host/x"), "only localhost"),
        (Archive(path="none"), "couldn't read archive path '.*/none'"),
        (Archive(path="d/a.txt"), "neither a recognized archive type .* nor a directory"),
        (Archive(uri="file:///x.txt"), "is not a recognized archive format"),
        (
            Archive(assets={"k": Asset("1", path="none")}),
            "failed to expand archive asset 'k': failed to open",
        ),
        (Archive(assets={"k": Archive("1", path="none")}), "failed to expand sub-archive 'k': couldn't read"),
        (Archive(assets={"k": Archive("1", path="bad.zip")}), "failed to read archive 'bad.zip'"),
        (Archive(path="none.zip"), "failed to open asset file '.*/none.zip'"),
    ],
)
def test_what_cannot_be_read_is_named(folder: Path, value: Asset | Archive, complaint: str) -> None:
    (folder / "bad.zip").write_bytes(b"no zip")
    with pytest.raises(AssetError, match=complaint):
        with_hashes({"v": value}, folder)


_names = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=150)


@given(st.lists(_names, min_size=1, max_size=3), st.binary(max_size=1100))
def test_the_headers_are_those_of_a_tar_file(parts: list[str], content: bytes) -> None:
    name = "/".join(parts)
    block = assets.header(name, len(content))
    file = io.BytesIO(block + content + bytes(-len(content) % 512) + bytes(1024))
    with tarfile.open(fileobj=file) as tar:
        (member,) = tar.getmembers()
        opened = tar.extractfile(member)
        assert opened is not None
        assert (member.name, member.mode, opened.read()) == (name, 0o600, content)
