"""Prove that no order of events makes a kernel go wrong, or show an order that does."""
