#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the tests notice small mistakes? Draws mutations of kernels, router, cache and sampler, compiles all of them into
one build of their folders' tests as variants that a switch chooses, and counts those under which no test goes red.

    mutate.py [--count 200] [--seed 1] [--work FOLDER] [--only FOLDER,...] [--list | --report] [--again]
    mutate.py --planted [--work FOLDER]

Each mutation changes one operator, constant, condition or statement of one line; `if (x < y)` becomes
`if (coli_mutation::on(17) ? (x <= y) : (x < y))`, and the environment's COLI_MUTANT says which is on. A mutant is judged
by its folder's test files, one program a file, fastest first; the first that fails has caught it. Kernels are compiled
for AVX2; those written for AVX-512 VNNI are judged there. Lines that can't be switched (declarations of several names,
parts of longer statements) or do not compile so are left out before anything counts. A result is one line of
FOLDER/seed-N.jsonl as soon as it is known: a run that is cut short goes on where it was. `--again` judges the survivors once more, after tests were added; `--report` prints what is
there. A mutant that crashes, runs ten times as long as it should or sleeps for ever is caught. Mutants that compute the
same are listed in equivalent.txt beside this script, each with its reason.

`--planted` compiles the faults of planted.json one by one: whole mistakes, thought of by hand, each with the test files
that must see it; exit 1 where one is not seen.
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
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# What is mutated, whose tests judge it, and how large a share of the draw it gets.
TARGETS = [("kernels/ref/*.hpp", "kernels", 10), ("kernels/simd/*.hpp", "kernels", 20), ("include/coli/moe/{routing,expert_ffn}.hpp", "moe", 14),
           ("include/coli/cache/*.hpp", "cache", 26), ("include/coli/cache/eviction/*.hpp", "cache", 16), ("include/coli/sample/*.hpp", "sample", 14)]
SKIP = {"leaf_neon.hpp", "leaf_avxvnni.hpp", "cache_stats.hpp"}  # not run by these two sets, or no logic
CONSTANT = ("kernels/simd/table.hpp",)  # evaluated by the compiler: nothing there can be switched
ISAS = ("avx2", "avx512vnni")
LIBRARIES = ("-luring", "-lpcre2-8", "-lutf8proc", "-lboost_unit_test_framework", "-lpthread")
TEST_ARGUMENTS = ("--catch_system_errors=no", "--color_output=no")
SWITCH = """#pragma once
#include <type_traits>
namespace coli_mutation {
extern const int chosen;
constexpr bool on(int n) { return !std::is_constant_evaluated() && chosen == n; }
}
"""
CHOSEN = """#include <cstdlib>
namespace coli_mutation { extern const int chosen; const int chosen = std::getenv("COLI_MUTANT") ? std::atoi(std::getenv("COLI_MUTANT")) : 0; }
"""
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


