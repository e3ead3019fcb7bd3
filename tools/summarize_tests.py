#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The last line of `./dev test`: how many test cases passed and failed.

summarize_tests.py FOLDER [LABEL] reads ctest.xml (one entry a program) and the GoogleTest reports (<program>.json) in FOLDER. A program
that ended without a report, or badly in spite of a clean one, counts as one failed test. The label stands before the counts."""
import json
import pathlib
import sys
import xml.etree.ElementTree

folder = pathlib.Path(sys.argv[1])
passed, failures, skipped = 0, [], 0
for program in xml.etree.ElementTree.parse(folder / "ctest.xml").getroot().iter("testcase"):
    name, good = program.get("name"), program.get("status") == "run"
    report = folder / f"{name}_test.json"
    try:
        suites = json.loads(report.read_text())["testsuites"] if report.exists() else None
    except ValueError:
        suites = None
    failed_before = len(failures)
    for case in (case for suite in suites or [] for case in suite["testsuite"]):
        if case.get("result") == "SKIPPED":
            skipped += 1
        elif case.get("failures"):
            failures.append(f"{name}: {case['classname']}.{case['name']}")
        elif case.get("result") == "COMPLETED":
            passed += 1
    if not good and len(failures) == failed_before:
        failures.append(f"{name}: the program ended early (crash or timeout)")
    elif good and suites is None:
        passed += 1
for failure in failures:
    print(f"failed: {failure}")
label = f"{sys.argv[2]} " if len(sys.argv) > 2 else ""
print(f"{label}{passed} passed, {len(failures)} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failures or passed == 0 else 0)
