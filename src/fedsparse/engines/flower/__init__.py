"""Clients on a network: Flower carries our requests and answers.

The server's side is `engine.FlowerEngine`, a site's side is `site.Site`; `app` wraps both as a
Flower app. What only needs arrays and files does not import Flower.
"""
