"""TMA loads and stores, pipelines with mbarriers, clusters and multicast."""
