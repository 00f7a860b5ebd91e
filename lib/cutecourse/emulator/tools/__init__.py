"""Tools that are built on launches: run one kernel under many seeds, and compare its runs."""
