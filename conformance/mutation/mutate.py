#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the tests notice small mistakes? Draws mutations of kernels, router, cache and sampler, compiles each with its
folder's tests, and counts those that stay green.

    mutate.py [--count 200] [--seed 1] [--work FOLDER] [--list | --report] [--again]
    mutate.py --planted [--work FOLDER]

Each mutation changes one operator, constant, condition or statement of one line. A mutant is judged by its folder's test
files, one program a file, cheapest first, and only by those that include what changed; the first that fails has caught
it. Kernels are compiled for AVX2, and for AVX-512 VNNI when the tests of AVX2 pass; what passes elsewhere is judged again
under the address and undefined-behaviour sanitizers, as in CI. A result is one line of FOLDER/seed-N.jsonl as soon as it
is known: a run that is cut short goes on where it was. `--again` judges the survivors once more, after tests were added;
`--report` prints what is there.

`--planted` does the same with the faults of planted.json: whole mistakes, thought of by hand, each with the test files
that must see it; exit 1 where one is not seen.

A mutant that does not compile is not counted; one that crashes, runs ten times as long as it should or sleeps for ever
is caught. Mutants that compute the same are listed in equivalent.txt beside this script, each with its reason.
"""
import argparse
import glob
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# What is mutated, whose tests judge it, and how large a share of the draw it gets.
TARGETS = [("kernels/ref/*.hpp", "kernels", 10), ("kernels/simd/*.hpp", "kernels", 20), ("include/coli/moe/{routing,expert_ffn}.hpp", "moe", 14),
           ("include/coli/cache/*.hpp", "cache", 26), ("include/coli/cache/eviction/*.hpp", "cache", 16), ("include/coli/sample/*.hpp", "sample", 14)]
SKIP = {"leaf_neon.hpp", "leaf_avxvnni.hpp", "cache_stats.hpp"}  # not run by these two sets, or no logic
BUILDS = (("avx2", ""), ("avx512vnni", ""), ("avx2", "address,undefined"))
SANITIZED = ("moe", "cache", "sample")  # as in conformance/check
NUMBER = r"(?<![\w.'<\[]){}(?![\w.'\]>])"
SWAPS = [(r"(?<= )<(?= )", "<="), (r"(?<= )<=(?= )", "<"), (r"(?<= )>(?= )", ">="), (r"(?<= )>=(?= )", ">"), (r"==", "!="), (r"!=", "=="),
         (r"(?<= )\+(?= )", "-"), (r"(?<= )-(?= )", "+"), (r"(?<= )\*(?= )", "+"), (r"(?<= )/(?= )", "*"), (r"(?<= )%(?= )", "/"), (r"\+=", "-="), (r"-=", "+="),
         (r"(?<= )&&(?= )", "||"), (r"(?<= )\|\|(?= )", "&&"), (r"std::min\b", "std::max"), (r"std::max\b", "std::min"), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
         (NUMBER.format(0), "1"), (NUMBER.format(1), "2"), (NUMBER.format(1), "0"), (r"(?<![(;] )(?<!; )\+\+(?=\w)(?!\w+\) )", "--")]
STATEMENT = re.compile(r"^\s+(?!return|const|auto|std::\w+ |float|double|bool|int|using|static|template|class|struct|else|case|break|for|while|if|continue|//)"
                       r"([\w.\->\[\]]+(\([^;{}]*\)| [-+|&^*]?= [^;{}]*)|\+\+[\w.\->\[\]]+);$")
CONDITION = re.compile(r"\bif \((?!!\()")


def balanced(code, at):
    """The end of the bracket that is open at `at`, or nothing."""
    depth = 1
    while at < len(code) and depth:
        depth += (code[at] == "(") - (code[at] == ")")
        at += 1
    return None if depth else at


def candidates(path):
    """(line, column, what, the line it becomes) of everything that could be changed in a file."""
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n")):
        code = line.split("//")[0].rstrip()
        bare = code.strip()
        if not bare or bare.startswith(("#", "template", "using", "namespace", "concept", "requires", "friend", "*", "/*")) or re.search(r'operator|static_assert|"|assert\(', bare):
            continue
        for pattern, to in SWAPS:
            for match in re.finditer(pattern, code):
                yield number, match.start(), f"{match.group(0)} -> {to}", code[:match.start()] + to + code[match.end():]
        if STATEMENT.match(code):
            yield number, 0, "statement deleted", re.match(r"\s+", code).group(0) + ";"
        for match in CONDITION.finditer(code):
            end = balanced(code, match.end())
            condition = code[match.end():end - 1] if end else ";"
            if ";" not in condition and "const " not in condition and "auto " not in condition:
                yield number, match.start(), "condition negated", code[:match.end()] + "!(" + condition + ")" + code[end - 1:]


def files_of(pattern):
    choice = re.search(r"\{(.*)\}", pattern)
    patterns = [pattern[:choice.start()] + c + pattern[choice.end():] for c in choice.group(1).split(",")] if choice else [pattern]
    return sorted(f for p in patterns for f in glob.glob(os.path.join(ROOT, p)) if os.path.basename(f) not in SKIP)


def draw(count, seed):
    rng, drawn = random.Random(seed), []
    for pattern, folder, share in TARGETS:
        pool = [(os.path.relpath(f, ROOT), folder, *c) for f in files_of(pattern) for c in candidates(f)]
        drawn += rng.sample(pool, min(len(pool), round(count * share / sum(s for _, _, s in TARGETS))))
    rng.shuffle(drawn)  # what a run that is cut short has judged is a fair sample
    out = []
    for file, folder, line, column, what, to in drawn:
        was = open(os.path.join(ROOT, file), encoding="utf-8").read().split("\n")[line].strip()
        out.append({"file": file, "folder": folder, "line": line, "column": column, "what": what, "was": was, "to": to})
    return out


def key(m):
    """A mutation's name: it stays when lines above it move."""
    return f"{m['file']} | {m['was']} | {m['to'].strip()}"


