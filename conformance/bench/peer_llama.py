#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prefill and decode rates of llama.cpp on a GGUF file, through llama-cpp-python's low-level API, fed with token ids.

The peer that `colidrv bench` is compared with: same file, same ids, same number of threads. Prints one JSON object.
    pip install llama-cpp-python
    python3 peer_llama.py MODEL --prefill 64,512 --decode 64 --repeat 5 --threads 2 [--mmap] [--repack] [--flash-attn on]
"""
import argparse
import ctypes
import json
import statistics
import time

import llama_cpp


def xoshiro_ids(n, n_vocab):
    """The ids that `colidrv bench` feeds: xoshiro256** seeded with 1 through SplitMix64, modulo the vocabulary."""
    mask = (1 << 64) - 1
    state, seed = [], 1
    for _ in range(4):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        state.append(z ^ (z >> 31))
    rotl = lambda x, k: ((x << k) | (x >> (64 - k))) & mask
    ids = []
    for _ in range(n):
        ids.append(((rotl((state[1] * 5) & mask, 7) * 9) & mask) % n_vocab)
        t = (state[1] << 17) & mask
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= t
        state[3] = rotl(state[3], 45)
    return ids


def set_field(params, name, value):
    """ctypes would take any name and ignore it; versions differ in theirs."""
    if name not in [field[0] for field in params._fields_]:
        raise SystemExit(f"this llama-cpp-python has no {type(params).__name__}.{name}")
    setattr(params, name, value)


def rates(samples, tokens):
    tps = [tokens / s for s in samples]
    return {"tokens": tokens, "tps_median": statistics.median(tps), "tps_min": min(tps), "tps_max": max(tps), "n": len(tps), "samples": tps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--prefill", default="64,512")
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=8, help="tokens in front of those that are decoded")
    parser.add_argument("--discard", type=int, default=0, help="tokens decoded and not counted, first")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1, help="repeats before the first that counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mmap", action="store_true")
    parser.add_argument("--repack", action="store_true", help="let llama.cpp repack weights (a second copy under mmap)")
    parser.add_argument("--flash-attn", choices=["auto", "on", "off"], default="auto")
    args = parser.parse_args()
    lengths = [int(n) for n in args.prefill.split(",") if int(n)]

    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model_params = llama_cpp.llama_model_default_params()
    if hasattr(llama_cpp, "LLAMA_LOAD_MODE_MMAP"):
        set_field(model_params, "load_mode", llama_cpp.LLAMA_LOAD_MODE_MMAP if args.mmap else llama_cpp.LLAMA_LOAD_MODE_NONE)
    else:
        set_field(model_params, "use_mmap", args.mmap)
    set_field(model_params, "n_gpu_layers", 0)
    set_field(model_params, "use_extra_bufts", args.repack)
    start = time.perf_counter()
    model = llama_cpp.llama_model_load_from_file(args.model.encode(), model_params)
    if not model:
        raise SystemExit("llama.cpp cannot load " + args.model)
    load_seconds = time.perf_counter() - start
    params = llama_cpp.llama_context_default_params()
    for name, value in {"n_ctx": max(lengths + [args.decode + args.discard + args.prompt]) + 64, "n_batch": 512, "n_ubatch": 512,
                        "n_threads": args.threads, "n_threads_batch": args.threads, "no_perf": True,
                        "flash_attn_type": {"auto": -1, "off": 0, "on": 1}[args.flash_attn]}.items():
        set_field(params, name, value)
    context = llama_cpp.llama_init_from_model(model, params)
    vocab = llama_cpp.llama_model_get_vocab(model)
    n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
    memory = llama_cpp.llama_get_memory(context)

    def feed(ids):
        array = (llama_cpp.llama_token * len(ids))(*ids)
        batch = llama_cpp.llama_batch_get_one(array, len(ids))
        if llama_cpp.llama_decode(context, batch) != 0:
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_get_logits(context)[0]  # waits for the result

    out = {"peer": "llama.cpp through llama-cpp-python " + llama_cpp.__version__, "model": args.model, "threads": args.threads,
           "mmap": args.mmap, "repack": args.repack, "flash_attn": args.flash_attn, "load_seconds": load_seconds, "prefill": [], "decode": []}
    prefill = {n: [] for n in lengths}
    decode = []
    for repeat in range(args.warm_up + args.repeat):
        counts = repeat >= args.warm_up
        for n in lengths:
            ids = xoshiro_ids(n, n_vocab)
            llama_cpp.llama_memory_clear(memory, True)
            start = time.perf_counter()
            for at in range(0, n, 512):
                feed(ids[at:at + 512])
            if counts:
                prefill[n].append(time.perf_counter() - start)
        if args.decode:
            first = args.prompt + args.discard
            ids = xoshiro_ids(first + args.decode, n_vocab)
            llama_cpp.llama_memory_clear(memory, True)
            feed(ids[:args.prompt])
            for token in ids[args.prompt:first]:
                feed([token])
            start = time.perf_counter()
            for token in ids[first:]:
                feed([token])
            if counts:
                decode.append(time.perf_counter() - start)
    out["prefill"] = [rates(samples, n) for n, samples in prefill.items()]
    if decode:
        out["decode"] = [rates(decode, args.decode)]
    print(json.dumps(out))


if __name__ == "__main__":
    main()
