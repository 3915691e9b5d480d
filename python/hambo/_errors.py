"""What can go wrong. Every message names what is wrong, where, and what would be right."""


class Error(Exception):
    """Any error of hambo."""


class DataError(Error, ValueError):
    """Logged transitions that cannot be used."""


class PolicyError(Error, ValueError):
    """A policy that cannot be read, does not fit, or did not act as it must."""


class TaskError(Error, ValueError):
    """An environment, a task file, a reward or a termination that cannot be used."""


class SettingError(Error, ValueError):
    """A setting outside its range."""


class DeviceError(Error, RuntimeError):
    """A GPU or a library that is missing, full or broken."""
