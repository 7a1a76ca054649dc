import sys
from pathlib import Path

from .files import grade_file

for name, verdict in grade_file(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
    print(f"{name}: {verdict.kind} {verdict.said}")
