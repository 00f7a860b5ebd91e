"""Copies and transposes between global and shared memory."""
