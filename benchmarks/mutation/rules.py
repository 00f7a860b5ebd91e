"""All rules, in the order of the table, and what was changed in their expected sets since they were fixed."""

from __future__ import annotations

from benchmarks.mutation import rules_barriers, rules_copies, rules_tensor
from benchmarks.mutation.rule import Rule

RULES: tuple[Rule, ...] = (*rules_barriers.RULES, *rules_copies.RULES, *rules_tensor.RULES)

REVISIONS: tuple[tuple[str, str, str], ...] = ()
"""Rule, what changed in its expected set since 2026-11-21 22:30 UTC, and the definition that asks for it."""
