#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coli and llama.cpp on one file, arms interleaved in one session: prints the tables of the README.

    python3 compare_llama.py MODEL --n 5                          # all resident: prefill and decode
    python3 compare_llama.py MODEL --n 5 --limits 0.6,0.4,0.25    # under a memory limit, as root: decode from a cold start

Resident: llama.cpp's settings (repack, mmap, flash attention) are tried once each; the best for decode and the best for
prefill then meet coli n times, one process an arm and round, each after a warm-up. The read rate is measured by coli in the
same rounds.
Limited: every arm runs in a memory cgroup of its own with a limit of SHARE times the file, page cache dropped, 16 prompt
ids, 64 tokens decoded and discarded, 64 measured on a decode-only clock. Control: llama.cpp, mmap, repack off, read-ahead of
the disk at 128 KiB (its better setting; recorded and restored). Beside it: coli with --store mmap --unbounded, and
llama.cpp without a limit. Python's own memory, about 40 MB, is within the control's limit.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = [(repack, mmap, flash) for repack in (False, True) for mmap in (False, True) for flash in ("off", "on")]


class Cgroup:
    """A memory cgroup (v1 or v2) with a limit; no limit: no cgroup."""

    def __init__(self, limit):
        self.path = None
        if limit is None:
            return
        for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            path = pathlib.Path(root) / f"coli-compare-{os.getpid()}"
            if not pathlib.Path(root, "cgroup.procs").exists():
                continue
            path.mkdir()
            if (path / file).exists():
                (path / file).write_text(str(limit))
                self.path = path
                return
            path.rmdir()
        raise SystemExit("no memory cgroup can be made here (root?)")

    def enter(self):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        if self.path:
            self.path.rmdir()


def run(command, limit=None, quiet_failure=False):
    """The JSON object that a command prints last, or None if it was killed or failed."""
    group = Cgroup(limit)
    try:
        # run() ends the child when an exception passes, and only then is the cgroup empty.
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=group.enter)
    finally:
        group.remove()
    if done.returncode != 0:
        print(f"ended with {done.returncode}: {' '.join(map(str, command))}\n{done.stderr[-400:]}", file=sys.stderr)
        if not quiet_failure:
            raise SystemExit(1)
        return None
    return json.loads(done.stdout[done.stdout.index("{"):])


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


class ReadAhead:
    """The disk's read-ahead, set to 128 KiB and put back."""

    def __init__(self, path):
        device = os.stat(path).st_dev
        folder = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        while not (folder / "queue" / "read_ahead_kb").exists():
            folder = folder.parent
            if folder == folder.parent:
                raise SystemExit(f"no read_ahead_kb for the disk of {path}")
        self.file = folder / "queue" / "read_ahead_kb"

    def __enter__(self):
        self.before = self.file.read_text().strip()
        self.file.write_text("128")
        return self.before

    def __exit__(self, *_):
        self.file.write_text(self.before)


def ours(args, *more):
    return [args.colidrv, "bench", args.model, "--threads", str(args.threads), "--quiet", "--json", "-", *more]


def llama(args, setting, *more):
    repack, mmap, flash = setting
    flags = ["--repack"] * repack + ["--mmap"] * mmap + ["--flash-attn", flash]
    return [args.python, HERE / "peer_llama.py", args.model, "--threads", str(args.threads), *flags, *more]


def named(setting):
    repack, mmap, flash = setting
    return f"repack {'on' if repack else 'off'}, mmap {'on' if mmap else 'off'}, flash attention {flash}"


def merge(samples, result):
    for kind in ("prefill", "decode"):
        for entry in result[kind]:
            samples.setdefault((kind, entry["tokens"]), []).extend(entry["samples"])


def spread(values, digits=0):
    if not values:
        return "killed"
    text = lambda v: f"{v:.{digits}f}"
    return f"{text(statistics.median(values))} ({text(min(values))} to {text(max(values))})"


def resident(args):
    lengths = ["--prefill", args.prefill, "--decode", str(args.decode)]
    rows = [("decode", args.decode)] + [("prefill", int(n)) for n in args.prefill.split(",")]
    best = {}
    if "llama" in args.engines:
        for setting in SETTINGS:
            found = run(llama(args, setting, *lengths, "--repeat", "1"), quiet_failure=True)
            if not found:
                continue
            print(f"tried {named(setting)}: " + ", ".join(f"{k} {e['tokens']}: {e['tps_median']:.1f}" for k in ("decode", "prefill") for e in found[k]), file=sys.stderr)
            for kind in ("prefill", "decode"):
                for entry in found[kind]:
                    key = (kind, entry["tokens"])
                    if key not in best or entry["tps_median"] > best[key][0]:
                        best[key] = (entry["tps_median"], setting)
    chosen = sorted({setting for _, setting in best.values()})
    mine, theirs, bandwidth, about = {}, {setting: {} for setting in chosen}, [], None
    for number in range(args.n):
        if "ours" in args.engines:
            about = run(ours(args, *lengths, "--repeat", "1"))
            merge(mine, about)
            bandwidth.append(about["read_bandwidth_gbs"])
        for setting in chosen:
            peer = run(llama(args, setting, *lengths, "--repeat", "1"))
            merge(theirs[setting], peer)
        print(f"round {number + 1} of {args.n} done", file=sys.stderr)
    table = ["| | coli | llama.cpp | ratio |", "|---|---|---|---|"]
    for key in rows:
        a, b = mine.get(key, []), theirs[best[key][1]].get(key, []) if key in best else []
        ratio = f"{statistics.median(a) / statistics.median(b):.1f}" if a and b else ""
        table.append(f"| {key[0]} {key[1]} | {spread(a) if a else ''} | {spread(b) if b else ''} | {ratio} |")
    notes = [f"{args.threads} threads, tokens a second: median (range) of {args.n} runs, arms interleaved in one session."]
    if about:
        per_token = about["bytes_per_token"]
        fraction = statistics.median(rate * per_token / 1e9 / read for rate, read in zip(mine[("decode", args.decode)], bandwidth))
        notes += [f"{about['cpu']}, isa {about['isa']}, {about['compiler']}, commit {about['commit']}.",
                  f"Memory reads {spread(bandwidth)} GB/s in the same runs; decode takes {per_token / 1e9:.3f} GB a token, "
                  f"{fraction:.2f} of what memory gave in the same round.",
                  f"Peak resident memory {about['peak_rss_bytes'] / 1e9:.3f} GB for a file of {os.path.getsize(args.model) / 1e9:.3f} GB and {about['kv_bytes'] / 1e9:.3f} GB of keys and values; loaded in {about['load_seconds']:.1f} s."]
    for key, (_, setting) in best.items():
        notes.append(f"llama.cpp's best for {key[0]} {key[1]}: {named(setting)}.")
    return table, notes, {"ours": {str(k): v for k, v in mine.items()}, "llama": {named(s): {str(k): v for k, v in r.items()} for s, r in theirs.items()}, "read_bandwidth_gbs": bandwidth}


