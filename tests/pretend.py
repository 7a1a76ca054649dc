"""A pretended accelerator, for machines that have none.

python tests/pretend.py cuda                        run every notebook as if on CUDA
python tests/pretend.py mps nbs/08_training.ipynb   run one of them as if on Apple's GPU

Within `with pretend("cuda") as seen:` PyTorch believes in a device. A tensor there is a wrapper
whose C++ device is really cuda:0 and whose numbers lie in a CPU tensor, `.elem`; a dispatch mode
computes every operation on these. So `.device`, autograd, autocast, factories, `Module.to` and
Accelerate go the ways of the device, and what reaches a kernel is watched, backward included:
- tensors of two devices in one operation raise the error that CUDA raises;
- on mps, float64 raises;
- `seen.waits` counts by (what, line) where the host waits for the device, `seen.uploads` by line
  where it hands over data that are not pinned.
It is tied to Linux and to a version of PyTorch, and asserts what it relies on. Enter it before the
process's first backward. Which operations wait is a table by hand. `torch.compile` and
subclasses of Tensor fail under it.
"""

import argparse
import ctypes
import importlib
import math
import mmap
import os
import platform
import subprocess
import sys
import time
import weakref
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
import torch.nn.attention.bias
import torch.optim
import torch.utils._foreach_utils
from torch.nn.attention import flex_attention
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

aten, ROOT = torch.ops.aten, Path(__file__).resolve().parents[1]
WAITS = "_local_scalar_dense nonzero masked_select equal bincount _unique2 unique_consecutive"
WAITS = {*WAITS.split(), "unique_dim", "multinomial"}  # the last looks at what it is given
INDEX = {"index", "index_put_", "index_put", "_index_put_impl_"}
MAY_MIX = INDEX | {"copy_", "_to_copy", "lift_fresh", "set_", "is_same_size"}
TAKES_0D = "masked_fill fill where index_fill lerp masked_scatter".split()  # of the CPU, 0-d ones
FOREIGN = "/torch/ pretend.py /accelerate/ contextlib threading.py <frozen <string>".split()
KINDS = {"cuda": 1, "mps": 13}  # PyTorch's numbers


def caller():
    "The innermost line that is neither PyTorch's nor ours."
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(part in name for part in FOREIGN):
            return f"{name.rsplit('/', 1)[-1]}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return "backward"


class Pretended(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem):
        how = {"dtype": elem.dtype, "layout": elem.layout, "device": Mode.now.device}
        if elem.layout is torch.strided:
            how |= {"strides": elem.stride(), "storage_offset": elem.storage_offset()}
        t = torch.Tensor._make_wrapper_subclass(cls, elem.shape, **how)
        t.elem, t.pinned = elem, False
        return t

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if Mode.now is None:
            raise RuntimeError(f"{func}: a pretended tensor outlived `with pretend()`")
        return Mode.now.__torch_dispatch__(func, types, args, kwargs)  # printed with modes off

    def __tensor_flatten__(self):  # with this Module.to swaps in place, and tied weights stay tied
        return ["elem"], None

    __tensor_unflatten__ = staticmethod(lambda inner, meta, size, stride: Pretended(inner["elem"]))

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("Only graph leaves support the deepcopy protocol at the moment.")
        if id(self) not in memo:
            memo[id(self)] = copy = self.detach().clone().requires_grad_(self.requires_grad)
            copy.__dict__.update({k: v for k, v in vars(self).items() if k != "elem"})
        return memo[id(self)]

    def __repr__(self, **_):
        Mode.now.wait("print")
        return f"{repr(self.elem.detach())[:-1]}, device='{Mode.now.device}')"

    def numpy(self, **_):
        where = f"can't convert {Mode.now.device} device type tensor to numpy"
        raise TypeError(f"{where}. Use Tensor.cpu() to copy the tensor to host memory first.")

    def __format__(self, spec):
        return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)

    __array__ = numpy
    tolist = lambda self: self.cpu().tolist()
    untyped_storage = lambda self: self.elem.untyped_storage()  # for safetensors
    data_ptr = lambda self: self.elem.data_ptr()


class Generator(torch._C.Generator):
    there = set()  # those of the device

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, "cpu")
        made.where = torch.device(device)
        change = cls.there.discard if made.where.type == "cpu" else cls.there.add
        change(made._cdata)
        return made

    device = property(lambda self: self.where)


