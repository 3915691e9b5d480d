"""The command `hambo`, which the package holds too."""

import signal
import sys

from . import _hambo


def main() -> None:
    """Runs the command with the arguments of this process."""
    # The command is stopped by the system, as one without Python around it is.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_hambo.run(sys.argv[1:]))
