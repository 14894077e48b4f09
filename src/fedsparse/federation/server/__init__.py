"""The server's side: calls the sites, has them agree, trains, and writes what came of it."""