def each(f, x):
    "`f` of each tensor in x, a dictionary, list or tuple of whatever an operation takes or gives."
    if isinstance(x, torch.Tensor):
        return f(x)
    if isinstance(x, dict):
        return {k: each(f, v) for k, v in x.items()}
    return type(x)([each(f, v) for v in x]) if type(x) in (list, tuple) else x


class Mode(TorchDispatchMode):
    now = None

    def __init__(self, kind):
        super().__init__()
        self.device, self.rng = torch.device(kind, 0), torch._C.Generator("cpu").manual_seed(0)
        self.seen = SimpleNamespace(waits=Counter(), uploads=Counter())

    @contextmanager
    def own_dice(self):
        kept = torch.default_generator.get_state()
        torch.default_generator.set_state(self.rng.get_state())
        try:
            yield
        finally:
            self.rng.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(kept)

    def wait(self, what):
        self.seen.waits[what, caller()] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name, flat = dict(kwargs or {}), func._schema.name.split("::")[1], []
        each(flat.append, (args, kwargs))
        ours = [t for t in flat if isinstance(t, Pretended)]
        asked = kwargs.get("device")
        there = bool(ours) if asked is None else torch.device(asked).type == self.device.type
        if not ours and not there:
            return func(*args, **kwargs)
        self.check(func, name, flat, ours)
        self.watch(name, args, ours, there)
        if torch.Tag.inplace_view in func.tags:  # squeeze_ and others: the wrapper's shape changes
            before = torch._C._meta_in_tls_dispatch_include()
            with no_dispatch():
                torch._C._set_meta_in_tls_dispatch_include(True)
                func(*args, **kwargs)
                torch._C._set_meta_in_tls_dispatch_include(before)
        return self.compute(func, args, kwargs, ours, there)

    def compute(self, func, args, kwargs, ours, there):
        "The operation on the CPU's numbers, and a wrapper for each result."
        back = {id(t.elem): t for t in ours}
        args, kwargs = each(lambda x: getattr(x, "elem", x), (args, kwargs))
        kwargs |= {"device": torch.device("cpu")} if kwargs.get("device") is not None else {}
        kwargs |= {"pin_memory": False} if "pin_memory" in kwargs else {}
        generator = kwargs.get("generator")
        if generator is not None and (generator._cdata in Generator.there) is not there:
            places = ["cpu", self.device.type][:: 1 if there else -1]
            wanted, found = places[::-1]
            what = f"Expected a '{wanted}' device type for generator but found '{found}'"
            raise RuntimeError(what)
        drawn = generator is None and there and torch.Tag.nondeterministic_seeded in func.tags
        with self.own_dice() if drawn else nullcontext():  # the device has its own
            out = func(*args, **kwargs)

        def wrap(x):
            if id(x) in back:  # in place, or out=
                return back[id(x)]
            if there and self.device.type == "mps" and x.dtype is torch.float64:
                raise TypeError(f"the MPS framework doesn't support float64, at {caller()}")
            return Pretended(x) if there else x

        return each(wrap, out)

    def check(self, func, name, flat, ours):
        "Raise as CUDA does where a CPU tensor meets one of the device."
        if name in MAY_MIX or not ours:
            return
        twin = getattr(aten, name.rstrip("_"), func.overloadpacket)  # add for add_
        zero = name.rstrip("_") in TAKES_0D or name.startswith(("_foreach", "_fused"))
        zero |= any(torch.Tag.pointwise in getattr(twin, o).tags for o in twin.overloads())
        for t in flat:
            if not isinstance(t, Pretended) and t.device.type == "cpu" and (t.ndim or not zero):
                what = f"a tensor of shape {tuple(t.shape)} on cpu, others on {self.device}, {name}"
                raise RuntimeError(f"Expected all tensors to be on the same device, but got {what}")

    def watch(self, name, args, ours, there):
        "Count what makes the host wait, and what it hands over."
        if ours and (name in WAITS or name == "repeat_interleave" and len(args) == 1):
            self.wait(name)
        elif name in ("_to_copy", "copy_"):
            to, source = (there, args[0]) if name == "_to_copy" else (bool(ours), args[1])
            to = isinstance(args[0], Pretended) if name == "copy_" else there
            if isinstance(source, Pretended) and not to:
                self.wait("copy to the CPU")
            elif to and not isinstance(source, Pretended) and source.data_ptr() not in PINNED:
                self.seen.uploads[caller()] += 1
        elif name in INDEX and ours:
            which = [i for i in args[1] if i is not None]
            if not isinstance(args[0], Pretended):
                what = "indices should be either on cpu or on the same device as the indexed tensor"
                raise RuntimeError(f"{what} (cpu)")
            filled = name != "index" and args[2].numel() == 1  # is done without looking
            if any(i.dtype in (torch.bool, torch.uint8) for i in which) and not filled:
                self.wait("boolean index")
            self.seen.uploads[caller()] += any(not isinstance(i, Pretended) for i in which)


