"""The state spaces: addresses, accesses, tensor memory, tensor maps and the layouts that descriptors name."""
