"""The machine itself: a kernel decoded into steps, warps that run them, and the scheduler.

Nothing here knows an instruction, a check or a trace.
"""
