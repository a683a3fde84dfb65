"""How things run: threads, compiled loops, batches, double precision, progress, interrupts, files.

Nothing here knows of Gaussian processes.
"""
