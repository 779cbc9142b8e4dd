# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the synchronous client, src/warren/_sync, from the asynchronous one.

With --check nothing is written; the exit status says whether something is out of date.
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).parent / "src" / "warren" / "_async"
WORDS = [
    (r"# <async\n.*?# async>\n", ""),  # parts that only the asynchronous client has
    (r"\) -> _Creating:", ") -> Machine:"),
    (r"return _Creating\(self, image, options\)", "return self.create(image, **options)"),
    (r"Use it with `async with`, which deletes the machine at the end, or await it, which\n +leaves that to you\.", "Use it with `with`, which deletes the machine at the end, or leave that to you."),
    (r"Generator, ", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"`async with`", "`with`"),
    (r"\bawait ", ""),
    (r"__aenter__", "__enter__"), (r"__aexit__", "__exit__"), (r"__aiter__", "__iter__"),
    (r"\baclose\b", "close"), (r"\baread\b", "read"), (r"\baiter_lines\b", "iter_lines"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"The asynchronous client\. .*", 'The synchronous client. unasync.py has made it of the asynchronous one, _async."""'),
]  # fmt: skip


def synchronous(text: str) -> str:
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL if "<async" in pattern else 0)
    return text.rstrip("\n") + "\n"


def main() -> int:
    stale = []
    for source in sorted(SOURCE.glob("*.py")):
        if source.name == "_io.py":
            continue  # written by hand for both
        target = SOURCE.parent / "_sync" / source.name
        text = synchronous(source.read_text())
        if target.exists() and target.read_text() == text:
            continue
        stale.append(target.name)
        if "--check" not in sys.argv:
            target.write_text(text)
    if stale and "--check" in sys.argv:
        print("out of date: " + ", ".join(stale) + ": run python3 unasync.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
