"""`python -m cutecourse.cli`, for a machine where the package is on the path but not installed."""

import sys

from cutecourse.cli import main

if __name__ == "__main__":
    sys.exit(main())
