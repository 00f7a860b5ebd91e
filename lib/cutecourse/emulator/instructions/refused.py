"""Instructions that the emulator refuses in every form, and the way round each of them."""

from __future__ import annotations

from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site

__all__: list[str] = []


@instruction(
    "multimem",
    facts=Facts(
        refused="it works on the memory of several GPUs, and the emulator has one. Take ld, st and red on one"
        " GPU's memory, and test the exchange between GPUs on hardware"
    ),
)
def multimem(site: Site) -> Step:
    """Load, store or reduce the memory of several GPUs. Not supported.

    Shapes:     one address in each lane.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, multimem.ld_reduce, multimem.st, multimem.red
                (#data-movement-and-conversion-instructions-multimem).
    """
    site.refuse()


@instruction(
    "mma.sp",
    "mma.sp::ordered_metadata",
    facts=Facts(
        category="MMA", refused="a sparse A is not supported. Take mma.sync, with the zeros of A in place"
    ),
)
def mma_sp(site: Site) -> Step:
    """Multiply a sparse matrix. Not supported.

    Shapes:     as mma.sync, with half of A and its metadata.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, mma.sp (#warp-level-matrix-instructions-for-sparse-mma).
    """
    site.refuse()


@instruction(
    *("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"),
    facts=Facts(
        refused="textures and surfaces are not supported. Pass an array, and use ld.global, st.global or red"
    ),
)
def textures(site: Site) -> Step:
    """Read or change a texture or a surface, or ask about it. Not supported.

    Shapes:     coordinates in each lane.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, Texture Instructions (#texture-instructions), Surface Instructions
                (#surface-instructions).
    """
    site.refuse()


@instruction(
    *("alloca", "stacksave", "stackrestore"),
    facts=Facts(refused="a stack that grows is not supported. Declare a .local array of the largest size"),
)
def stack(site: Site) -> Step:
    """Allocate local memory while a thread runs. Not supported.

    Shapes:     one size or pointer in each lane.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, Stack Manipulation Instructions (#stack-manipulation-instructions).
    """
    site.refuse()


@instruction(
    *("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vset2", "vset4"),
    facts=Facts(
        refused="scalar video instructions are not supported. Cut out the bytes with bfe or prmt, and use the"
        " plain instruction"
    ),
)
def video(site: Site) -> Step:
    """Compute with bytes and halves of words. Not supported.

    Shapes:     one word in each lane.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, Video Instructions (#video-instructions).
    """
    site.refuse()
