"shim"
from .rotary import Rotary  # noqa: F401
