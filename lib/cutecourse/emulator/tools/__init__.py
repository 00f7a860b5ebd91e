"""What is built on a launch: many seeds, several processes, replay for traces."""
