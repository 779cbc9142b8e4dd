# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""An agent that forks its machine where it is unsure, tries every idea in a copy, and keeps the best copy.

The ideas are written here, so that the example needs no model. In your loop, ideas() asks one.
"""

import concurrent.futures

import warren

TEST = """
import unittest
from median import median

class Median(unittest.TestCase):
    def test_odd(self): self.assertEqual(median([3, 1, 2]), 2)
    def test_even(self): self.assertEqual(median([4, 1, 3, 2]), 2.5)
    def test_input_is_kept(self):
        values = [3, 1, 2]
        median(values)
        self.assertEqual(values, [3, 1, 2])
    def test_empty(self):
        with self.assertRaises(ValueError): median([])
"""


def ideas() -> dict[str, str]:
    """What the agent considers: a name and a program each."""
    return {
        "sort in place": "def median(v):\n    v.sort()\n    return v[len(v) // 2]\n",
        "sort a copy": "def median(v):\n    v = sorted(v)\n    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2\n",
        "standard library": "from statistics import median as known\n\ndef median(v):\n    if not v:\n        raise ValueError('no values')\n    return known(v)\n",
    }


def tries(copy: warren.Machine, program: str) -> int:
    """Writes an idea into a copy and returns how many tests pass there."""
    copy.files.write("/work/median.py", program)
    said = copy.run(["python3", "-m", "unittest", "-v", "test_median"], cwd="/work").stderr
    return said.count("... ok\n")


def main() -> None:
    machine = warren.machine()
    try:
        machine.files.write("/work/test_median.py", TEST)
        machine.run("echo 'what the agent learned so far' > /work/learned", check=True)

        # The decision: a running copy for each idea, each with all that the agent has done until here.
        wanted = ideas()
        with machine.fork(len(wanted)) as copies:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                passed = list(pool.map(tries, copies, wanted.values()))
            for name, count in zip(wanted, passed):
                print(f"{name}: {count} of 4 tests pass")
            best = max(range(len(passed)), key=passed.__getitem__)

            # The best copy is the agent's machine from now on. The block deletes the others.
            machine.delete()
            machine = copies.pop(best)
        print("kept:", list(wanted)[best])
        print("notes:", machine.run("cat /work/learned").stdout.strip())
    finally:
        machine.delete()


main()
