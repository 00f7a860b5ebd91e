"""Attention in one pass: the softmax runs between two MMAs, and its matrices stay in registers."""
