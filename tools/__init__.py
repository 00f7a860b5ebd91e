"""What authors run: recording notebooks, generating exercises, building the book."""
