"""Number formats and exact sums: bits in, bits out, with no machine in sight."""
