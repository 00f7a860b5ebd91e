"""What a correct kernel must keep to, checked while it runs: races, order, operands, provenance."""
