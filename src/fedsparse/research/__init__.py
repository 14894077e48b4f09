"""The paper and its like: data sets, experiments, theory. Looks at single clients, in memory."""
