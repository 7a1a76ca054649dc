"""Formulas as MathML, set when the site is built: no script, and a screen reader reads them.

It knows the TeX that the course writes. What it does not know is an error of the build, which
names the command and the formula.
"""

import html
import re
from xml.etree import ElementTree

from docutils import nodes
from sphinx.errors import ExtensionError

GREEK = dict(
    zip(
        """alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma
        tau upsilon varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega
        epsilon phi ell""".split(),
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩϵϕℓ",
    )
)
OPERATORS = dict(
    zip(
        """cdot times pm le leq ge geq ne neq approx sim equiv in notin leftarrow gets to rightarrow
        Longleftrightarrow iff odot oplus mid parallel cup cap forall exists""".split(),
        "⋅ × ± ≤ ≤ ≥ ≥ ≠ ≠ ≈ ∼ ≡ ∈ ∉ ← ← → → ⟺ ⟺ ⊙ ⊕ ∣ ∥ ∪ ∩ ∀ ∃".split(),
    )
)
LETTERS = dict(infty="∞", partial="∂", nabla="∇", top="⊤", dots="…", ldots="…", cdots="⋯")
FENCES = {"lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋", "lVert": "‖", "rVert": "‖"}
FENCES |= {"lvert": "|", "rvert": "|", "langle": "⟨", "rangle": "⟩", "|": "‖", "{": "{", "}": "}"}
BIG = {"sum": "∑", "prod": "∏"}
FUNCTIONS = "ln log exp sin cos tanh max min arg det sup".split()
UNDER = "max min sup arg".split()  # a subscript of these goes below them in a display
SPACES = {",": ".167em", ":": ".222em", ";": ".278em", "!": "-.167em", " ": ".25em"}
SPACES |= {"quad": "1em", "qquad": "2em"}
ACCENTS = dict(hat="^", bar="¯", overline="‾", tilde="˜", dot="˙", vec="→")
SIZES = {"big": "1.2em", "Big": "1.8em", "bigg": "2.4em", "Bigg": "3em"}
DOUBLE = {"E": "𝔼", "R": "ℝ", "N": "ℕ"}
SCRIPT = {"L": "ℒ", "O": "𝒪", "N": "𝒩"}
TABLES = {"gathered": "", "split": "", "aligned": "", "cases": "{", "pmatrix": "(", "bmatrix": "["}
TABLES |= {"matrix": "", "align": "", "align*": ""}
CLOSING = {"(": ")", "[": "]"}
THIN = '<mspace width=".167em"></mspace>'
TOUCHING = ("(", "[", "\\left", "\\big", "\\Big", "\\!", None, ")", ",", "\\,")  # a function's name

TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|\s+|[0-9]+(?:\.[0-9]+)?|.", re.S)


def row(parts):
    """Several parts as one."""
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


def operator(sign, **attributes):
    """An operator; attributes with `_` in the place of `-`."""
    given = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<mo{given}>{html.escape(sign)}</mo>"


def letter(sign, upright=False):
    """A variable. Its class says whether it belongs to queries, keys or values."""
    role = f' class="is-{sign.lower()}"' if sign in "qkvQKV" else ""
    style = ' mathvariant="normal"' if upright else ""
    return f"<mi{role}{style}>{html.escape(sign)}</mi>"