def limited(args):
    size = os.path.getsize(args.model)
    protocol = ["--prompt", "16", "--discard", "64", "--decode", "64", "--repeat", "1", "--warm-up", "0"]
    arms = {}  # (label, share) -> command, limit
    for share in [float(s) for s in args.limits.split(",")] + [None]:
        limit = None if share is None else int(size * share) // 4096 * 4096
        memory = [] if limit is None else ["--memory", str(limit)]
        if "ours" in args.engines:
            arms[("coli", share)] = (ours(args, *protocol, "--no-prefill", "--no-bandwidth", *memory), limit)
        if "llama" in args.engines:
            arms[("llama.cpp", share)] = (llama(args, (False, True, "off"), *protocol, "--prefill", "0"), limit)
        if "ours" in args.engines and limit is not None and not args.no_mmap_arm:
            arms[("coli --store mmap", share)] = (ours(args, *protocol, "--no-prefill", "--no-bandwidth", "--store", "mmap", "--unbounded", "--memory", str(limit)), limit)
    rates, hits, read, about = {arm: [] for arm in arms}, {}, {}, None
    with ReadAhead(args.model) as before:
        for number in range(args.n):
            for arm, (command, limit) in arms.items():
                drop_caches()
                result = run(command, limit, quiet_failure=True)
                if result is None:
                    continue
                entry = result["decode"][0]
                rates[arm].append(entry["tps_median"])
                if arm[0] == "coli":
                    about = result
                    hits.setdefault(arm, []).append(entry["hit_rate"])
                    read.setdefault(arm, []).append(entry["bytes_read_per_token"])
                print(f"round {number + 1}: {arm[0]} at {arm[1] or 'no limit'}: {entry['tps_median']:.2f} tok/s", file=sys.stderr)
    table = ["| limit, share of the file | coli | hit rate, MB read a token | llama.cpp (mmap) | ratio | coli --store mmap |", "|---|---|---|---|---|---|"]
    for share in sorted({share for _, share in arms}, key=lambda s: -(s or 9)):
        a, b, c = (rates.get((label, share), []) for label in ("coli", "llama.cpp", "coli --store mmap"))
        cache = f"{statistics.median(hits[('coli', share)]):.3f}, {statistics.median(read[('coli', share)]) / 1e6:.1f}" if a else ""
        ratio = f"{statistics.median(a) / statistics.median(b):.1f}" if a and b else ""
        table.append(f"| {'none' if share is None else f'{share:.0%}'} | {spread(a, 2)} | {cache} | {spread(b, 2)} | {ratio} | {spread(c, 2) if c else ''} |")
    notes = [f"Decode, tokens a second: median (range) of {args.n} runs from a cold start, {args.threads} threads, arms interleaved; read-ahead 128 KiB (was {before})."]
    if about:
        notes.append(f"{about['cpu']}, isa {about['isa']}, commit {about['commit']}.")
    return table, notes, {f"{label} at {share}": values for (label, share), values in rates.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--colidrv", default=str(HERE.parents[1] / "build/release/driver/colidrv"))
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has llama-cpp-python")
    parser.add_argument("--engines", default="ours,llama")
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", default="64,512")
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--limits", default="", help="shares of the file's size, as 0.6,0.4,0.25; root")
    parser.add_argument("--no-mmap-arm", action="store_true", help="with --limits: without coli --store mmap")
    parser.add_argument("--json", help="write every sample to this file")
    args = parser.parse_args()
    args.engines = args.engines.split(",")
    if not set(args.engines) <= {"ours", "llama"} or args.n < 1:
        parser.error("--engines takes ours, llama or both; --n at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that read-ahead and cgroups are put back
    table, notes, samples = limited(args) if args.limits else resident(args)
    print("\n".join(notes) + "\n\n" + "\n".join(table))
    if args.json:
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(os.path.abspath(args.json)), delete=False) as file:
            json.dump({"model": args.model, "notes": notes, "samples": samples}, file, indent=1)
        os.replace(file.name, args.json)


if __name__ == "__main__":
    main()
