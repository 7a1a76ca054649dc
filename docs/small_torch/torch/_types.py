"""Types of numbers, and which type two of them make together."""

from array import array


class dtype:
    """A type of numbers, such as `torch.float32`."""

    def __init__(
        self,
        name,  # as in `torch.float32`
        kind,  # 0 for truths, 1 for whole numbers, 2 for floating point numbers
        width,  # of two types of one kind, the wider one wins
        title,  # what error messages call it, such as 'Float'
        c_name,  # what it is called in C
    ):
        self.name = name
        self.kind = kind
        self.width = width
        self.title = title
        self.c_name = c_name
        self.is_floating_point = kind == 2
        self.is_complex = False

    def __repr__(self):
        return f"torch.{self.name}"

    def __deepcopy__(self, memo):
        return self

    @property
    def itemsize(self):
        """How many bytes a number takes in PyTorch."""
        return self.width // 8


bool_ = dtype("bool", 0, 8, "Bool", "bool")
int32 = dtype("int32", 1, 32, "Int", "int")
int64 = dtype("int64", 1, 64, "Long", "long int")
float16 = dtype("float16", 2, 16, "Half", "c10::Half")
bfloat16 = dtype("bfloat16", 2, 16, "BFloat16", "c10::BFloat16")
float32 = dtype("float32", 2, 32, "Float", "float")
float64 = dtype("float64", 2, 64, "Double", "double")

EPSILON = {float32: 2.0**-23, float64: 2.0**-52}


def convert(
    values,  # numbers of any type
    to,  # a dtype
):  # a list of numbers as that type can hold them
    """Round numbers to a type."""
    if to is float32:
        return array("f", values).tolist()
    if to is float64:
        return [float(value) for value in values]
    if to is bool_:
        return [value != 0 for value in values]
    if to not in (int32, int64):
        raise NotImplementedError(
            f"there are no numbers of {to} here; the PyTorch of this page is a small part of it; "
            "the notebook has all"
        )
    return [int(value) for value in values]


def type_of_number(number):
    """The type of a Python number."""
    if isinstance(number, bool):
        return bool_
    return int64 if isinstance(number, int) else float32


def promote_types(a, b):
    """The type that two tensors of types a and b make together."""
    if a.kind != b.kind:
        return a if a.kind > b.kind else b
    return a if a.width >= b.width else b


def result_type(*parts):  # tensors or Python numbers
    """The type of what they make together.

    Tensors with axes decide. A single number, or a tensor without axes, counts only where its kind
    is a higher one.
    """
    groups = {"axes": None, "no axes": None, "numbers": None}
    for part in parts:
        group, kind = "numbers", None
        if isinstance(part, bool | int | float):
            kind = type_of_number(part)
        else:
            group = "axes" if part.shape else "no axes"
            kind = part.dtype
        earlier = groups[group]
        groups[group] = kind if earlier is None else promote_types(earlier, kind)
    result = None
    for kind in groups.values():
        if kind is not None and (result is None or kind.kind > result.kind):
            result = kind
    return result
