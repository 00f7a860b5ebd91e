"""Warpgroup matrix instructions (sm_90a)."""
