"""What the pages use of `torch.nn`."""

import math

from .._random import default_generator
from .._tensor import Tensor, absent
from .._types import float32
from . import functional, init

F = functional


class Parameter(Tensor):
    """A tensor that a module learns."""

    def __init__(self, data, requires_grad=True):
        super().__init__(data.numbers, data.shape, data.dtype, data.strides, data.offset)
        self.requires_grad = requires_grad

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class Module:
    """Something with parameters, buffers and other modules, which is called like a function."""

    training = True

    def __init__(self):
        self._parameters, self._buffers, self._modules = {}, {}, {}

    def __setattr__(self, name, value):
        groups = {"_parameters": Parameter, "_modules": Module}
        for group, kind in groups.items():
            if isinstance(value, kind):
                if group not in self.__dict__:
                    raise AttributeError(f"cannot assign {group[1:]} before Module.__init__() call")
                self.__dict__.pop(name, None)
                self.__dict__[group][name] = value
                return
        for group in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(group, {}):
                self.__dict__[group][name] = value
                return
        self.__dict__[name] = value

    def __getattr__(self, name):
        for group in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(group, {}):
                return self.__dict__[group][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __call__(self, *args, **options):
        return self.forward(*args, **options)

    def register_buffer(self, name, tensor, persistent=True):
        """Keep a tensor that is not learned."""
        self.__dict__.pop(name, None)
        self._buffers[name] = tensor

    def register_parameter(self, name, parameter):
        """Keep a tensor that is learned."""
        self._parameters[name] = parameter

    def named_modules(self, prefix=""):
        """This module and all in it, with their names."""
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self):
        """This module and all in it."""
        return (module for _, module in self.named_modules())

    def children(self):
        """The modules right in this one."""
        return iter(self._modules.values())

    def named_parameters(self, recurse=True, remove_duplicate=True):
        """All parameters with their names."""
        for prefix, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    yield f"{prefix}.{name}" if prefix else name, parameter

    def parameters(self):
        """All parameters."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self):
        """All tensors that are kept and not learned, with their names."""
        for prefix, module in self.named_modules():
            for name, buffer in module._buffers.items():
                yield f"{prefix}.{name}" if prefix else name, buffer

    def buffers(self):
        """All tensors that are kept and not learned."""
        return (buffer for _, buffer in self.named_buffers())

    def state_dict(self):
        """All parameters and buffers by their names."""
        return dict(self.named_parameters()) | dict(self.named_buffers())

    def get_submodule(self, target):
        """The module of this name."""
        module = self
        for name in target.split(".") if target else []:
            module = getattr(module, name)
        return module

    def get_parameter(self, target):
        """The parameter of this name."""
        path, _, name = target.rpartition(".")
        return getattr(self.get_submodule(path), name)

    def requires_grad_(self, requires_grad=True):
        """Note whether gradients are wanted."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def train(self, mode=True):
        """Switch to training."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        """Switch to use."""
        return self.train(False)

    def to(self, *args, **options):
        """The module itself; it is on the CPU."""
        return self

    cpu = to

    def zero_grad(self, set_to_none=True):
        """Nothing to forget."""

    def _apply(self, fn, recurse=True):
        return self

    def extra_repr(self):
        """What stands in brackets behind the name."""
        return ""

    def __repr__(self):
        lines = [f"({name}): {module!r}" for name, module in self._modules.items()]
        inner = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
        return f"{type(self).__name__}({self.extra_repr()}{inner}" + ("\n)" if inner else ")")


class Identity(Module):
    """Gives back what it gets."""

    def __init__(self, *args, **options):
        super().__init__()

    def forward(self, x):
        return x


class Linear(Module):
    """x W^T + b."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        bound = 1 / math.sqrt(in_features) if in_features else 0
        zeros = Tensor([0.0] * (in_features * out_features), (out_features, in_features), float32)
        self.weight = Parameter(zeros.uniform_(-bound, bound))
        self.bias = None
        if bias:
            zeros = Tensor([0.0] * out_features, (out_features,), float32)
            self.bias = Parameter(zeros.uniform_(-bound, bound))
        else:
            self.register_parameter("bias", None)

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Embedding(Module):
    """A row of a table for each number."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        drawn = default_generator.normal_numbers(num_embeddings * embedding_dim)
        table = Tensor(drawn, (num_embeddings, embedding_dim), float32)
        self.weight = Parameter(table.clone())
        if padding_idx is not None:
            self.weight[padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True):
        """An embedding with this table."""
        module = cls(*embeddings.shape)
        module.weight = Parameter(embeddings, requires_grad=not freeze)
        return module

    def forward(self, tokens):
        return self.weight[tokens]

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


class MultiheadAttention(Module):
    """PyTorch's own attention with several heads, for batches whose first axis is B."""

    def __init__(self, embed_dim, num_heads, bias=True, batch_first=False):
        super().__init__()
        if not batch_first:
            raise NotImplementedError("only batch_first=True is here")
        self.num_heads = num_heads
        self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", None)
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        table = Tensor([0.0] * (3 * embed_dim**2), (3 * embed_dim, embed_dim), float32)
        self.in_proj_weight = Parameter(init.xavier_uniform_(table))
        if bias:
            self.in_proj_bias = Parameter(Tensor([0.0] * 3 * embed_dim, (3 * embed_dim,), float32))
            self.out_proj.bias.zero_()

    def forward(self, query, key, value, average_attn_weights=True):
        weights = self.in_proj_weight.chunk(3)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        heads = []
        for x, weight, bias in zip((query, key, value), weights, biases):
            projected = F.linear(x, weight, bias).unflatten(-1, (self.num_heads, -1))
            heads.append(projected.transpose(1, 2))  # (B, h, T, d_k)
        q, k, v = heads
        shares = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        y = self.out_proj((shares @ v).transpose(1, 2).flatten(2))
        return y, shares.mean(dim=1) if average_attn_weights else shares


__getattr__ = absent("torch.nn")
