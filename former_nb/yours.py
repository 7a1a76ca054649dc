"""What you wrote, where you wrote it: names from your file, and from the course where it has none.

    from former_nb.yours import attention, make_block

takes each name from `mine.py` in the working directory, or from the file that the environment
variable `FORMER_NB_MINE` names, if `check("mine.py")` has passed it as it stands there now,
together with all that it uses in the file. All others come from the course, and one line says
which is whose. Without a file nothing is said, and with `FORMER_NB_MINE=off` everything comes from
the course.

Nothing of a file is run before something of it has passed, and only on the machine where it passed.
"""

import dis
import functools
import inspect
import sys
from importlib import import_module
from types import ModuleType

from .base.source import load_file, parse_source, your_path

__all__ = ["load_mine"]  # and the names of HOMES

HOMES = {  # module of the course -> names whose contract is that of the file
    "attention.dot_product": "attention attention_weights",
    "attention.masks": "padding_mask",
    "attention.multi_head": "MultiHeadAttention",
    "models.block": "FeedForward Block Stack make_block RMSNorm SwiGLU",
    "decoding.decoding": "greedy sample",
    "data.subwords": "merge",
}
HOME = {name: module for module, names in HOMES.items() for name in names.split()}
LEFT_OUT = {  # each other definition of the file -> how that of the course differs
    "Embedding": "the course's takes a module for the positions",
    "rotate": "the course's takes a table of angles",
    "rotary": "the course's is a module, Rotary",
    "Letters": "the course's is CharTokenizer, which can be saved",
    "pad": "the course's is pad_rows, with a value of its own for targets",
    "next_token_batch": "the course's is collate, whose targets are IGNORE where they don't count",
    "batch_loss": "the course's leaves out IGNORE, the file's leaves out PAD",
    "train_step": "the course's returns a tensor and takes another loss",
    "evaluate": "the course's takes batches whose targets are IGNORE where they don't count",
    "rate": "the course's schedules are settings of fit",
    "fit": "the course's takes batches and a config",
    "Classifier": "the course's begins at equal probabilities and can be saved",
    "LanguageModel": "the course's takes its positions inside its parts and can be saved",
    "generator": "the course's is LanguageModel.from_config",
    "LayerCache": "the course's is KVCache, one for all layers",
    "generate": "the course's takes its cache as an argument",
    "GroupedQueryAttention": "the course's lets attention share the heads, and may have biases",
    "modern_decoder": "the course's also takes max_len, and no d_k",
    "load_llama": "the course's is load_model",
    "CrossAttention": "the course's also takes a memory that is projected already",
    "DecoderBlock": "the course's also takes another attention to the memory",
    "Decoder": "the course's also takes a memory that is projected already",
    "EncoderDecoder": "the course's may have two vocabularies",
    "translator": "the course's is EncoderDecoder.from_config",
    "pair_batch": "the course's is collate_pairs, whose targets are IGNORE where they don't count",
    "translate": "the course's takes texts and a tokenizer",
    "train_bpe": "the course's takes texts and cuts them into words of bytes",
    "beam_search": "the course's searches for several texts at once",
    "bleu": "the course leaves that to sacrebleu",
}


# ---------------------------------------------------------------- what is in the file


_loaded: dict = {}  # (path, source) -> the module; only of the newest source


def _load(path, source):
    "The file as a module, once for each state that it was in."
    if (path, source) not in _loaded:
        module = load_file(path, "former_nb_mine", source)
        _loaded.clear()
        _loaded[path, source] = module
    return _loaded[path, source]


def _read(path):
    "(module, `first_open` of its definitions, what is wrong); no module where nothing has passed."
    from .builds.passed import first_open
    from .builds.process import blame_line

    try:
        parse_source(path)
    except FileNotFoundError:
        return None, {}, f"FORMER_NB_MINE names {path.name}, which isn't there"
    except ValueError as error:
        return None, {}, str(error)
    source = path.read_text(encoding="utf-8-sig")
    waits = first_open(source)
    if not any(name in HOME and _is_yours(name, step) for name, step in waits.items()):
        return None, waits, ""
    try:
        return _load(path, source), waits, ""
    except (Exception, SystemExit) as error:  # a reader's file may raise anything
        return None, {}, f"{path.name} can't be imported: {blame_line(error, path)}"


