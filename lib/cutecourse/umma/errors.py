"""What can be wrong with a tcgen05.mma's operands: a rule of CUTLASS's, by name."""

from cutecourse.errors import RuleError

__all__ = ["UmmaError"]


class UmmaError(RuleError):
    """CuTe makes nothing of this, and says why with an assertion."""
