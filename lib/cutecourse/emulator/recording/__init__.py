"""The parts of a trace: events for the recorder, accesses for the log, and a launch that runs again."""
