"""What each instruction means, one folder for each family."""
