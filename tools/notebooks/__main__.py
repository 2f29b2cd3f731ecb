"""Run the command line: ``python -m tools.notebooks``."""

import sys

from .cli import main

sys.exit(main())