def equivalents():
    """File | line | mutated line, then an indented reason."""
    known, path = {}, os.path.join(HERE, "equivalent.txt")
    for line in open(path, encoding="utf-8") if os.path.exists(path) else []:
        if line.startswith("    ") and known:
            known[last] += line.strip() + " "
        elif line.strip() and not line.startswith("#"):
            last = line.strip()
            known[last] = ""
    return known


class Limits:
    """CPU time and memory, not the clock: whoever stops this machine for a while must not decide a verdict."""

    def __init__(self, seconds, memory):
        self.seconds, self.memory = int(seconds) + 1, memory

    def __call__(self):
        resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds))
        if self.memory:
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, cwd, seconds=3600, memory=6 << 30, may_sleep=True):
    """Exit code and the CPU seconds it took. One that may not sleep is stopped when it did for 40 s without using a tick."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=Limits(seconds, memory),
                          env={**os.environ, "ASAN_OPTIONS": "hard_rss_limit_mb=6000:detect_leaks=0"}) as child:
        ticks, idle = None, 0
        while not may_sleep and child.poll() is None:
            time.sleep(0.02 if idle < 10 else 0.2)
            try:
                stat = open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            now = stat[11:15]
            idle = idle + 1 if now == ticks and stat[0] == "S" else 0
            ticks = now
            if idle > 200:
                child.kill()
        child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return child.returncode, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Build:
    """The tests of one instruction set as they are, and how each of their objects is compiled."""

    def __init__(self, work, tree, isa, sanitize):
        self.name, self.sanitize = isa + (", sanitized" if sanitize else ""), sanitize
        self.folder = os.path.join(work, self.name.replace(", ", "-"))
        self.scratch = os.path.join(work, "scratch")
        os.makedirs(self.scratch, exist_ok=True)
        data = [f"-D{k}={v}" for k, v in os.environ.items() if k in ("COLI_ROUTES_DIR", "COLI_TEXT")]
        if run(["cmake", "-G", "Ninja", "-S", tree, "-B", self.folder, "-DCMAKE_BUILD_TYPE=Release", f"-DCOLI_ISAS={isa}", f"-DCOLI_SANITIZE={sanitize}", "-DCOLI_BUILD_TESTS=ON", *data], work)[0]:
            sys.exit(f"mutate: cannot configure {self.folder}")
        self.tree, self.tests = tree, {}

    def prepare(self, folder, names=None):
        """Builds test files of a folder unchanged (all, or those named), and finds out what each costs and includes. All must pass."""
        if folder not in self.tests:
            objects = {}
            for entry in json.load(open(os.path.join(self.folder, "compile_commands.json"))):
                command = shlex.split(entry["command"])
                output = command[command.index("-o") + 1]
                if output.startswith((f"conformance/CMakeFiles/{folder}_test.dir/", "driver/CMakeFiles/coli_isa_tables.dir/")):
                    command = [c for c in command if not re.match(r"-W|-O\d|.*ccache$", c)]
                    objects[output] = {"command": command + ["-w", "-O1"]}
            shared = [o for o in objects if "/isa/" in o or o.endswith("/main.cpp.o") or "/simd_table_" in o]
            self.tests[folder] = (objects, shared, [{"object": o, "name": os.path.basename(o)[:-6], "seconds": None} for o in objects if o not in shared])
        objects, shared, files = self.tests[folder]
        new = [f for f in files if f["seconds"] is None and (names is None or f["name"] in names)]
        if not new:
            return
        if run(["ninja", "-j2", "-C", self.folder, *shared, *[f["object"] for f in new]], self.folder)[0]:
            sys.exit(f"mutate: the tests of {folder} do not build as they are ({self.folder})")
        at = None
        for line in subprocess.run(["ninja", "-C", self.folder, "-t", "deps"], capture_output=True, text=True).stdout.splitlines():
            if line and not line.startswith(" "):
                at = set()
                if line.split(":")[0] in objects:
                    objects[line.split(":")[0]]["includes"] = at
            elif line.strip():
                at.add(os.path.relpath(os.path.realpath(os.path.join(self.folder, line.strip())), self.tree))
        for f in new:
            f["uses_tables"] = any(i.startswith("driver/isa/") for i in objects[f["object"]]["includes"])
            code, f["seconds"] = self.try_file(folder, f, {}, 600)
            if code:
                sys.exit(f"mutate: {f['object']} is not green before anything is changed (exit {code})")

    def try_file(self, folder, f, changed, seconds):
        objects, shared, _ = self.tests[folder]
        program = os.path.join(self.scratch, "judge")
        code, _ = run(["c++", "-o", program, *[changed.get(o, o) for o in [f["object"], *shared]],
                       *subprocess.check_output(["pkg-config", "--libs", "liburing", "libpcre2-8", "libutf8proc"], text=True).split(), "-lboost_unit_test_framework", "-lpthread",
                       *([f"-fsanitize={self.sanitize}"] if self.sanitize else [])], self.folder)
        if code:
            sys.exit(f"mutate: cannot link {f['object']} alone")
        return run([program, "--catch_system_errors=no", "--color_output=no"], os.path.join(self.folder, "conformance"), seconds, 0 if self.sanitize else 6 << 30, may_sleep=False)

    def judge(self, m, folder, names=None):
        objects, shared, files = self.tests[folder]
        touched = {o for o in objects if m["file"] in objects[o].get("includes", ())}
        tables = touched & set(shared)
        changed = {}

        def rebuild(output):
            if output in changed:
                return True
            target = os.path.join(self.scratch, output.replace("/", "_"))
            command = list(objects[output]["command"])
            command[command.index("-o") + 1] = target
            if run(command, self.folder)[0]:
                return False
            changed[output] = target
            return True

        judges = [f for f in files if (names is None or f["name"] in names) and (f["object"] in touched or (tables and f["uses_tables"]))]
        for f in sorted(judges, key=lambda f: f["seconds"]):
            if not all(rebuild(o) for o in (*tables, *([f["object"]] if f["object"] in touched else []))):
                return "does not compile", None
            code, _ = self.try_file(folder, f, changed, 10 * f["seconds"] + 10)
            if code:
                return "caught", f"{f['name']} ({self.name})"
        return ("survived" if judges else "no test includes it"), None


def load(path):
    return {json.dumps([r["file"], r["line"], r["column"], r["to"]]): r for r in map(json.loads, open(path, encoding="utf-8"))} if os.path.exists(path) else {}


def report(path):
    results, known = list(load(path).values()), equivalents()
    counted = [r for r in results if r["verdict"] != "does not compile"]
    lost = [r for r in counted if r["verdict"] != "caught"]
    same = [r for r in lost if key(r) in known]
    for r in lost:
        print(f"{'equivalent' if key(r) in known else r['verdict']}: {r['file']}:{r['line'] + 1}: {r['what']}\n    {key(r)}")
    for folder in sorted({r["folder"] for r in counted}):
        of = [r for r in counted if r["folder"] == folder]
        print(f"{folder}: {sum(r['verdict'] == 'caught' for r in of)} of {len(of)} caught, {sum(r in same for r in of)} compute the same")
    caught, judged = len(counted) - len(lost), len(counted) - len(same)
    print(f"mutations: {len(results)} tried, {len(results) - len(counted)} do not compile, {len(same)} compute the same, {caught} of {judged} others caught"
          + (f" ({100 * caught / judged:.1f} %)" if judged else ": nothing was compared"))


def copied(work):
    """A copy of the tree to change. Times are copied: what did not change is not built again."""
    tree = os.path.join(work, "tree")
    os.makedirs(work, exist_ok=True)
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".git", "corpus"), symlinks=True)
    return tree


def with_change(tree, file, text, judge):
    """judge() while `file` of the tree holds `text`; afterwards it is as it was, with the time it had."""
    path = os.path.join(tree, file)
    stat = os.stat(path)
    try:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return judge()
    finally:
        shutil.copy2(os.path.join(ROOT, file), path)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def planted(build):
    """The faults of planted.json, each against the test files that must see it. True where all are seen."""
    faults = json.load(open(os.path.join(HERE, "planted.json"), encoding="utf-8"))
    unseen = 0
    for m in faults:
        text = open(os.path.join(ROOT, m["file"]), encoding="utf-8").read()
        if text.count(m["was"]) != 1:
            sys.exit(f"mutate: '{m['fault']}': {m['file']} does not hold the text to change once")
        seen = []
        for folder in dict.fromkeys(j.split("/")[0] for j in m["judged_by"]):
            names = [j.split("/")[1] for j in m["judged_by"] if j.startswith(folder + "/")]
            build.prepare(folder, names)
            verdict, by = with_change(build.tree, m["file"], text.replace(m["was"], m["to"]), lambda: build.judge(m, folder, names))
            if verdict == "caught":
                seen.append(f"{folder}/{by.split()[0]}")
                break
        unseen += not seen
        print(f"{'caught by ' + seen[0] if seen else verdict:40} {m['fault']}", flush=True)
    print(f"planted: {len(faults) - unseen} of {len(faults)} faults caught")
    return unseen == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutation"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--planted", action="store_true")
    args = parser.parse_args()
    results = os.path.join(args.work, f"seed-{args.seed}.jsonl")
    if args.report:
        return report(results)
    if args.planted:
        sys.exit(0 if planted(Build(args.work, copied(args.work), *BUILDS[0])) else 1)
    known, done = equivalents(), load(results)
    mutations = draw(args.count, args.seed)
    if args.again:
        mutations = [r for r in done.values() if r["verdict"] == "survived" and key(r) not in known]
    print(f"mutate: seed {args.seed}, {len(mutations)} mutations", flush=True)
    if args.list:
        for m in mutations:
            print(f"{m['file']}:{m['line'] + 1}: {m['what']}:  {m['to'].strip()}")
        return
    tree = copied(args.work)
    first, wider, sanitized = (Build(args.work, tree, *b) for b in BUILDS)
    for m in mutations:
        if not args.again and json.dumps([m["file"], m["line"], m["column"], m["to"]]) in done:
            continue
        lines = open(os.path.join(tree, m["file"]), encoding="utf-8").read().split("\n")
        if lines[m["line"]].strip() != m["was"]:
            print(f"mutate: {m['file']} has changed since, left out: {m['was']}")
            continue
        lines[m["line"]] = m["to"]
        start = time.time()
        builds = [first, sanitized] if m["folder"] in SANITIZED else [first, wider] if m["file"].startswith("kernels/simd") else [first]
        for build in builds["avx512" in m["file"]:]:
            build.prepare(m["folder"])
            verdict, by = with_change(tree, m["file"], "\n".join(lines), lambda: build.judge(m, m["folder"]))
            if verdict != "survived":
                break
        with open(results, "a", encoding="utf-8") as f:
            f.write(json.dumps({**m, "verdict": verdict, "by": by, "seconds": round(time.time() - start, 1)}) + "\n")
        print(f"{verdict:16} {by or '':40} {m['file']}:{m['line'] + 1}: {m['what']}:  {m['to'].strip()}", flush=True)
    report(results)


if __name__ == "__main__":
    main()
