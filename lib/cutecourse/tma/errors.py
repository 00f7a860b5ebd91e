"""The errors of TMA: broken rules of CUTLASS's construction, or of the driver."""

from cutecourse.errors import RuleError

__all__ = ["TmaError"]


class TmaError(RuleError):
    """No TMA can be made of this, or not in this way."""
