#!/usr/bin/python3
"""Runs a module of Ansible's, which comes by standard input as an archive of it and of all that it imports.

It is run in an image's root, with the package ``ansible`` beside it: each module would compile what it imports from its
archive, which takes most of its time. Here that is compiled once, and imported before the archive could be.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# What it finds beside it is the same release, as it was copied from where the archives are made.

exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec"))  # noqa: S102
