"""Clients on a network: Flower carries our requests and answers.

The server's side is in `server` (`FlowerEngine`), a site's in `sites` (`Site`); `payloads` is what
they say to each other. `app` wraps both as a Flower app. What only needs arrays and files does not
import Flower.
"""