PINNED = set()  # addresses of pinned memory, until it is given back


def pin(t, device=None):
    "A tensor in pinned memory, as `Tensor.pin_memory` gives it."
    if t.device.type != "cpu":
        raise RuntimeError(f"cannot pin a tensor of {t.device}: only dense CPU tensors can be")
    PINNED.add(address := (copy := t.clone()).data_ptr())
    weakref.finalize(copy, PINNED.discard, address)
    return copy


def _answer(x):
    "A C++ method that answers x, whatever it is asked: `return x` in the processor's language."
    intel = b"\x31\xd2\xb8" + x.to_bytes(4, "little") + b"\xc3"
    arm = (0x52800000 | x << 5).to_bytes(4, "little") + b"\xc0\x03\x5f\xd6"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(arm if platform.machine() == "aarch64" else intel)
    return ctypes.addressof(_keep(ctypes.c_char.from_buffer(page)))


def _keep(thing):
    "C++ asks until the very end of the process, so what answers is never freed."
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def _let_in(kind):
    """A build for CPUs refuses a device and backward on it: it has no guard for it, and knows no
    accelerator. So we put a guard where it looks for one, which answers `device 0 of this kind`
    (DeviceGuardImplInterface.h); one of CUDA that counts no devices PyTorch replaces by a guard
    that does nothing. Whether there is an accelerator say methods of its hooks
    (AcceleratorHooksInterface.h): `isBuilt` and `hasMPS` answer 1, `hasPrimaryContext` 0."""
    lib, pointer, number = Path(torch.__file__).parent / "lib", ctypes.c_void_p, KINDS[kind]
    registry = "_ZN3c104impl26device_guard_impl_registryE"
    slots = (pointer * 20).in_dll(ctypes.CDLL(str(lib / "libc10.so")), registry)
    if slots[number]:
        return
    methods = (pointer * 32)(*[_answer(0)] * 32)
    methods[:3] = methods[5:8] = [_answer(number)] * 3  # type, devices, streams
    methods[8:10], methods[15] = [_answer(number)] * 2, _answer(kind == "mps")
    guard = pointer(ctypes.addressof(methods))
    slots[number] = ctypes.addressof(guard)
    torch._C._ensureCUDADeviceGuardSet()
    name = f"_ZN2at6detail{len(kind) + 8}get{kind.upper()}HooksEv"
    get = getattr(ctypes.CDLL(str(lib / "libtorch_cpu.so")), name)
    get.restype = pointer
    hooks, before = pointer.from_address(get()), 2 * ctypes.sizeof(pointer)
    table = (pointer * 80)(*(pointer * 80).from_address(hooks.value - before))
    for method, x in ((2, 1), (4, 0), *([(16, 1)] if kind == "mps" else [])):
        table[2 + method] = _answer(x)
    hooks.value = ctypes.addressof(table) + before
    _keep([methods, guard, table])
    assert torch.accelerator.current_accelerator() == torch.device(kind)


def plain_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, **kwargs):
    "`scaled_dot_product_attention` by its formula: the kernels of a device are not there."
    plain = aten._scaled_dot_product_attention_math
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill_(~attn_mask, -math.inf)
    return plain(q, k, v, attn_mask, dropout_p, is_causal, **kwargs)[0]


def plain_flex(q, k, v, block_mask):
    "`flex_attention` by the table of its rule: an operation of higher order knows no device here."
    shape, rule = (*q.shape[:3], k.shape[2]), block_mask.mask_mod
    return plain_attention(q, k, v, flex_attention.create_mask(rule, *shape, device=q.device))