def variant(was, to, n):
    """The line that is `was`, or `to` while mutant n is on; nothing where there is no simple way to say so."""
    on = f"coli_mutation::on({n})"

    def pick(a, b):
        return f"{on} ? ({b}) : ({a})"

    def differs_within(pattern):
        a, b = re.match(pattern, was), re.match(pattern, to)
        if a and b and a.group(1) == b.group(1) and a.group(3) == b.group(3) and a.group(2) != b.group(2):
            return a.group(1), a.group(2), b.group(2), a.group(3)
        return None

    if was.count("(") != was.count(")") or to.count("(") != to.count(")") or re.search(r"if constexpr|static_assert|COLI_TRY|\[&|\[=|constexpr|template", was):
        return None
    found = differs_within(r"^(.*\{ return )([^;{}]*)(; \}.*)$") or differs_within(r"^(\s*(?:else )?return )([^;{}]*)(;)$")
    if found:
        return found[0] + pick(*found[1:3]) + found[3]
    for head in (r"^(\s*(?:\} )?(?:else )?if \()", r"^(\s*while \()"):
        a, b = re.match(head, was), re.match(head, to)
        if a and b:
            ends = balanced(was, a.end()), balanced(to, b.end())
            conditions = was[a.end():ends[0] - 1], to[b.end():ends[1] - 1]
            rests = was[ends[0]:], to[ends[1]:]
            if conditions[0] != conditions[1] and rests[0] == rests[1]:
                if re.search(r";|\b(?:const|auto)\b", conditions[0]):
                    return None
                return a.group(1) + pick(*conditions) + ")" + rests[0]
            if conditions[0] == conditions[1] and rests[0].endswith(";"):
                inner = variant(rests[0].strip(), rests[1].strip(), n)
                return inner and was[:ends[0]] + " { " + inner + " }"
            return None
    head = re.match(r"^(\s*for \()", was)
    if head:
        ends = balanced(was, head.end()), balanced(to, head.end())
        if None in ends or " : " in was[head.end():ends[0]] and ";" not in was[head.end():ends[0]]:
            return None
        parts = [t[head.end():e - 1].split(";") for t, e in zip((was, to), ends)]
        if any(len(p) != 3 for p in parts):
            return None
        rests = was[ends[0]:], to[ends[1]:]
        changed = [i for i in range(3) if parts[0][i] != parts[1][i]]
        if changed == [] and rests[0].endswith(";"):
            inner = variant(rests[0].strip(), rests[1].strip(), n)
            return inner and was[:ends[0]] + " { " + inner + " }"
        if len(changed) != 1 or rests[0] != rests[1]:
            return None
        i, both = changed[0], [p[changed[0]].strip() for p in parts]
        if i == 0:
            names = [re.match(r"^([\w:<>]+ \w+ = )([^,]*)$", t) for t in both]
            if None in names or names[0].group(1) != names[1].group(1):
                return None
            parts[0][0] = names[0].group(1) + pick(names[0].group(2), names[1].group(2))
        elif i == 1:
            parts[0][1] = " " + pick(*both)
        else:
            parts[0][2] = f" {on} ? void({both[1]}) : void({both[0]})"
        return was[:head.end()] + ";".join(parts[0]) + ")" + rests[0]
    found = differs_within(r"^(\s*(?:const )?[\w:]+(?:<[\w:<>, ]+>)?[&*]? \w+ = )([^{}]*)(;)$")
    if found:
        if re.search(r", \w+ =", found[1]):
            return None
        return found[0] + pick(*found[1:3]) + found[3]
    body = re.match(r"^(\s*)(else )?([^{}]*;)$", was)
    if body and re.match(r"^(?:[\w.\->\[\]()*+:]+ [-+*/|&^%]?= |[\w.\->:]+\(|(?:\+\+|--)[\w.\->\[\]]+;|[\w.\->\[\]]+(?:\+\+|--);|COLI_CHECK)", body.group(3)):
        other = to.strip().removeprefix("else ") if body.group(2) else to.strip()
        return f"{body.group(1)}{body.group(2) or ''}if ({on}) {{ {other} }} else {{ {body.group(3)} }}"
    return None


def files_of(pattern):
    choice = re.search(r"\{(.*)\}", pattern)
    patterns = [pattern[:choice.start()] + c + pattern[choice.end():] for c in choice.group(1).split(",")] if choice else [pattern]
    return sorted(f for p in patterns for f in glob.glob(os.path.join(ROOT, p)) if os.path.basename(f) not in SKIP)


