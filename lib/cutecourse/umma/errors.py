"""Errors in the operands of a tcgen05.mma, each with the name of the CUTLASS rule that it breaks."""

from cutecourse.errors import RuleError

__all__ = ["UmmaError"]


class UmmaError(RuleError):
    """CuTe makes nothing of this, and says why with an assertion."""
