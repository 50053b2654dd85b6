"""What can go wrong because of what a user asked for, as opposed to a fault in the laboratory."""


class LabError(Exception):
    """A failure that the user can mend: a bad value, a missing file, a directory in use.

    The message is one line that names the value and what was expected; the command line prints it and
    ends with status 2.
    """


class StoppedError(LabError):
    """Work was stopped on request (Ctrl-C, SIGTERM); what was done is kept and can be continued."""


class RunError(LabError):
    """One run could not be finished: its loss is no longer a number, or memory ran out."""
