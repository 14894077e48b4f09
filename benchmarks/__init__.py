"""Benchmarks, one file per question; each runs both sides and prints ratios."""
