"""Instructions that compute in registers: arithmetic, logic, comparison, conversion, moves."""
