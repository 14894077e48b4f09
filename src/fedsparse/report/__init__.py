"""Charts and pages, made from tables of runs and summaries of fits and from nothing else."""