class Parser:
    """TeX to MathML, by recursive descent."""

    def __init__(self, tex, display):
        self.tokens = TOKEN.findall(tex)
        self.tex, self.display, self.at = tex, display, 0

    def fail(self, said):
        raise ExtensionError(f"{said} in the formula {self.tex!r}")

    def skip_space(self):
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1

    def peek(self):
        self.skip_space()
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self):
        token = self.peek()
        self.at += 1
        return token

    def raw_group(self):
        """The text of a group as it is written: of `\\text` and the like."""
        if self.take() != "{":
            self.at -= 1
            return self.take()
        depth, text = 1, ""
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            depth += {"{": 1, "}": -1}.get(token, 0)
            if not depth:
                return text
            text += token
        return self.fail("a { without its }")

    def argument(self):
        """What a command is applied to: a group, or the next sign (of a number its first digit)."""
        token = self.take()
        if token is None:
            self.fail("something is missing at the end")
        if token == "{":
            inner = self.sequence("}")
            self.take()
            return row(inner)
        if token[0].isdigit() and len(token) > 1:
            self.at -= 1
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
            token = self.take()
        return self.atom(token)

    def sequence(self, *ends):
        """Parts up to one of the ends, which stays."""
        parts = []
        while (token := self.peek()) not in ends:
            if token is None:
                self.fail(f"{' or '.join(map(str, ends))} is missing")
            function = token[1:] in (*FUNCTIONS, "operatorname", "operatorname*")
            if function and parts and not parts[-1].endswith(("</mo>", "</mspace>")):
                parts.append(THIN)
            parts.append(self.scripted())
            if function and self.peek() not in (*ends, *TOUCHING):
                parts.append(THIN)
        return parts

    def scripted(self):
        """An atom with what is above and below it."""
        token = self.take()
        if token in ("_", "^"):
            base, self.at = "<mrow></mrow>", self.at - 1
        else:
            base = self.atom(token)
        below = above = None
        while (sign := self.peek()) in ("_", "^", "'"):
            self.take()
            if sign == "_":
                below = self.argument()
            elif sign == "'":
                above = (above or "") + operator("′")
            else:
                above = (above or "") + self.argument()
        limits = self.display and token is not None
        limits = limits and (
            token[1:] in (*BIG, *UNDER, "operatorname*") or token == "\\underbrace"
        )
        if below is None and above is None:
            return base
        if above is not None and above.count("<mo>′</mo>") and not above.startswith("<mo>′</mo>"):
            above = row([above])
        return self.attach(base, below, above, limits)

    def attach(self, base, below, above, limits):
        names = ("munder", "mover", "munderover") if limits else ("msub", "msup", "msubsup")
        role = re.match(r'<mi class="(is-[qkv])"', base)
        plain = re.fullmatch(r"<mi>W</mi>", base)
        if plain and below and (named := re.fullmatch(r'<mi class="(is-[qkv])">.</mi>', below)):
            role = named  # W_q, W_k, W_v
        elif below:
            below = re.sub(r' class="is-[qkv]"', "", below)  # the k of d_k is a name, not a key
        if above:
            above = re.sub(r' class="is-[qkv]"', "", above)
        given = f' class="{role[1]}"' if role else ""
        if below and above:
            return f"<{names[2]}{given}>{base}{below}{above}</{names[2]}>"
        name, script = (names[0], below) if below else (names[1], above)
        return f"<{name}{given}>{base}{script}</{name}>"

    def table(self, kind):
        """The rows of an environment."""
        rows, cells = [], []
        while True:
            cells.append(row(self.sequence("&", "\\\\", "\\end")))
            sign = self.take()
            if sign == "&":
                continue
            rows.append(cells)
            cells = []
            if sign == "\\\\":
                if self.peek() == "[":
                    while self.take() != "]":
                        pass
                continue
            if self.raw_group() != kind:
                self.fail(f"\\end{{{kind}}} is missing")
            break
        if kind == "split" and len(rows) == 1:
            return rows[0][0]
        marked = "".join(
            "<mtr>" + "".join(f"<mtd>{cell}</mtd>" for cell in cells) + "</mtr>" for cells in rows
        )
        fence = TABLES[kind]
        large = "" if fence else ' displaystyle="true"'
        body = f'<mtable class="{kind}"{large}>{marked}</mtable>'
        start = operator(fence, fence="true") if fence else ""
        end = operator(CLOSING[fence], fence="true") if fence in CLOSING else ""
        return f"<mrow>{start}{body}{end}</mrow>"

    def fence(self):
        """The sign that follows \\left, \\right or \\big."""
        sign = self.take()
        if sign == ".":
            return ""
        return FENCES.get(sign.lstrip("\\"), sign) if sign.startswith("\\") else sign

    def text(self, name, text):
        """Words: `\\text`, `\\mathrm` and the like."""
        text = re.sub(r"\\(.)", r"\1", text)
        if name == "mathbb":
            return f"<mi>{DOUBLE[text]}</mi>"
        if name == "mathcal":
            return f"<mi>{SCRIPT[text]}</mi>"
        if name == "text":
            kept = html.escape(text).replace(" ", "\u00a0")  # MathML drops spaces at the ends
            return f"<mtext>{kept}</mtext>"
        upright = ' mathvariant="normal"' if len(text) == 1 else ""
        return f"<mi{upright}>{html.escape(text)}</mi>"

    def atom(self, token):
        """One token and what it takes."""
        if token == "{":
            inner = self.sequence("}")
            self.take()
            return row(inner) if inner else "<mrow></mrow>"
        if not token.startswith("\\"):
            return self.plain(token)
        name = token[1:]
        if name in GREEK:
            return letter(GREEK[name], upright=name[0].isupper())
        if name in OPERATORS:
            return operator(OPERATORS[name])
        if name in LETTERS:
            return f'<mi mathvariant="normal">{LETTERS[name]}</mi>'
        if name in BIG:
            return operator(BIG[name], movablelimits="false")
        if name in FUNCTIONS:
            return f"<mi>{name}</mi>"
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"></mspace>'
        if name in ACCENTS:
            accent = operator(ACCENTS[name], stretchy=str(name == "overline").lower())
            return f'<mover accent="true">{self.argument()}{accent}</mover>'
        if name in SIZES:
            size = SIZES[name]
            return operator(self.fence(), stretchy="true", minsize=size, maxsize=size)
        if name in FENCES:
            return operator(FENCES[name], stretchy="false")
        return self.command(name)

    def command(self, name):
        if name in ("text", "mathrm", "mathbb", "mathcal", "mathit"):
            return self.text(name, self.raw_group())
        if name in ("operatorname", "operatorname*"):
            return f"<mi>{self.raw_group()}</mi>"
        if name in ("frac", "tfrac", "dfrac"):
            above, below = self.argument(), self.argument()
            small = ' displaystyle="false"' if name == "tfrac" else ""
            return f"<mfrac{small}>{above}{below}</mfrac>"
        if name == "binom":
            above, below = self.argument(), self.argument()
            inside = f'<mfrac linethickness="0">{above}{below}</mfrac>'
            return f"<mrow>{operator('(')}{inside}{operator(')')}</mrow>"
        if name == "sqrt":
            return self.root()
        if name == "left":
            start = self.fence()
            inner = self.sequence("\\right")
            self.take()
            signs = [operator(sign, fence="true") if sign else "" for sign in (start, self.fence())]
            return f"<mrow>{signs[0]}{''.join(inner)}{signs[1]}</mrow>"
        if name == "begin":
            kind = self.raw_group()
            if kind not in TABLES:
                self.fail(f"the environment {kind!r} is unknown")
            return self.table(kind)
        if name == "underbrace":
            return f"<munder>{self.argument()}{operator('⏟', stretchy='true')}</munder>"
        if name == "bmod":
            return '<mo lspace=".22em" rspace=".22em">mod</mo>'
        if name == "textstyle":
            rest = row(self.sequence(None, "}", "&", "\\\\", "\\end", "\\right"))
            return f'<mstyle displaystyle="false">{rest}</mstyle>'
        if name in ("_", "%", "#", "$", "&"):
            return operator(name)
        return self.fail(f"\\{name} is unknown")

    def root(self):
        index = None
        if self.peek() == "[":
            self.take()
            index = row(self.sequence("]"))
            self.take()
        inside = self.argument()
        tall = ' class="tall"' if "<mfrac" in inside or "<mo>∑" in inside else ""
        return f"<mroot>{inside}{index}</mroot>" if index else f"<msqrt{tall}>{inside}</msqrt>"

    def plain(self, token):
        """A number, a letter or a sign."""
        if token[0].isdigit():
            number = token
            while self.at + 3 < len(self.tokens) and self.tokens[self.at : self.at + 2] == [
                "{",
                ",",
            ]:
                number += "," + self.tokens[self.at + 3]  # 10{,}000
                self.at += 4
            return f"<mn>{number}</mn>"
        if token.isalpha():
            return letter(token)
        if token in "½¼¾":
            return f"<mn>{token}</mn>"
        if token in "()[]|":
            return operator(token, stretchy="false")
        if token == "/":
            return operator(token, lspace="0", rspace="0")
        return operator({"-": "−", "*": "∗", "'": "′", "~": "\u00a0"}.get(token, token))


