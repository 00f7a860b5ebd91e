"""Compile the standard library in the reader's browser, so that Python starts sooner on the next page.

Pyodide brings the library as source text in an archive. To compile it takes about half of a start.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_UNCHECKED = (0b01).to_bytes(4, "little") + bytes(8)
"""Flags and hash in the head of a `.pyc` file that is never compared with its source (PEP 552)."""


def loaded_files(archive: str) -> list[str]:
    """The files of an archive from which this process has modules, as the archive names them."""
    specs = [getattr(module, "__spec__", None) for module in [*sys.modules.values()]]
    origins = [getattr(spec, "origin", None) or "" for spec in specs]
    prefix = f"{archive}/"
    return sorted({origin.removeprefix(prefix) for origin in origins if origin.startswith(prefix)})


def compiled(archive: str, names: Iterable[str]) -> Iterator[bytes | None]:
    """Yield None after each file, so that the worker can do other work, and last the new archive.

    archive   the path of an archive. `names` are files in it: the new archive has them compiled as well.
    """
    buffer = io.BytesIO(Path(archive).read_bytes())
    with zipfile.ZipFile(buffer, "a") as made:
        for name in names:
            if name.endswith(".py"):
                code = compile(made.read(name), f"{archive}/{name}", "exec", dont_inherit=True)
                made.writestr(f"{name}c", importlib.util.MAGIC_NUMBER + _UNCHECKED + marshal.dumps(code))
                yield None
    yield buffer.getvalue()


def compiled_library() -> Iterator[bytes | None]:
    """Compile what this process has loaded of the standard library, as `compiled` does."""
    archives = [path for path in sys.path if path.endswith(".zip")]
    for archive in archives[:1]:
        yield from compiled(archive, loaded_files(archive))
