"""The check that a boot service answers."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import Final

from tidepool.infrastructures.boot_media.service import ALIVE

_ANSWER_S: Final = 10.0


def boot_service_lacks(url: str) -> str:
    """Return what is wrong with a boot service, with the remedy; empty where it answers."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}{ALIVE}", timeout=_ANSWER_S) as answer:  # noqa: S310
            if answer.status == 204:
                return ""
            said = f"answers with {answer.status}, as no boot service does"
    except urllib.error.HTTPError as error:
        said = f"answers with {error.code}, as no boot service does"
        error.close()
    except (OSError, ssl.SSLError) as error:
        said = f"does not answer ({getattr(error, 'reason', error)})"
    return (
        f"the boot service at {url} {said}: run it on this machine, at an address that BMCs reach: python -m "
        "tidepool.infrastructures.boot_media.service --listen ADDRESS:PORT (docs/infrastructures/metal.md)"
    )
