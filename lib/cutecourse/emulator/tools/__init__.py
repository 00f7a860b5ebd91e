"""What is built on launches: one kernel under many seeds, and what differs between its runs."""
