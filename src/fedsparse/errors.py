"""Errors a user can cause, each told in one sentence that says what to do."""


class DataError(ValueError):
    """The clients' data cannot be used as they are."""


class OptionError(ValueError):
    """An option has a value that makes no sense."""


class CheckpointError(ValueError):
    """A checkpoint cannot be used for this run."""


class FederationError(RuntimeError):
    """Sites on a network did not do their part: too few answered, or their data do not match."""


class DivergenceWarning(UserWarning):
    """The iterates blew up; the run was stopped at the last good one."""