def _is_yours(name, step):
    "Whether a definition can be used that waits for `step`. Attention can, before it has masks."
    return step is None or step == f"{name} with masks"


def _until_it_masks(yours, course):
    "Attention as the reader has it before lesson 04, and the course's where masks are asked for."

    @functools.wraps(yours)
    def attend(*inputs, **options):
        given = inspect.signature(course).bind(*inputs, **options).arguments
        rules = [given.pop(name, None) for name in ("mask", "is_causal", "scale")]
        plain = all(rule is None or rule is False for rule in rules)
        return yours(**given) if plain else course(*inputs, **options)

    return attend


# ---------------------------------------------------------------- what is said


def _imported_with(frame, name):
    "All names of the import statement that asks for `name` in a frame."
    names: tuple = ()
    constant = None
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset > frame.f_lasti:
            break
        if isinstance(instruction.argval, tuple):
            constant = instruction.argval
        if instruction.opname == "IMPORT_NAME":
            names = constant or ()
    return names if name in names else (name,)


def _whose(name, module, waits):
    "How a name is told, and from where it comes."
    step = waits.get(name)
    if name in waits and not _is_yours(name, step):
        return name, f"from the course until check passes your {step} as it stands"
    if name not in waits or module is None:
        return name, "from the course"
    return name if step is None else f"{name} without masks", "yours"


def _say(names, path, module, waits, problem):
    "One line for an import statement."
    if problem:
        print(f"{', '.join(names)}: from the course. {problem}.")
        return
    by_home: dict = {}
    for name in names:
        if name in HOME:
            told, home = _whose(name, module, waits)
            home = f"yours, from {path.name}" if home == "yours" else home
            by_home.setdefault(home, []).append(told)
    order = sorted(by_home, key=lambda home: (not home.startswith("yours"), home))
    print("; ".join(f"{', '.join(by_home[home])}: {home}" for home in order))


# ---------------------------------------------------------------- the whole file


def load_mine(
    until: str,  # the last lesson whose part is needed, such as '06'
) -> ModuleType:  # the file as a module, or the course's own file
    """Load the reader's file if all of it is right up to a lesson, else the course's own.

    One line says which of the two it is, and why.
    """
    from .grading.content import right_module

    lessons = [f"{n:02}" for n in range(2, 17)]
    if until not in lessons:
        raise ValueError(f"until: expected a lesson from '02' to '16', got {until!r}")
    path = your_path()
    if path is None:
        print("There is no mine.py here, so this page runs the course's own file.")
        return right_module()
    problem = _to_mend(path, until)
    if problem is None:
        print(f"This page runs your {path.name}, which is right up to lesson {until}.")
        return _load(path, path.read_text(encoding="utf-8-sig"))
    print(f"{path.name} isn't right up to lesson {until} yet. {problem}.")
    print("So this page runs the course's own file.")
    return right_module()


def _to_mend(path, until):
    "A sentence about the first step that isn't right, or None."
    from .base.exercises import MistakeError
    from .builds.your_file import judge_file

    try:
        verdicts = judge_file(path)
    except MistakeError as error:
        return str(error)
    for verdict in verdicts:
        if verdict.lesson <= until and verdict.problem is not None:
            return f"{verdict.name}: {verdict.problem}"
    return None


def __getattr__(name):
    if name in LEFT_OUT:
        raise ImportError(f"former_nb.yours has no {name}: {LEFT_OUT[name]}")
    if name not in HOME:
        raise AttributeError(f"module 'former_nb.yours' has no attribute {name!r}")
    course = getattr(import_module(f"former_nb.{HOME[name]}"), name)
    path = your_path()
    if path is None:
        return course
    module, waits, problem = _read(path)
    names = _imported_with(sys._getframe(1), name)
    if name == names[0]:
        _say(names, path, module, waits, problem)
    if module is None or name not in waits or not _is_yours(name, waits[name]):
        return course
    yours = getattr(module, name)
    return yours if waits[name] is None else _until_it_masks(yours, course)


def __dir__():
    return sorted([*__all__, *HOME])
