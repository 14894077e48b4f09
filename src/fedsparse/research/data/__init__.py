"""Clients' data: how they are held, generated and read."""
