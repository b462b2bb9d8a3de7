"""The plugin that Pulumi starts; all that it does is in `tidepool.provider`."""

import sys
from pathlib import Path

# The package of this checkout, whichever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tidepool.provider.serving import main

main(sys.argv[1:])
