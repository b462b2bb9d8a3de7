"""What hosts boot from: the seed in an ISO, and the service that puts both together while it is read."""

from __future__ import annotations

import http.client
import io
import json
import lzma
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster.failures import Permanent
from tidepool.images import ImageError
from tidepool.images.cpio import FILE, FOLDER, Entry, cpio
from tidepool.images.iso import SEED_BYTES, seed_at
from tidepool.images.memory_root import UPPER, entries_of_init
from tidepool.infrastructures.boot_media.media import Kept, Medium, Report, Sums
from tidepool.infrastructures.boot_media.seeds import seed, task_of
from tidepool.infrastructures.boot_media.service import ALIVE, cut, service, span

USER_DATA = "#cloud-config\n" + json.dumps(
    {"bootcmd": [["true"]], "write_files": [], "runcmd": [], "ssh_deletekeys": False}
)


def a_medium(image: Path, node: str = "cpu-1", **more: Any) -> Medium:
    network = ("52:54:00:00:00:01", "10.77.10.1/16", "10.77.0.1", ("10.0.0.2",))
    return Medium("one", node, str(image), "cpu", *network, **more)


@pytest.fixture(scope="module")
def iso(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ISO with a seed's place, of nothing that boots."""
    if shutil.which("xorriso") is None:
        pytest.skip("xorriso is not installed: apt-get install xorriso")
    folder = tmp_path_factory.mktemp("iso")
    content = folder / "content"
    content.mkdir()
    (content / "root.img").write_bytes(b"r" * 5000)
    (content / "seed").write_bytes(b"\0" * SEED_BYTES)
    (content / "vmlinuz").write_bytes(b"k" * 3000)
    path = folder / "image.iso"
    subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", "-R", "-o", str(path), str(content)], check=True)
    return path


def unpacked(data: bytes) -> dict[str, tuple[int, bytes]]:
    """The modes and contents in a cpio of the form newc, by their paths."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * each : at + 14 + 8 * each], 16) for each in range(13)]
        mode, size, length = fields[1], fields[6], fields[11]
        path = data[at + 110 : at + 109 + length].decode()
        if path == "TRAILER!!!":
            return found
        begin = at + (110 + length + 3) // 4 * 4
        found[path] = mode, data[begin : begin + size]
        at = begin + (size + 3) // 4 * 4


def test_a_seed_says_who_the_machine_is(iso: Path) -> None:
    told = seed(a_medium(iso), USER_DATA, "")
    assert len(told) == SEED_BYTES
    root = unpacked(told)
    mode, said = root[f"{UPPER}/usr/lib/tidepool/metal.json"]
    assert json.loads(said) == {
        "node": "cpu-1",
        "said": {"bootcmd": [["true"]], "write_files": [], "runcmd": []},
    }
    # Keys are in it.
    assert mode == 0o100600
    # The kernel makes no folder by itself, and systemd's have to be as in the image.
    for path in root:
        for above in Path(path).parents[:-1]:
            assert root.get(str(above), (FOLDER | 0o755, b"")) == (FOLDER | 0o755, b""), path
    assert root[f"{UPPER}/etc/systemd/network/05-tidepool.network"][1].decode() == (
        "[Match]\nMACAddress=52:54:00:00:00:01\n[Network]\nAddress=10.77.10.1/16\nIPv6AcceptRA=no\nGateway=10.77.0.1\nDNS=10.0.0.2\n"
    )
    compile(root[f"{UPPER}/usr/lib/tidepool/metal"][1], "metal", "exec")


def test_containers_have_a_place_of_their_own_beside_a_root_that_is_in_memory(iso: Path) -> None:
    """An overlay cannot lie on another one; on a disk they are on its file system."""
    unit, medium = "etc/systemd/system/var-lib-containerd.mount", a_medium(iso)
    root = unpacked(seed(medium, USER_DATA, ""))
    assert b"Where=/var/lib/containerd\nType=tmpfs" in root[f"{UPPER}/{unit}"][1]
    link = root[f"{UPPER}/etc/systemd/system/local-fs.target.wants/var-lib-containerd.mount"]
    assert link == (0o120777, b"../var-lib-containerd.mount")
    told = json.dumps(task_of(replace(medium, task="install"), USER_DATA, "", Sums(8 << 20, ("a", "b"))))
    assert "nocloud" in told
    assert "containerd" not in told


def test_a_seed_that_is_too_large_is_told() -> None:
    huge = USER_DATA.replace('"true"', json.dumps("x" * SEED_BYTES))
    with pytest.raises(Permanent, match="there is room for 4194304"):
        seed(a_medium(Path("/image.iso")), huge, "")


def an_image(root: Path, *, suffix: str = "") -> Path:
    """What of an image its initramfs is made of."""
    programs, modules = root / "usr/lib/klibc/bin", root / "usr/lib/modules/6.1.0-56-amd64/kernel"
    programs.mkdir(parents=True)
    for name in ("chroot", "insmod", "losetup", "mount", "sh", "sleep", "gzip"):
        (programs / name).write_bytes(b"\x7fELF")
    (root / "usr/lib/klibc-abc.so").write_bytes(b"library")
    for module in ("drivers/block/loop", "fs/squashfs/squashfs", "fs/overlayfs/overlay"):
        path = modules / f"{module}.ko{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(b"module") if suffix else b"module")
    return root


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_the_initramfs_has_what_its_script_names_and_no_more(tmp_path: Path, suffix: str) -> None:
    packed = io.BytesIO()
    cpio(entries_of_init(an_image(tmp_path, suffix=suffix)), packed)
    there = unpacked(packed.getvalue())
    script = there["init"][1].decode()
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    assert {*re.findall(r"insmod /(\S+)", script)} == {path for path in there if path.endswith(".ko")}
    assert {data for path, (_, data) in there.items() if path.endswith(".ko")} == {b"module"}
    assert there["lib/klibc-abc.so"] == (FILE | 0o755, b"library")
    for program in (path.removeprefix("bin/") for path in there if path.startswith("bin/")):
        assert re.search(rf"\b{program}\b", script), program


def test_an_image_that_lacks_what_its_root_is_made_with_is_told(tmp_path: Path) -> None:
    root = an_image(tmp_path)
    (root / "usr/lib/klibc/bin/losetup").unlink()
    with pytest.raises(ImageError, match=r"has one usr/lib/klibc/bin/losetup, and this one none"):
        [*entries_of_init(root)]


def test_what_is_no_such_iso_is_told(tmp_path: Path) -> None:
    path = tmp_path / "image.iso"
    path.write_bytes(b"\0" * 2**17)
    with pytest.raises(ImageError, match="has no place for a seed"):
        seed_at(path)


def test_a_file_is_packed_as_its_bytes_are(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    packed = [io.BytesIO(), io.BytesIO()]
    cpio([Entry("a", FILE | 0o600, b"12345")], packed[0])
    cpio([Entry("a", FILE | 0o600, tmp_path / "file")], packed[1])
    assert packed[0].getvalue() == packed[1].getvalue()


@given(st.dictionaries(st.from_regex(r"[a-z]{1,9}(/[a-z]{1,9})?", fullmatch=True), st.binary(max_size=9)))
def test_whatever_is_packed_is_there(files: dict[str, bytes]) -> None:
    packed = io.BytesIO()
    cpio((Entry(path, 0o100644, data) for path, data in files.items()), packed)
    assert len(packed.getvalue()) % 4 == 0
    assert unpacked(packed.getvalue()) == {path: (0o100644, data) for path, data in files.items()}


@given(st.integers(0, 30), st.integers(0, 30))
def test_any_part_of_what_is_put_together_is_that_part(begin: int, end: int) -> None:
    whole = b"0123456789" + b"abcde" + b"fghij"
    parts = ((10, whole[:10]), (5, whole[10:15]), (5, whole[15:]))
    assert b"".join(cut(parts, begin, end)) == whole[begin:end]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, (0, 100)),
        ("bytes=0-9", (0, 10)),
        ("bytes=90-", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=0-999", (0, 100)),
        ("bytes=100-", None),
        ("lines=1-2", (0, 100)),
    ],
)
def test_ranges_are_read_as_http_says(wanted: str | None, found: tuple[int, int] | None) -> None:
    assert span(wanted, 100) == found


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Kept, http.client.HTTPConnection]]:
    server = service(tmp_path, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1])
    try:
        yield Kept(tmp_path, "one"), connection
    finally:
        connection.close()
        server.shutdown()
        thread.join()
        server.server_close()


def get(connection: http.client.HTTPConnection, path: str, **headers: str) -> tuple[int, bytes]:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_host_reads_its_own_iso_whole_and_in_pieces_and_nobody_elses(
    served: tuple[Kept, http.client.HTTPConnection], iso: Path
) -> None:
    kept, connection = served
    kept.write_boot("cpu", USER_DATA)
    kept.write("alpha", a_medium(iso))
    path = f"{kept.path('alpha')}.iso"
    plain, at = iso.read_bytes(), seed_at(iso)
    expected = plain[:at] + seed(a_medium(iso), USER_DATA, kept.url("alpha")) + plain[at + SEED_BYTES :]
    assert get(connection, path) == (200, expected)
    assert get(connection, path, Range=f"bytes={at - 5}-{at + 99}") == (
        206,
        expected[at - 5 : at + 100],
    )
    assert get(connection, path, Range=f"bytes={len(plain)}-")[0] == 416
    # A host without a medium, a path that somebody guesses, a stack that is not there.
    for other in (
        f"{kept.path('beta')}.iso",
        f"/one/alpha/{'0' * 32}.iso",
        f"/two/alpha/{'0' * 32}.iso",
        "/one/../x",
    ):
        assert get(connection, other)[0] == 404
    assert not (kept.data / "two").exists()
    assert get(connection, ALIVE)[0] == 204
    # Another boot is taken by whoever boots next.
    kept.write_boot("cpu", USER_DATA.replace('"true"', '"false"'))
    assert get(connection, path)[1] != expected
    kept.remove("alpha")
    assert get(connection, path)[0] == 404


def test_a_host_says_what_came_of_its_boot_and_nobody_elses(
    served: tuple[Kept, http.client.HTTPConnection], iso: Path
) -> None:
    kept, connection = served
    kept.write("alpha", a_medium(iso))
    own = kept.path("alpha")

    def post(path: str, body: str, **headers: str) -> int:
        connection.request(
            "POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        answer.read()
        return answer.status

    assert post(f"{own}.log", "kernel: hello") == 204
    assert kept.log("alpha").read_text() == "kernel: hello"
    assert post(f"{own}.log", "x", Content_Length=str(2**20 + 1)) == 413
    assert post(f"{own}.report", '{"claim": "1", "task": "wipe", "isDone": true, "what": "all of it"}') == 204
    assert kept.read_report("alpha", "1", "wipe") == Report("1", "wipe", True, "all of it")
    assert post(f"{own}.report", "[]") == 400
    for path in (f"/one/alpha/{'0' * 32}.log", f"{own}.iso", f"/two/alpha/{'0' * 32}.log"):
        assert post(path, "guessed") == 404
    # The image is for whoever has it written, and for nobody else.
    assert get(connection, f"{own}.disk")[0] == 404


def test_whoever_never_shakes_hands_keeps_nobody_waiting(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = service(tmp_path, "127.0.0.1", 0, context)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        trusting = ssl.create_default_context(cafile=certificate)
        port = server.server_address[1]
        with (
            socket.create_connection(("127.0.0.1", port)),
            closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=trusting)) as other,
        ):
            assert get(other, ALIVE)[0] == 204
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_what_is_kept_is_for_root_alone(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "one")
    kept.write_boot("cpu", USER_DATA)
    kept.path("alpha")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
