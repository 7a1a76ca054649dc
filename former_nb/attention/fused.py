"shim"
from .dot_product import attention, attention_weights  # noqa: F401
