"""The errors of TMA: broken rules of CUTLASS's construction, or of the driver."""

from cutecourse.errors import RuleError

__all__ = ["TmaError"]


class TmaError(RuleError):
    """CUTLASS or the driver would refuse to make this TMA."""
