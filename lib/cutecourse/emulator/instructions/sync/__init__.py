"""Instructions that order threads: barriers, mbarriers, clusters, fences."""
