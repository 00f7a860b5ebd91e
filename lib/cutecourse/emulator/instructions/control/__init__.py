"""Instructions that decide which lanes run and with what: branches, calls, shuffles, elections."""
