"""A process of its own, that can be killed: it has a kubeconfig's program make a credential, by the library `kubernetes`.

Reads ``{"exec": ..., "cluster": ..., "folder": ...}`` from its input, and writes the credential's status as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main() -> str:
    """Write the credential, or return why there is none."""
    asked = json.load(sys.stdin)
    providers: Any = importlib.import_module("kubernetes.config.exec_provider")
    nodes: Any = importlib.import_module("kubernetes.config.kube_config")
    program, cluster = (nodes.ConfigNode(key, asked[key]) for key in ("exec", "cluster"))
    try:
        json.dump(providers.ExecProvider(program, asked["folder"], cluster).run(), sys.stdout)
    except Exception as error:  # noqa: BLE001  # whatever it is, who waits tells it
        return str(error) or repr(error)
    return ""


if __name__ == "__main__":
    sys.exit(main() or 0)