def mathml(tex, display=False):
    """A formula of TeX as MathML."""
    parser = Parser(tex.strip(), display)
    parts = parser.sequence(None)
    shown = ' display="block"' if display else ""
    return f"<math{shown}>{''.join(parts)}</math>"


# ---------------------------------------------------------------- as one would type it

NAMES = {letter: name for name, letter in GREEK.items() if name != "ell"}
TYPED = {"⋅": "·", "∑": "Σ", "−": "-", "∗": "*", "∣": "|", "⊤": "ᵀ", "′": "'", "‾": "", "⏟": ""}
SPACED = {*OPERATORS.values(), "=", "+", "−", "<", ">", ":=", "mod"}
SCRIPTS = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
SIMPLE = re.compile(r"[√∂]?[\w.]*(_\w+)?|[√∂]?\w*\([^()]*\)")


def grouped(text):
    """A part of a formula that is read as one, in brackets where it needs them."""
    return text if SIMPLE.fullmatch(text) else f"({text})"


def in_line(parts):
    """Parts of a formula side by side: what would run together gets a space."""
    text, grown = "", False
    for node in parts:
        new, sign = typed(node), (node.text or "") if node.tag == "mo" else ""
        before = text.rstrip()
        if sign in SPACED and (not before or before[-1] in "([=,-+←→≤≥·" or sign not in "+−"):
            new = f" {new} " if before and sign not in "+−" else new
        elif sign in SPACED:
            new = f" {new} "
        elif sign in (",", ";"):
            new += " "
        elif new[:1].isalnum() and text[-1:].isalnum() and (len(new.rstrip("ᵀ'")) > 1 or grown):
            new = f" {new}"  # Σ_j e, ln V, 2 pi
        grown = node.tag in SCRIPTS or len(new.strip()) > 1 and node.tag != "mn"
        text += new
    return re.sub(r"\s+", " ", text).strip()


