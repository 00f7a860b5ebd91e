"""GEMMs of eight and four bits, whose blocks of elements share scale factors."""
