from __future__ import annotations

from tidepool.images.sources import SourceFile, sources_beside, sources_for, suites_in

DEB822 = SourceFile(
    "sources",
    """\
Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://mirror.example/other
Suites: nodistro
Components: main

Enabled: no
Types: deb
URIs: http://mirror.example/off
Suites: bookworm
Components: main

Types: deb-src
URIs: http://mirror.example/src
Suites: bookworm
Components: main
""",
)
ONE_LINE = SourceFile(
    "list",
    """\
# deb http://mirror.example/old bookworm main
deb [signed-by=/usr/share/keyrings/x.gpg arch=amd64] http://mirror.example/debian bookworm main contrib # why
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/tool stable main
deb http://mirror.example/security bookworm-security main
""",
)


def test_deb822_keeps_what_serves_the_release_with_its_keys() -> None:
    (file,) = sources_for("bookworm", [DEB822])
    assert file == SourceFile(
        "sources",
        """\
Types: deb
Suites: bookworm bookworm-updates
URIs: http://mirror.example/debian
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----
""",
    )


def test_one_line_sources_keep_what_serves_the_release_with_its_options() -> None:
    (file,) = sources_for("bookworm", [ONE_LINE])
    assert file.text.splitlines() == [
        "deb [signed-by=/usr/share/keyrings/x.gpg arch=amd64] http://mirror.example/debian bookworm main contrib",
        "deb http://mirror.example/security bookworm-security main",
    ]


def test_a_release_that_nothing_serves_has_no_sources() -> None:
    assert sources_for("bullseye", [DEB822, ONE_LINE]) == ()
    assert set(suites_in([DEB822, ONE_LINE])) >= {
        "bookworm",
        "trixie",
        "nodistro",
        "stable",
        "bookworm-security",
    }


def test_a_mirror_that_serves_one_release_is_asked_for_another() -> None:
    known = ("bullseye", "bookworm", "trixie")
    (lines,) = sources_beside("bullseye", known, [ONE_LINE])
    assert lines.text.splitlines() == [
        "deb [signed-by=/usr/share/keyrings/x.gpg arch=amd64] http://mirror.example/debian bullseye main contrib",
        "deb http://mirror.example/security bullseye-security main",
    ]
    (stanzas,) = sources_beside("bullseye", known, [DEB822])
    assert "Suites: bullseye bullseye-updates\nURIs: http://mirror.example/debian\n" in stanzas.text
    assert "bookworm" not in stanzas.text
    # They are sources of that release, as if a person had written them.
    assert sources_for("bullseye", [lines, stanzas]) == (lines, stanzas)


def test_a_mirror_of_something_else_is_not_asked_for_a_release_of_debian() -> None:
    other = SourceFile("list", "deb http://mirror.example/tool stable main\n")
    assert sources_beside("bullseye", ("bookworm",), [other]) == ()
