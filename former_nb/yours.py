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

from .base.source import load_file, read_source, your_path

__all__ = ["load_mine"]  # and the names of HOMES

HOMES = {  # module of the course -> definitions of the file, as the course offers them
    "attention.dot_product": "repeat_kv",
    "attention.fused": "attention_weights attention",
    "attention.masks": "padding_mask",
    "attention.multi_head": "MultiHeadAttention",
    "attention.positions": "LearnedPositions rotate",
    "attention.angle_tables": "Rotary",
    "models.layers": "FeedForward Block make_block Stack Embedding",
    "data.tokenization": "CharTokenizer encode_texts",
    "data.text": "pad_rows collate",
    "training.losses": "batch_loss evaluate",
    "training.training": "train_step warmup_cosine fit",  # plain; training.fit does more
    "models.savable": "Classifier LanguageModel EncoderDecoder",
    "models.language_model": "generator",
    "decoding.caches": "LayerCache generate",
    "decoding.decoding": "greedy sample",
    "models.modern_decoder": "RMSNorm SwiGLU GroupedQueryAttention modern_decoder load_llama",
    "models.parts": "CrossAttention Decoder",
    "models.encoder_decoder": "DecoderBlock translator collate_pairs",
    "decoding.number_words": "greedy_decode",
    "data.subwords": "merge train_bpe",
    "decoding.translation": "beam_decode bleu",
}
HOME = {name: module for module, names in HOMES.items() for name in names.split()}
CONSTANTS = {"PAD": "data.tokens", "BOS": "data.tokens", "EOS": "data.tokens"}
CONSTANTS |= {"UNK": "data.tokens", "IGNORE": "data.text"}  # the file has the same


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
    from .grading.passed import first_open
    from .grading.reading import blame_line

    try:
        source, _ = read_source(path)
    except FileNotFoundError:
        return None, {}, f"FORMER_NB_MINE names {path.name}, which isn't there"
    except ValueError as error:
        return None, {}, str(error)
    waits = first_open(source)
    if not any(name in HOME and _is_yours(name, step) for name, step in waits.items()):
        return None, waits, ""
    try:
        return _load(path, source), waits, ""
    except (Exception, SystemExit) as error:  # a reader's file may raise anything
        return None, {}, f"{path.name} can't be imported: {blame_line(error, path, source)}"


FURTHER = ("09",)  # further tasks: no later page needs what they write

LATER = {  # what lessons add to attention: it can be used before they have passed
    f"{name} with {what}": what
    for name in ("attention_weights", "attention")
    for what in ("masks", "shared heads")
}


def _is_yours(name, step):
    "Whether a definition can be used that waits for `step`. Attention can, for what it can do."
    return step is None or (step in LATER and f"{name} with {LATER[step]}" in LATER)


def _until_it_can(yours, course, what):
    "Attention as the reader has it, and the course's where it is asked for what is still missing."

    names = inspect.signature(yours).parameters
    missing = {"mask", "is_causal"} if what == "masks" else set()

    @functools.wraps(yours)
    def attend(*inputs, **options):
        given = inspect.signature(course).bind(*inputs, **options).arguments
        asked = {name for name, value in given.items() if value is not None and value is not False}
        shared = given["k"].ndim > 3 and given["k"].shape[-3] != given["q"].shape[-3]
        if shared or asked & missing or not asked <= {*names}:
            return course(*inputs, **options)
        return yours(**{name: given[name] for name in given.keys() & {*names}})

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
    return name if step is None else f"{name} without {LATER[step]}", "yours"


def _say(names, path, module, waits, problem):
    "One line for the definitions of an import statement."
    if not names:
        return
    if problem:
        print(f"{', '.join(names)}: from the course. {problem}.")
        return
    by_home: dict = {}
    for name in names:
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

    What a further task writes may be missing. One line says which of the two it is, and why.
    """
    from .grading.content import right_module

    lessons = [f"{n:02}" for n in range(2, 17)]
    if until not in lessons:
        raise ValueError(f"until: expected a lesson from '02' to '16', got {until!r}")
    path = your_path()
    if path is None:
        print("There is no mine.py here, so this page runs the course's own file.")
        return right_module()
    problem, source = _to_mend(path, until)
    if problem is None:
        print(f"This page runs your {path.name}, which is right up to lesson {until}.")
        return _load(path, source)
    print(f"{path.name} isn't right up to lesson {until} yet. {problem}.")
    print("So this page runs the course's own file.")
    return right_module()


def _to_mend(path, until):
    "A sentence about the first step that isn't right, or None; and the text that was judged."
    from .grading.errors import MistakeError
    from .grading.reading import read_file
    from .grading.your_file import judge_read

    try:
        read = read_file(path)
        verdicts = judge_read(read)
    except MistakeError as error:
        return str(error), ""
    for verdict in verdicts:
        left_out = verdict.lesson in FURTHER and verdict.lesson != until
        if verdict.lesson <= until and not left_out and verdict.problem is not None:
            return f"{verdict.name}: {verdict.problem}", read.source
    return None, read.source


def __getattr__(name):
    if name not in HOME and name not in CONSTANTS:
        raise AttributeError(f"module 'former_nb.yours' has no attribute {name!r}")
    course = getattr(import_module(f"former_nb.{HOME.get(name) or CONSTANTS[name]}"), name)
    path = your_path()
    if path is None:
        return course
    module, waits, problem = _read(path)
    names = _imported_with(sys._getframe(1), name)
    if name == names[0]:
        _say([other for other in names if other in HOME], path, module, waits, problem)
    if name in CONSTANTS or module is None or name not in waits or not _is_yours(name, waits[name]):
        return course
    yours = getattr(module, name)
    return yours if waits[name] is None else _until_it_can(yours, course, LATER[waits[name]])


def __dir__():
    return sorted([*__all__, *HOME, *CONSTANTS])
