"""The playground for PTX: a form for a kernel's launch, and the results of a launch, both as plain data.

`read` makes the form from a text. A `Playground` runs the launch that a form describes. The page
`book/playground_ptx.md` uses both, with Python in the reader's browser.
"""

from cutecourse.playground.arguments import FormError
from cutecourse.playground.form import read
from cutecourse.playground.running import Playground

__all__ = ["FormError", "Playground", "read"]
