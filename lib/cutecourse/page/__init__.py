"""The code that runs in the reader's browser: a page's cells, its widgets, and the playground for PTX.

The page's worker (`worker.mjs`) starts Python with this library and calls `kernel.start`.
"""
