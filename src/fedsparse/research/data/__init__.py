"""Data sets: made up, or downloaded and read, and ways to split them over clients."""