def draw(count, seed):
    """`count` mutations, at most one of a line, in a random order: what a run that is cut short has judged is a fair sample."""
    rng, drawn = random.Random(seed), []
    for pattern, folder, share in TARGETS:
        pool = [(os.path.relpath(f, ROOT), folder, *c) for f in files_of(pattern) for c in candidates(f)]
        rng.shuffle(pool)
        wanted, lines = round(count * share / sum(s for _, _, s in TARGETS)), set()
        for file, folder, line, column, what, to in pool:
            text = open(os.path.join(ROOT, file), encoding="utf-8").read().split("\n")
            before = [t.split("//")[0].strip() for t in text[:line]]
            before = next((t for t in reversed(before) if t), ";")
            code = text[line].split("//")[0].rstrip()
            if (file, line) in lines or file in CONSTANT or before[-1] not in ";{}:)" or before[-1] == ")" and not before.startswith(("if", "else", "for", "while", "}")) or not variant(code, to, 0):
                continue
            lines.add((file, line))
            drawn.append({"file": file, "folder": folder, "line": line, "column": column, "what": what, "was": code.strip(), "to": to})
            wanted -= 1
            if not wanted:
                break
    rng.shuffle(drawn)
    for n, m in enumerate(drawn):
        m["n"] = n + 1
    return drawn


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


def run(command, cwd, seconds=3600, memory=6 << 30, may_sleep=True, env=None):
    """Exit code and the CPU seconds it took. One that may not sleep is stopped when it did for 40 s without using a tick."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=Limits(seconds, memory), env=env) as child:
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

    def __init__(self, work, tree, isa):
        self.name, self.folder = isa, os.path.join(work, isa)
        self.scratch = os.path.join(work, "scratch")
        os.makedirs(self.scratch, exist_ok=True)
        data = [f"-D{k}={v}" for k, v in os.environ.items() if k in ("COLI_ROUTES_DIR", "COLI_TEXT")]
        if run(["cmake", "-G", "Ninja", "-S", tree, "-B", self.folder, "-DCMAKE_BUILD_TYPE=Release", f"-DCOLI_ISAS={isa}", "-DCOLI_BUILD_TESTS=ON", *data], work)[0]:
            sys.exit(f"mutate: cannot configure {self.folder}")
        self.tree, self.tests = tree, {}

    def know(self, folder):
        """How each object of a folder's test program is compiled."""
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

    def prepare(self, folder, names=None):
        """Builds test files of a folder unchanged (all, or those named), and finds out what each costs and includes. All must pass."""
        self.know(folder)
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
                       *LIBRARIES], self.folder)
        if code:
            sys.exit(f"mutate: cannot link {f['object']} alone")
        return run([program, *TEST_ARGUMENTS], os.path.join(self.folder, "conformance"), seconds, may_sleep=False)

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
                return "caught", f["name"]
        return ("survived" if judges else "no test includes it"), None


