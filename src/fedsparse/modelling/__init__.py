"""From rows to a model: fitting, choosing how many features, judging, and model files."""
