"""The ladder of GEMMs for Hopper: TMA, `wgmma`, specialised warps, clusters."""
