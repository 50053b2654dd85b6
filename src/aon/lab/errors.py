"""Errors that a user can fix, as opposed to faults in the laboratory."""


class LabError(Exception):
    """An error that the user can fix: a bad value, a missing file, a directory in use.

    The message is one line that names the value and what was expected; the command line prints it and
    ends with status 2.
    """


class StoppedError(LabError):
    """Work was stopped on request (Ctrl-C, SIGTERM); what was done is kept and can be continued."""


class ReportedError(LabError):
    """Another process of the same run has already reported the error; nothing is to be printed."""


class RunError(LabError):
    """One run could not be finished: its loss is no longer a number, or memory ran out."""
