#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `plan --measure` says of a model beside what `bench` then finds: the README's table of plan against reality.

    python3 plan_reality.py MODEL [--n 3] [--shares 1,0.6,0.4,0.25]

One resident run records a trace, whose replay gives the reuse curve (hits of the default policy by share of the experts,
decode tokens). Then, per share of the file's size as --memory (1: no limit) and round: a plan with this machine's rates
measured and that curve, and right after it, from dropped caches where that is allowed, 16 prompt ids, 64 tokens decoded and
discarded, 64 measured. Planned bytes stand beside VmHWM. Medians (ranges) over the rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHARES = (2, 4, 6, 9, 12.5, 18, 25, 35, 50, 65, 80, 95)


def ask(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"ended with {done.returncode}: {' '.join(map(str, command))}\n{done.stderr[-400:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def record_curve(args, folder):
    trace, curve = folder / "t.route", folder / "reuse.txt"
    ask([args.colidrv, "run", args.model, "-p", "Once upon a time", "-n", args.tokens, "--temp", "0", "--ignore-eos", "--threads", args.threads,
         "--trace", trace, "--quiet", "--json", "-"])
    found = ask([args.colidrv, "replay", trace, "--policies", "expected-use", "--budgets", ",".join(f"{s}%" for s in SHARES), "--json", "-"])
    rates = [c["hit_rate"] for c in found["curves"] if c["phase"] == "decode" and c["policy"] == "expected-use"]
    assert len(rates) == len(SHARES), found["curves"]
    curve.write_text("".join(f"{share / 100},{rate}\n" for share, rate in zip(SHARES, rates)) + "1,1\n")
    return curve


def drop_caches():
    os.sync()
    if os.access("/proc/sys/vm/drop_caches", os.W_OK):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def spread(values, digits=1):
    text = [f"{v:.{digits}f}" for v in (statistics.median(values), min(values), max(values))]
    return f"{text[0]} ({text[1]} to {text[2]})" if len(values) > 1 else text[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--colidrv", default=str(HERE.parents[1] / "build/release/driver/colidrv"))
    parser.add_argument("--n", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=512, help="length of the recorded run")
    parser.add_argument("--shares", default="1,0.6,0.4,0.25")
    args = parser.parse_args()
    size = os.path.getsize(args.model)
    print("| memory, share of the file | planned GB | peak GB | planned / peak | hits planned | hits | planned tok/s | tok/s | planned / measured |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        curve = record_curve(args, pathlib.Path(folder))
        for share in (float(s) for s in args.shares.split(",")):
            memory = [] if share >= 1 else ["--memory", int(size * share) // 4096 * 4096]
            rows = []
            for _ in range(args.n):
                plan = ask([args.colidrv, "plan", args.model, "--threads", args.threads, *memory, "--measure", "--reuse", curve, "--json", "-"])
                drop_caches()
                bench = ask([args.colidrv, "bench", args.model, "--threads", args.threads, *memory, "--prompt", "16", "--discard", "64", "--decode", "64", "--repeat", "1",
                             "--warm-up", "0", "--no-prefill", "--no-bandwidth", "--quiet", "--json", "-"])
                decode = bench["decode"][0]
                rows.append((plan["total_bytes"] / 1e9, bench["peak_rss_bytes"] / 1e9, plan["hit_rate"]["value"], decode["hit_rate"],
                             plan["decode"]["tokens_per_second"], decode["tps_median"], plan["disk_rate"]["bytes_per_second"] / 1e9, plan["weight_rate"]["bytes_per_second"] / 1e9))
            planned, peak, hits_planned, hits, rate_planned, rate, disk, weights = (list(c) for c in zip(*rows))
            print(f"| {'none' if share >= 1 else f'{share:.0%}'} | {spread(planned, 3)} | {spread(peak, 3)} | {statistics.median(p / q for p, q in zip(planned, peak)):.3f} | "
                  f"{statistics.median(hits_planned):.3f} | {statistics.median(hits):.3f} | {spread(rate_planned)} | {spread(rate)} | "
                  f"{spread([p / q for p, q in zip(rate_planned, rate)], 2)} |", flush=True)
            print(f"share {share}: disk {spread(disk, 2)} GB/s, kernels {spread(weights)} GB/s", file=sys.stderr)


if __name__ == "__main__":
    main()
