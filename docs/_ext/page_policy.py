"""A content security policy in every page: it loads, runs and sends nothing but this site's own.

The few scripts within a page, and within a viewer that it frames, are named by their hashes, so
that no other one runs, whatever a text or an address brings into a page. Styles within a page may
be set, since rows and drawings have their measures there. WebAssembly is Pyodide, blobs are the
worker of *A model of your own* and the file that a reader downloads. The speaker's view of slides
is a window that reveal.js writes, its scripts with it, and has the policy of its deck: scripts
within a deck may run.
"""

import html
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

INLINE = re.compile(r"<script>(.*?)</script>", re.S)
FRAME = re.compile(r'<iframe\b[^>]*\bsrcdoc="([^"]*)"')  # it inherits the policy of its page
CHARSET = '<meta charset="utf-8">'
META = re.compile(r'\n<meta http-equiv="Content-Security-Policy"[^>]*>')
POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'wasm-unsafe-eval'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:",
    "font-src": "'self' data:",
    "worker-src": "'self' blob:",
    "base-uri": "'none'",
    "form-action": "'self'",
}


def policy_of(page, text):
    """The policy of a page with this text."""
    texts = [text, *map(html.unescape, FRAME.findall(text))]
    scripts = [code for each in texts for code in INLINE.findall(each)]
    hashes = {b64encode(sha256(code.encode()).digest()).decode() for code in scripts}
    own = [f"'sha256-{one}'" for one in sorted(hashes)]
    own = ["'unsafe-inline'"] if page.startswith("slides/") else own
    parts = POLICY | {"script-src": " ".join([POLICY["script-src"], *own])}
    return "; ".join(f"{name} {sources}" for name, sources in parts.items())


def with_policy(page, text):
    """The text of a page with its policy, before anything that it governs."""
    text = META.sub("", text)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy_of(page, text)}">'
    return text.replace(CHARSET, f"{CHARSET}\n{meta}", 1)


def guard_pages(app, exception):
    """build-finished, after all others: the policy in every page."""
    if exception or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        guarded = with_policy(path.relative_to(app.outdir).as_posix(), text)
        if guarded != text:
            path.write_text(guarded, encoding="utf-8")


def setup(app):
    """Register with Sphinx."""
    app.connect("build-finished", guard_pages, priority=1000)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
