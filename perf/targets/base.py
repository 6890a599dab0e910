"""What every file-system target has in common."""


class Unavailable(Exception):
    """This target cannot be measured here, or only not in this regime; the message says why."""

    def __init__(self, why, only_now=False):
        super().__init__(why)
        self.only_now = only_now


class Target:
    """A file system to measure. `dir` is where files are made, once `open` has returned.

    A target is opened afresh for each group of rows and each repeat, and closed after it, so that
    nothing that one group left (a full tier, a collector at work) is paid for by the next.
    """

    name = title = ""
    large = True  # whether it gets the large file and the time for it; most peers get less
    remote = True  # whether its cold reads come from a store
    note = ""  # what a reader of its figures must know

    def __init__(self, site, store, settings):
        self.site, self.store, self.settings = site, store, settings
        self.dir = None

    def open(self):
        """Makes it new and empty, mounted."""

    def close(self):
        """Ends it; what it kept goes."""

    def pids(self):
        """Its processes, whose CPU time is what it costs."""
        return []

    def settle(self):
        """Returns when what was written is where it belongs."""

    def cold(self):
        """Leaves no file's bytes on this machine."""

    def requests(self):
        """Requests and bytes of the bucket by component and kind since the mount, where known."""
        return {}
