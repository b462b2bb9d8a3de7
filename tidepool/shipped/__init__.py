"""Files that come with Tidepool and are no Python: recipes of images, playbooks, Go modules of programs.

They stand beside this file. In a checkout these are links to the folders at the top of the repository; a wheel has copies.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

# Resolved: paths are inputs of resources, and in a checkout those of the folders themselves.
IMAGES: Final = (Path(__file__).parent / "images").resolve()
PLAYBOOKS: Final = (Path(__file__).parent / "playbooks").resolve()
#: The Go module that etcd, the kubelet and the others are built from.
KUBERNETES: Final = (Path(__file__).parent / "kubernetes").resolve()
#: Those of the schedulers that a laboratory adds to it, and of what plays nodes for them.
VOLCANO: Final = (Path(__file__).parent / "volcano").resolve()
KUEUE: Final = (Path(__file__).parent / "kueue").resolve()
KWOK: Final = (Path(__file__).parent / "kwok").resolve()
#: Those that Nomad, the S3 server of tests and the Pulumi CLI are built from.
NOMAD: Final = (Path(__file__).parent / "nomad").resolve()
OBJECTSTORE: Final = (Path(__file__).parent / "objectstore").resolve()
PULUMI: Final = (Path(__file__).parent / "pulumi").resolve()


def recipe(image: str, folder: Path) -> Path:
    """Return the recipe of ``image``: that in ``images/`` of a project's ``folder``, or else Tidepool's own.

    It may be neither: who builds it says so.
    """
    own, shipped = folder / "images" / image, IMAGES / image
    return shipped if not own.exists() and shipped.exists() else own


def playbooks(folder: Path) -> Path:
    """Return ``playbooks/`` of a project's ``folder``, or else Tidepool's own."""
    own = folder / "playbooks"
    return own if own.exists() else PLAYBOOKS
