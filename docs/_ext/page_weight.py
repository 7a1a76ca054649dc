"""What a page weighs: its plots have as many colours as they need, and come when they are near.

Code has marks only where the style sheet has a colour."""

import re
from pathlib import Path

COLOURS = 1024  # a plot has fewer; what has more is shaded, and stays as it is
PLOT = re.compile(r'<img (?=[^>]*src="([^"]*_images/([^"/]+\.png))")(?![^>]*loading=)([^>]*)>')

BLACK = re.compile(r'<span class="(?:n|p|o|w|mi|mf|nb|nn|bp|kc)">([^<]*)</span>')  # see base.css


def size_of(path):
    """How wide and high a picture is, in pixels."""
    from PIL import Image

    with Image.open(path) as image:
        return image.size


def lighten(app, page, template, context, doctree):
    """html-page-context, after the slides are cut: plots come when near, plain code is plain."""
    paths = {name: path for path, name in app.builder.images.items()}

    def sized(match):
        if match[2] not in paths:
            return match[0]
        wide, high = size_of(Path(app.srcdir) / paths[match[2]])
        size = "" if " width=" in match[0] else f'width="{wide}" height="{high}" '
        return f'<img {size}loading="lazy" {match[3]}>'

    if context.get("body"):
        context["body"] = BLACK.sub(r"\1", PLOT.sub(sized, context["body"]))


def fewer_colours(path):
    """Write a plot with a table of its colours; a shaded picture is left alone."""
    from PIL import Image

    with Image.open(path) as image:
        if image.mode == "P" or not image.getcolors(COLOURS):
            return
        plain = Image.new("RGB", image.size, "white")
        plain.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
    table = plain.quantize(256, dither=Image.Dither.NONE)
    before = path.stat().st_size
    small = path.with_suffix(".small")
    table.save(small, "png", optimize=True)
    if small.stat().st_size < before:
        small.replace(path)
    else:
        small.unlink()


def shrink_plots(app, exception):
    """build-finished: all plots of the pages."""
    if exception is None and app.builder.format == "html":
        for path in sorted((Path(app.outdir) / "_images").glob("*.png")):
            fewer_colours(path)


def setup(app):
    """Register with Sphinx."""
    app.connect("html-page-context", lighten, priority=970)
    app.connect("build-finished", shrink_plots)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
