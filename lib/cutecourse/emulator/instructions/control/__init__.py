"""Control flow and communication inside a warp: branches, calls, setmaxnreg, shuffles, votes, elections."""