class Variants:
    """The test files of a folder with every mutation of `mutations` compiled in, as programs that COLI_MUTANT switches."""

    def __init__(self, build, folder, mutations):
        build.know(folder)
        objects, shared, files = build.tests[folder]
        self.build, self.folder, self.mutations, self.left_out = build, folder, list(mutations), []
        self.out = os.path.join(build.scratch, f"{folder}-{build.name}")
        os.makedirs(self.out, exist_ok=True)
        for name, text in (("switch.hpp", SWITCH), ("chosen.cpp", CHOSEN)):
            with open(os.path.join(self.out, name), "w", encoding="utf-8") as f:
                f.write(text)
        self.objects = {o: os.path.join(self.out, o.replace("/", "_")) for o in objects}
        tables = [o for o in shared if "/main.cpp" not in o]
        self.includes, pending = {}, [o for o in objects if o not in tables]
        self.write()
        try:
            while pending:
                with ThreadPoolExecutor(2) as pool:
                    errors = list(pool.map(lambda o: self.compile(o, objects[o]["command"]), pending))
                bad = {(os.path.relpath(os.path.realpath(os.path.join(build.folder, m.group(1))), build.tree), int(m.group(2)) - 1)
                       for e in errors for m in re.finditer(r"([^\s:]+):(\d+):", e)}
                pending = [o for o, e in zip(pending, errors) if e]
                drop = [m for m in self.mutations if (m["file"], m["line"]) in bad]
                if pending and not drop:
                    sys.exit("mutate: does not compile for another reason than a mutation\n" + next(e for e in errors if e)[:2000])
                self.mutations = [m for m in self.mutations if m not in drop]
                self.left_out += drop
                if not pending and tables and any(i.startswith("driver/isa/") for of in self.includes.values() for i in of):
                    pending, tables = tables, []  # some test calls the kernels' tables
                if drop:  # what was compiled with them may keep them: nobody switches them on
                    self.write()
        finally:
            for file in {m["file"] for m in [*self.mutations, *self.left_out]}:
                shutil.copy2(os.path.join(ROOT, file), os.path.join(build.tree, file))
        subprocess.run(["c++", "-c", os.path.join(self.out, "chosen.cpp"), "-o", os.path.join(self.out, "chosen.o")], check=True)
        self.programs = []
        for f in files:
            program = os.path.join(self.out, f["name"])
            subprocess.run(["c++", "-o", program, *[self.objects[o] for o in [f["object"], *shared] if o in self.includes], os.path.join(self.out, "chosen.o"), *LIBRARIES], check=True)
            code, seconds = self.run(program, 0, 600)
            if code:
                sys.exit(f"mutate: {program} is not green with no mutation on (exit {code})")
            included = set().union(*(self.includes.get(o, set()) for o in [f["object"], *shared])) if any(i.startswith("driver/isa/") for i in self.includes[f["object"]]) else self.includes[f["object"]]
            self.programs.append((seconds, program, f["name"], included))
        self.programs.sort()

    def write(self):
        for file in {m["file"] for m in [*self.mutations, *self.left_out]}:
            lines = open(os.path.join(ROOT, file), encoding="utf-8").read().split("\n")
            for m in self.mutations:
                if m["file"] == file:
                    lines[m["line"]] = variant(lines[m["line"]].split("//")[0].rstrip(), m["to"], m["n"])
            with open(os.path.join(self.build.tree, file), "w", encoding="utf-8") as f:
                f.write("\n".join(lines))

    def compile(self, output, command):
        command, deps = list(command), self.objects[output] + ".d"
        command[command.index("-o") + 1] = self.objects[output]
        done = subprocess.run([*command, "-include", os.path.join(self.out, "switch.hpp"), "-MMD", "-MF", deps], cwd=self.build.folder, capture_output=True, text=True)
        if done.returncode:
            return done.stderr or "killed"
        names = open(deps, encoding="utf-8").read().replace("\\\n", " ").split()[1:]
        self.includes[output] = {os.path.relpath(os.path.realpath(os.path.join(self.build.folder, n)), self.build.tree) for n in names}
        return ""

    def run(self, program, n, seconds):
        return run([program, *TEST_ARGUMENTS], self.out, seconds, may_sleep=False, env={**os.environ, "COLI_MUTANT": str(n)})

    def judge(self, m):
        judges = [p for p in self.programs if m["file"] in p[3]]
        for seconds, program, name, _ in judges:
            if self.run(program, m["n"], 10 * seconds + 10)[0]:
                return "caught", name
        return ("survived" if judges else "no test includes it"), None


def source_line(file, line):
    lines = open(os.path.join(ROOT, file), encoding="utf-8").read().split("\n")
    return lines[line].split("//")[0].strip() if line < len(lines) else None


def identity(m):
    return json.dumps([m["file"], m["line"], m["column"], m["to"]])


def load(path):
    return {identity(r): r for r in map(json.loads, open(path, encoding="utf-8"))} if os.path.exists(path) else {}


