"""What a trace is made of: events for the recorder, accesses for the log, and a launch run again."""
