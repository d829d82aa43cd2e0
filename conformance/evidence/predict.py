#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a replay predict what the engine then measures? Traces runs at several memory sizes, and predicts each run's decode
rate from the trace and the rates of another run: of itself, and of the run at the first size.

  predict.py COLIDRV MODEL [--memory 500M,560M,700M] [--store pread] [--threads 2] [-n 129] [--repeat 3]

Prints a line a size: measured (median of the repeats), predicted from the size's own rates, predicted from the first size's
rates, and how far off each is. Put the size that reads most first: where little is read, reads wait to be collected, and a
run's own read rate is too low. Exit 6 where a prediction from the first size's rates is more than 10 % off. For a quiet
machine, not for CI."""
import argparse, json, os, statistics, subprocess, sys, tempfile

p = argparse.ArgumentParser()
p.add_argument("colidrv"), p.add_argument("model")
p.add_argument("--memory", default="500M,560M,700M"), p.add_argument("--store", default="pread"), p.add_argument("--threads", default="2")
p.add_argument("-n", default="129"), p.add_argument("--repeat", type=int, default=3)
o = p.parse_args()
ids = "9,12,33,47,51,60,77,80,91,102,119,130,145,160,171,188"

def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)

def run(*words):
    subprocess.run([o.colidrv, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

first, worst = None, 0.0
with tempfile.TemporaryDirectory() as folder:
    print(f"{'memory':>8} {'hits':>7} {'measured tok/s':>24} {'own rates':>18} {'rates of ' + o.memory.split(',')[0]:>22}")
    for memory in o.memory.split(","):
        runs = []
        for i in range(o.repeat):
            drop(o.model)
            trace, result = f"{folder}/{memory}.{i}.trace", f"{folder}/result.json"
            run("run", o.model, "--tokens", ids, "-n", o.n, "--temp", "0", "--ignore-eos", "--ctx", "256", "--threads", o.threads, "--memory", memory, "--store", o.store, "--quiet", "--trace", trace, "--json", result)
            stats = json.load(open(result))["stats"]
            runs.append((stats["decode_tps"], trace, stats["cache"]))
        runs.sort(key=lambda r: r[0])
        rate, trace, cache = runs[len(runs) // 2]

        def predict(*words):
            report = f"{folder}/report.json"
            run("replay", trace, "--policies", cache["policy"], "--budgets", "recorded", "--json", report, *words)
            report = json.load(open(report))
            return next(c["predicted_tps"] for c in report["curves"] if c["phase"] == "decode"), report["time_model"]
        own, model = predict()
        if first is None:
            first = model
        other, _ = predict("--disk-rate", str(int(first["disk_rate"])), "--weights-rate", str(int(first["weights_rate"])))
        off = own / rate - 1
        worst = max(worst, abs(other / rate - 1))
        hits = cache["hits"] / (cache["hits"] + cache["misses"])
        print(f"{memory:>8} {100 * hits:6.1f}% {rate:8.2f} ({runs[0][0]:.2f} to {runs[-1][0]:.2f}) {own:9.2f} {100 * off:+6.1f} % {other:12.2f} {100 * (other / rate - 1):+6.1f} %   disk {model['disk_rate'] / 1e9:.2f} GB/s, weights {model['weights_rate'] / 1e9:.1f} GB/s", flush=True)
print(f"furthest off, from the first rates: {100 * worst:.1f} %")
sys.exit(0 if worst <= 0.10 else 6)
