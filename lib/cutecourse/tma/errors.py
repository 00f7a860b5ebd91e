"""What can be wrong with a TMA: a rule of CUTLASS's construction, or one of the driver's."""

from cutecourse.errors import RuleError

__all__ = ["TmaError"]


class TmaError(RuleError):
    """No TMA can be made of this, or not in this way."""
