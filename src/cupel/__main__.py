"""`python -m cupel` is the command `cupel`."""

import sys

from cupel.cli import main

sys.exit(main())
