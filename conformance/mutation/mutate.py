#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the tests notice small mistakes? Draws mutations of kernels, router, cache and sampler, rebuilds each with its
folder's tests, and counts those that stay green.

    mutate.py [--count 60] [--seed 1] [--results FILE] [--work FOLDER] [--isa avx2] [--list] [--report]

Each mutation changes one operator, constant or statement of one line. A result is one line of FILE as soon as it is
known, so a run that is cut short goes on where it was. `--report` prints what FILE holds. A mutant that does not
compile is caught by the compiler and not counted; one that hangs or crashes the tests is caught.
"""
import argparse
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What is mutated, which test programs judge it, and how large a share of the draw it gets.
TARGETS = [("kernels/ref/*.hpp", "kernels_test", 12), ("kernels/simd/*.hpp", "kernels_test", 12), ("include/coli/moe/*.hpp", "moe_test", 12),
           ("include/coli/cache/*.hpp", "cache_test", 14), ("include/coli/cache/eviction/*.hpp", "cache_test", 10), ("include/coli/sample/*.hpp", "sample_test", 12)]
SKIP_FILES = {"leaf_neon.hpp", "leaf_avxvnni.hpp", "leaf_avx512vnni.hpp", "cache_stats.hpp"}  # not run in this build, or no logic
SWAPS = [(r"(?<![<>=!+\-*/&|])<(?![<=])(?= )", "<="), (r"(?<= )<=(?= )", "<"), (r"(?<= )>(?= )", ">="), (r"(?<= )>=(?= )", ">"), (r"==", "!="), (r"!=", "=="),
         (r"(?<= )\+(?= )", "-"), (r"(?<= )-(?= )", "+"), (r"(?<= )\*(?= )", "+"), (r"(?<= )/(?= )", "*"), (r"\+=", "-="), (r"&&(?= )", "||"), (r"\|\|", "&&"),
         (r"std::min\b", "std::max"), (r"std::max\b", "std::min"), (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"(?<![\w.])0(?![\w.])", "1"), (r"(?<![\w.])1(?![\w.])", "2"),
         (r"\+\+(?=\w)", "--"), (r"\bif \((?!constexpr)", "if (!("), (r"^(\s+)(?!return|const|auto|std::|float|double|bool|int|using|static|template|class|struct|else|case|break|for|while|if|//)([\w.\->\[\]]+(\([^;{}]*\)| = [^;{}]*)|\+\+[\w.\->]+);$", r"\1;")]


def candidates(path):
    """(line number, column, what, the mutated line) of everything that could be changed in a file."""
    out, in_template, unreachable = [], False, False
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n")):
        code = line.split("//")[0].rstrip()
        bare = code.strip()
        if not bare or bare.startswith(("#", "template", "static_assert", "using", "namespace", "concept", "requires", "friend")) or "operator" in bare or "static_assert" in bare or '"' in bare:
            continue
        for pattern, to in SWAPS:
            for match in re.finditer(pattern, code):
                if to == "if (!(":
                    depth, at = 1, match.end()
                    while at < len(code) and depth:
                        depth += (code[at] == "(") - (code[at] == ")")
                        at += 1
                    if depth or "auto " in code[match.end():at] or ";" in code[match.end():at] or "const" in code[match.end():at]:
                        continue
                    changed = code[:match.start()] + "if (!(" + code[match.end():at - 1] + "))" + code[at:]
                else:
                    if pattern.startswith("(?<![\\w.])") and re.search(r"\[\w*$|<$|constexpr|::k", code[:match.start()][-12:]):
                        continue  # template arguments and array sizes
                    changed = code[:match.start()] + match.expand(to) + code[match.end():]
                if changed.strip() != bare:
                    out.append((number, match.start(), f"{match.group(0).strip()} -> {to if to != 'if (!(' else 'not'}", changed))
    return out


def draw(count, seed):
    rng, mutations = random.Random(seed), []
    total = sum(share for _, _, share in TARGETS)
    for pattern, test, share in TARGETS:
        pool = []
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            if os.path.basename(path) not in SKIP_FILES:
                pool += [(os.path.relpath(path, ROOT), test, *c) for c in candidates(path)]
        mutations += rng.sample(pool, min(len(pool), round(count * share / total)))
    rng.shuffle(mutations)
    return [{"id": f"{f}:{n + 1}:{c}", "file": f, "test": t, "line": n, "what": w, "to": line} for f, t, n, c, w, line in mutations]


def run(command, cwd, timeout):
    try:
        done = subprocess.run(command, cwd=cwd, timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode, done.stdout[-1500:]
    except subprocess.TimeoutExpired as e:
        return -1, "timed out after %d s" % e.timeout


def prepare(work, isa):
    """A copy of the tree with a build of the tests as they are; they must pass there."""
    tree, build = os.path.join(work, "tree"), os.path.join(work, "build")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".git", "corpus"), symlinks=True)
    code, text = run(["cmake", "-G", "Ninja", "-S", tree, "-B", build, "-DCMAKE_BUILD_TYPE=Debug", f"-DCOLI_ISAS={isa}", "-DCOLI_BUILD_TESTS=ON",
                      *[f"-D{k}={v}" for k, v in os.environ.items() if k in ("COLI_ROUTES_DIR", "COLI_TEXT")]], work, 300)
    if code:
        sys.exit("mutate: cannot configure\n" + text)
    return tree, build


def judge(build, test):
    code, text = run(["ninja", "-j1", "-C", build, test], build, 1800)
    if code:
        return "does not compile", text
    code, text = run([os.path.join(build, "conformance", test), "--catch_system_errors=no", "--color_output=no"], build, 600)
    return ("survived" if code == 0 else "caught"), text


def report(path):
    results = [json.loads(line) for line in open(path, encoding="utf-8")] if os.path.exists(path) else []
    counted = [r for r in results if r["verdict"] in ("caught", "survived")]
    caught = sum(r["verdict"] == "caught" for r in counted)
    for r in results:
        if r["verdict"] == "survived":
            print(f"survived: {r['file']}:{r['line'] + 1}: {r['what']}:  {r['to'].strip()}")
    for test in sorted({r["test"] for r in counted}):
        of = [r for r in counted if r["test"] == test]
        print(f"{test}: {sum(r['verdict'] == 'caught' for r in of)} of {len(of)} caught")
    print(f"mutations: {len(results)} tried, {len(results) - len(counted)} do not compile, {caught} of {len(counted)} caught"
          + (f" ({100 * caught / len(counted):.1f} %)" if counted else ": nothing was compared"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutation"))
    parser.add_argument("--results")
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    results = args.results or os.path.join(args.work, f"seed-{args.seed}.jsonl")
    if args.report:
        return report(results)
    mutations = draw(args.count, args.seed)
    print(f"mutate: seed {args.seed}, {len(mutations)} mutations", flush=True)
    if args.list:
        for m in mutations:
            print(f"{m['file']}:{m['line'] + 1}: {m['what']}:  {m['to'].strip()}")
        return
    os.makedirs(args.work, exist_ok=True)
    done = {json.loads(line)["id"] for line in open(results, encoding="utf-8")} if os.path.exists(results) else set()
    tree, build = prepare(args.work, args.isa)
    # What builds fast comes first, and one file after the other, so that a rebuild has little to do.
    quick = ["sample_test", "moe_test", "cache_test", "kernels_test"]
    green = set()
    for m in sorted(mutations, key=lambda m: (quick.index(m["test"]), m["file"])):
        if m["id"] in done:
            continue
        if m["test"] not in green:
            verdict, text = judge(build, m["test"])
            if verdict != "survived":
                sys.exit(f"mutate: {m['test']} is not green before anything is changed: {verdict}\n{text}")
            green.add(m["test"])
        path = os.path.join(tree, m["file"])
        original = open(path, encoding="utf-8").read()
        lines = original.split("\n")
        lines[m["line"]] = m["to"]
        start = time.time()
        try:
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(lines))
            verdict, text = judge(build, m["test"])
        finally:
            with open(path, "w", encoding="utf-8") as f:
                f.write(original)
        with open(results, "a", encoding="utf-8") as f:
            f.write(json.dumps({**m, "verdict": verdict, "seconds": round(time.time() - start, 1)}) + "\n")
        print(f"{verdict:16} {m['file']}:{m['line'] + 1}: {m['what']}:  {m['to'].strip()}", flush=True)
    report(results)


if __name__ == "__main__":
    main()
