"""Pictures and pages made from a table of runs, and from nothing else."""