def _facts(kind, mode):
    "What the module of the device answers, by module and name."
    seed = mode.rng.manual_seed
    state, set_state = (lambda *_: mode.rng.get_state()), (lambda s, *_: mode.rng.set_state(s))
    facts = {"synchronize": lambda *_: mode.wait("synchronize"), "manual_seed": seed}
    facts |= {"get_rng_state": state, "set_rng_state": set_state, "empty_cache": lambda: None}
    facts |= {"device_count": lambda: 1}
    if kind == "mps":
        return [(torch.backends.mps, "is_available", lambda: True)] + [
            (torch.mps, name, f) for name, f in facts.items()
        ]
    about = {"name": "pretended", "major": 8, "minor": 0, "multi_processor_count": 1}
    about = SimpleNamespace(**about, total_memory=2**34)
    for name, x in dict(is_available=True, is_initialized=True, current_device=0).items():
        facts[name] = lambda *_, x=x: x
    for name, x in dict(get_device_capability=(8, 0), get_device_name="pretended").items():
        facts[name] = lambda *_, x=x: x
    for name in ("_lazy_init", "set_device", "reset_peak_memory_stats"):
        facts[name] = lambda *_: None
    for name in ("max_memory_allocated", "memory_allocated"):
        facts[name] = lambda *_: 0
    facts |= {"is_bf16_supported": lambda *_, **__: True, "manual_seed_all": seed}
    facts |= {"get_device_properties": lambda *_: about, "get_rng_state_all": lambda: [state()]}
    return [(torch.cuda, name, f) for name, f in facts.items()]


@contextmanager
def pretend(kind="cuda"):
    "A device of that kind is there, and nothing else is."
    mode = Mode(kind)
    _let_in(kind)
    supported = [
        importlib.import_module(name)._foreach_supported_types
        for name in ("torch.optim.optimizer", "torch.utils._foreach_utils")
    ]
    facts = [*_facts(kind, mode), (torch, "Generator", Generator), (Mode, "now", mode)]
    facts += [(torch.Tensor, "pin_memory", pin)]
    below = lambda T, S: torch.ones(T, S, dtype=torch.bool).tril(S - T)  # for a subclass of Tensor
    facts += [(torch.nn.attention.bias, "causal_lower_right", below)]
    facts += [(torch.nn.functional, "scaled_dot_product_attention", plain_attention)]
    facts += [(flex_attention, "flex_attention", plain_flex)]
    with ExitStack() as stack:
        for module, name, f in facts:
            stack.enter_context(mock.patch.object(module, name, f))
        for kinds in supported:
            kinds.append(Pretended)
            stack.callback(kinds.remove, Pretended)
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device) is copied there
        stack.callback(torch._C._set_only_lift_cpu_tensors, False)
        torch.__future__.set_swap_module_params_on_conversion(True)  # Module.cpu() unwraps
        stack.callback(torch.__future__.set_swap_module_params_on_conversion, False)
        stack.enter_context(mode)
        yield mode.seen


def run_notebook(kind, path):
    "Run a notebook as its test does. Prints where it waits most often."
    os.environ |= {"FORMER_NB_DEVICE": kind, "IN_TEST": "1", "MPLBACKEND": "agg"}
    from nbdev.test import test_nb

    with pretend(kind) as seen:
        passed, seconds = test_nb(path, do_print=False)
    print(f"{path}: {'passed' if passed else 'FAILED'}, {seconds:.0f} s", flush=True)
    for what, count in vars(seen).items():
        lines = [f"{n} {line}" for line, n in count.most_common(6)]
        print(f"  {what}: {sum(count.values())}", *lines, sep="\n    ", flush=True)
    return not passed


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("kind", choices=KINDS)
    p.add_argument("notebook", nargs="*", type=Path)
    args = p.parse_args()
    sys.path.insert(0, str(ROOT))
    if len(args.notebook) == 1:
        return run_notebook(args.kind, args.notebook[0].resolve())
    from tools.run import notebooks

    failed, start = [], time.time()
    for path in args.notebook or notebooks(ROOT / "nbs"):
        if subprocess.run([sys.executable, __file__, args.kind, path], cwd=ROOT).returncode:
            failed.append(str(path))
    print(f"{len(failed)} failed in {time.time() - start:.0f} s: {' '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
