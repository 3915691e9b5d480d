"""Conservative off-policy evaluation: a lower bound on a policy's return from logged data alone.

    import hambo

    result = hambo.evaluate("pend.hdf5", "builtin:swing-up", env="pendulum", horizon=200, threshold=-160)
    result.lower_bound, result.verdict, result.evidence
"""

from importlib.metadata import version as _version

from ._api import Model, evaluate, fit, inspect, learn, rank
from ._data import Transitions
from ._errors import DataError, DeviceError, Error, PolicyError, SettingError, TaskError
from ._result import Estimate, Inspection, Learned, Ranking, Result
from ._settings import LearnSettings, Settings
from ._sweep import sweep

__all__ = [
    "DataError",
    "DeviceError",
    "Error",
    "Estimate",
    "Inspection",
    "LearnSettings",
    "Learned",
    "Model",
    "PolicyError",
    "Ranking",
    "Result",
    "SettingError",
    "Settings",
    "TaskError",
    "Transitions",
    "evaluate",
    "fit",
    "inspect",
    "learn",
    "rank",
    "sweep",
]

__version__ = _version("hambo")
