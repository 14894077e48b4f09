"""A site's side: its table, its policy, its answers, and its line to the server."""
