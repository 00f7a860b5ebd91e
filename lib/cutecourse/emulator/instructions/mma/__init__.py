"""Warp-wide matrix instructions: mma.sync and ldmatrix."""