def report(path):
    results, known = list(load(path).values()), equivalents()
    counted = [r for r in results if r["verdict"] != "left out"]
    lost = [r for r in counted if r["verdict"] != "caught"]
    same = [r for r in lost if key(r) in known]
    for r in lost:
        print(f"{'equivalent' if key(r) in known else r['verdict']}: {r['file']}:{r['line'] + 1}: {r['what']}\n    {key(r)}")
    for folder in sorted({r["folder"] for r in counted}):
        of = [r for r in counted if r["folder"] == folder]
        print(f"{folder}: {sum(r['verdict'] == 'caught' for r in of)} of {len(of)} caught, {sum(r in same for r in of)} compute the same")
    caught, judged = len(counted) - len(lost), len(counted) - len(same)
    print(f"mutations: {len(results)} tried, {len(results) - len(counted)} left out (no variant of them compiles), {len(same)} compute the same, {caught} of {judged} others caught"
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


def planted(work, again):
    """The faults of planted.json, each against the test files that must see it. True where all are seen."""
    faults = json.load(open(os.path.join(HERE, "planted.json"), encoding="utf-8"))
    path, build = os.path.join(work, "planted.jsonl"), None
    seen = {} if again or not os.path.exists(path) else {json.dumps(r["plan"]): r["by"] for r in map(json.loads, open(path, encoding="utf-8")) if r["by"]}
    # What is quick to compile comes first.
    for m in sorted(faults, key=lambda m: (m["judged_by"][0].startswith("engine"), m["judged_by"][0])):
        if json.dumps(m) in seen:
            continue
        build = build or Build(work, copied(work), ISAS[0])
        text = open(os.path.join(ROOT, m["file"]), encoding="utf-8").read()
        if text.count(m["was"]) != 1:
            sys.exit(f"mutate: '{m['fault']}': {m['file']} does not hold the text to change once")
        for folder in dict.fromkeys(j.split("/")[0] for j in m["judged_by"]):
            names = [j.split("/")[1] for j in m["judged_by"] if j.startswith(folder + "/")]
            build.prepare(folder, names)
            verdict, by = with_change(build.tree, m["file"], text.replace(m["was"], m["to"]), lambda: build.judge(m, folder, names))
            if verdict == "caught":
                seen[json.dumps(m)] = by = f"{folder}/{by}"
                break
        with open(path, "a", encoding="utf-8") as f:
            f.write(json.dumps({"plan": m, "verdict": verdict, "by": by}) + "\n")
        print(f"{'caught by ' + by if verdict == 'caught' else verdict:40} {m['fault']}", flush=True)
    missing = [m["fault"] for m in faults if json.dumps(m) not in seen]
    print(f"planted: {len(faults) - len(missing)} of {len(faults)} faults caught" + "".join(f"\n  not: {name}" for name in missing))
    return not missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutation"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--only", default="sample,moe,cache,kernels", help="folders whose mutations are judged")
    args = parser.parse_args()
    results = os.path.join(args.work, f"seed-{args.seed}.jsonl")
    if args.report:
        return report(results)
    if args.planted:
        sys.exit(0 if planted(args.work, args.again) else 1)
    known, done = equivalents(), load(results)
    if args.again:  # what survived, whatever would be drawn today
        mutations = [r for r in done.values() if r["verdict"] == "survived" and key(r) not in known and r["was"] == source_line(r["file"], r["line"])]
        mutations = [{**m, "n": n + 1} for n, m in enumerate(mutations)]
    else:
        mutations = draw(args.count, args.seed)
    print(f"mutate: seed {args.seed}, {len(mutations)} mutations", flush=True)
    if args.list:
        for m in mutations:
            print(f"{m['file']}:{m['line'] + 1}: {m['what']}:  {m['to'].strip()}")
        return
    tree = copied(args.work)
    for folder in args.only.split(","):
        for isa in ISAS:
            of = [m for m in mutations if m["folder"] == folder and ("avx512" in m["file"]) == (isa == ISAS[1])]
            todo = [m for m in of if args.again or identity(m) not in done]
            if not todo:
                continue
            variants = Variants(Build(args.work, tree, isa), folder, of)
            for m in todo:
                start = time.time()
                verdict, by = ("left out", None) if m in variants.left_out else variants.judge(m)
                with open(results, "a", encoding="utf-8") as f:
                    f.write(json.dumps({**m, "verdict": verdict, "by": by, "seconds": round(time.time() - start, 1)}) + "\n")
                print(f"{verdict:16} {by or '':24} {m['file']}:{m['line'] + 1}: {m['what']}:  {m['to'].strip()}", flush=True)
    report(results)


if __name__ == "__main__":
    main()
