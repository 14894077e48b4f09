"""An experiment small enough for tests, as a user would write it."""

TINY = """
name = "tiny"
title = "Tiny simulation"
loss = "squared"
sparsity = 5
rounds = 6
seeds = [0, 1]
adaptive_local_steps = 3

[data]
source = "simulation_1"
options = { clients = 6, samples = 8, width = 20, relevant = 4 }

[grid]
local_steps = [2, 3]
step_sizes = [10, 0.01, 0.001]

[claims]
rounds = { Fed-HT = 3, FedIter-HT = 2 }
baseline_rounds = 6
speedup = 1.5

[quick]
seeds = [0]
rounds = 4
grid = { step_sizes = [0.01] }
"""
