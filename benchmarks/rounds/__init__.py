"""Rounds and bytes of every method to a goal, and pooled solvers on the same objective.

``cases`` says what is compared on which problem, ``methods`` and ``settings`` make the federated
methods, ``solvers`` are the pooled ones, each run by ``child`` in a process of its own, and
``objective`` judges them all. ``comparison`` runs a case, ``command`` all that are asked for.
"""
