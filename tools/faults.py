#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that the tests catch planted faults: faults.py BUILD_DIR [NUMBER...]

The table of faults in docs/testing.md names a program and a filter for each. Without a fault the filter must run tests, all of
which pass; with the fault in DARNER_FAULT at least one of them must fail. Last, the numbers in the sources must be those of
the table. Ends with 0 when all of this holds."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| (\d+) \| (.+?) \| `(\w+)` \| `([^`]+)` \|$", re.M)
SECONDS = 120  # a faulty program that never ends is a failed run too


def table():
    rows = ROW.findall((ROOT / "docs/testing.md").read_text())
    return {int(number): (what, program, tests) for number, what, program, tests in rows}


def planted():
    numbers = []
    for path in (ROOT / "darner").rglob("*.cpp"):
        numbers += [int(n) for n in re.findall(r"\bfault\((\d+)\)", path.read_text())]
    return set(numbers)


def run(build, program, tests, fault):
    """How many tests ran and whether one failed. A crash without a failed test counts as neither."""
    environment = {**os.environ, "DARNER_FAULT": str(fault)} if fault else os.environ
    command = [str(build / "bin" / program), f"--gtest_filter={tests}", "--gtest_color=no"]
    try:
        result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return 0, False, "did not end"
    ran = re.search(r"Running (\d+) tests? from", result.stdout)
    failed = "[  FAILED  ]" in result.stdout
    return int(ran.group(1)) if ran else 0, failed, result.stdout if result.returncode < 0 else ""


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build, rows = pathlib.Path(sys.argv[1]).resolve(), table()
    chosen = [int(n) for n in sys.argv[2:]] or sorted(rows)
    problems = [f"fault {n} is not in the table of docs/testing.md" for n in chosen if n not in rows]
    if len(sys.argv) == 2:
        problems += [f"fault {n} is planted, but not in the table" for n in sorted(planted() - rows.keys())]
        problems += [f"fault {n} is in the table, but planted nowhere" for n in sorted(rows.keys() - planted())]
    chosen = [n for n in chosen if n in rows]
    healthy = sorted({rows[n][1:] for n in chosen})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        without = dict(zip(healthy, pool.map(lambda key: run(build, *key, 0), healthy)))
        faulty = dict(zip(chosen, pool.map(lambda n: run(build, *rows[n][1:], n), chosen)))
    for (program, tests), (ran, failed, crash) in without.items():
        if ran == 0 or failed or crash:
            problems.append(f"{program} --gtest_filter='{tests}' does not pass without a fault ({ran} tests)")
    for number, (_, failed, crash) in faulty.items():
        caught = failed or bool(crash)
        print(f"{number:3}  {'caught' if caught else 'NOT CAUGHT'}  {rows[number][0]}")
        if not caught:
            problems.append(f"fault {number} is not caught by {rows[number][1]} --gtest_filter='{rows[number][2]}'")
        elif not failed:
            problems.append(f"fault {number} ends the program instead of failing a test")
    for problem in problems:
        print(f"faults: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