def typed(node):
    """A part of a formula's MathML as one would type it: √d_k, (a + b)/2."""
    text, parts = node.text or "", list(node)
    if node.tag == "mspace":
        return "" if node.get("width", "").startswith("-") else " "
    if node.tag in ("mi", "mn", "mo", "mtext"):
        return NAMES.get(text, TYPED.get(text, text)).replace("\u00a0", " ")
    if node.tag == "mtable":
        return "; ".join(" ".join(in_line([cell]) for cell in line) for line in parts)
    if node.tag == "mfrac":
        above, below = map(typed, parts)
        over = node.get("linethickness") == "0"
        return f"{above} over {below}" if over else f"{grouped(above)}/{grouped(below)}"
    if node.tag in ("msqrt", "mroot"):
        return f"√{grouped(typed(parts[0]))}"
    if node.tag in SCRIPTS:
        base, *scripts = map(typed, parts)
        if node.get("accent") or not scripts[0]:  # a hat, a brace
            return base
        signs = ["_", "^"] if len(scripts) == 2 else ["^" if node.tag in ("msup", "mover") else "_"]
        for sign, script in zip(signs, scripts):
            base += script if script in "ᵀ'" else sign + grouped(script)
        return base
    return in_line(parts)


def as_typed(tex):
    """A formula as one would type it, for the search: √d_k, softmax(z)_i."""
    return typed(ElementTree.fromstring(mathml(tex)))


# Pages whose q, k and v are queries, keys and values wherever they occur.
ABOUT_ATTENTION = re.compile(r"(?:deeper/|solutions/)?(?:02_|03_|04_flash|06_depth|12_since|13_)")
ROLE = re.compile(r' class="is-([qkv])"')


def colour(markup, page):
    """A formula whose queries, keys and values have their class; without it where they are not."""
    roles = set(ROLE.findall(markup))
    if ABOUT_ATTENTION.match(page) or roles >= {"q", "k"} or roles >= {"k", "v"}:
        return markup
    return ROLE.sub("", markup)


def visit_math(writer, node):
    """A formula within a sentence."""
    markup = colour(mathml(node.astext()), writer.builder.current_docname)
    after = node.next_node(nodes.Text, descend=False, siblings=True)
    close = after and after.parent is node.parent and after[:1] in ".,:;?!)’”"
    joined = "\u2060" if close else ""  # the line doesn't break before the comma
    writer.body.append(f'<span class="math">{markup}</span>{joined}')
    raise nodes.SkipNode


def visit_math_block(writer, node):
    """A formula on a line of its own."""
    tex = node.astext()
    if "\\\\" in tex and "\\begin" not in tex:
        tex = f"\\begin{{gathered}}{tex}\\end{{gathered}}"
    markup = colour(mathml(tex, display=True), writer.builder.current_docname)
    writer.body.append(f'<div class="math">{markup}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Register with Sphinx."""
    app.add_html_math_renderer("course", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
