"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import callbacks as callbacks
from . import costs as costs
from . import fitting as fitting
from . import guards as guards
from . import losses as losses
from . import muon as muon
from . import optimization as optimization
from . import precision as precision
from . import processes as processes
from . import resuming as resuming
from . import runs as runs
from . import speed as speed
from . import training as training
from . import training_config as training_config
from . import training_run as training_run
from .callbacks import Callback as Callback
from .callbacks import ProgressBar as ProgressBar
from .callbacks import SaveBest as SaveBest
from .costs import training_cost as training_cost
from .fitting import fit as fit
from .losses import batch_loss as batch_loss
from .losses import evaluate as evaluate
from .losses import exact_match as exact_match
from .losses import token_loss as token_loss
from .resuming import Checkpoint as Checkpoint
from .training import train_step as train_step
from .training import warmup_cosine as warmup_cosine
from .training_config import TrainingConfig as TrainingConfig

__all__ = [
    "Callback",
    "Checkpoint",
    "ProgressBar",
    "SaveBest",
    "TrainingConfig",
    "batch_loss",
    "evaluate",
    "exact_match",
    "fit",
    "token_loss",
    "train_step",
    "training_cost",
    "warmup_cosine",
]
