// SPDX-License-Identifier: Apache-2.0
// How near to what this machine can do is each kernel, on each instruction set that it runs?
//
//   kernels_bench [--smoke] [--threads N] [--repeat N] [--only TEXT] [--isa NAME] [--json FILE]
// A kernel's time counts only if its results are the same bits on every instruction set. Rounds are interleaved: every
// instruction set and the limits take part in each. Limits: "memory" is the best read loop over a buffer far larger than
// any cache (all threads), "cache" the best over 256 KiB (one thread), "copy" a memcpy between such buffers (all
// threads). Bytes are those of the operands, each counted once. --smoke: small and short, for correctness alone.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/thread_pool.hpp"
#include "coli/kernels/simd/attend.hpp"
#include "coli/kernels/simd/kernel_table.hpp"
#include "coli/plan/cpus.hpp"
#include "coli/plan/read_bandwidth.hpp"
#include "conformance/kernels/simd_matrix.hpp"
#include "driver/build_info.hpp"
#include "driver/isa/select.hpp"

namespace {

using namespace coli;
using simd::KernelTable;

struct Options {
  bool smoke = false;
  unsigned threads = 0;
  unsigned repeat = 5;
  std::string only, isa, json;
};

enum class Limit { memory, cache, copy };
constexpr const char* name_of(Limit limit) { return limit == Limit::memory ? "memory" : limit == Limit::cache ? "cache" : "copy"; }

/// One kernel at one size. `run` computes everything once; `results` are what it left.
struct Case {
  std::string name;    // "matmul Q4_K, 1 column"
  double bytes;        // moved by one run
  double macs;         // multiply-adds of one run; 0 where nobody counts them
  Limit limit;
  std::function<void(const KernelTable&)> run;
  std::function<std::uint64_t()> results;
};

std::uint64_t digest(const void* data, std::size_t bytes) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < bytes; ++i) value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
  return value;
}
std::uint64_t digest(const std::vector<float>& x) { return digest(x.data(), x.size() * sizeof(float)); }

struct Bench {
  Options options;
  ThreadPool pool;
  std::vector<const KernelTable*> tables;
  std::size_t large;  // bytes that no cache holds
  std::vector<Case> cases;

  explicit Bench(const Options& o) : options(o), pool(o.threads != 0 ? o.threads : available_cores()), large(o.smoke ? 4U << 20 : 256U << 20) {
    for (const colidrv::IsaEntry& isa : colidrv::isas())
      if (isa.runs_here() && (o.isa.empty() || o.isa == isa.name)) tables.push_back(&isa.table());
  }
  bool wanted(const std::string& name) const { return options.only.empty() || name.find(options.only) != std::string::npos; }
  template <class Make>
  void add(const std::string& name, Make make) {
    if (wanted(name)) cases.push_back(make());
  }
};

//--- products: memory-bound with few columns, bound by arithmetic with many ---------------------------------------------

/// A prepared matrix of about `bytes`: one random piece of rows, repeated.
template <class F>
struct BigMatrix {
  static constexpr std::size_t kCols = 2048, kPiece = 256;
  std::size_t n_rows;
  std::vector<std::byte> bytes;

  BigMatrix(const KernelTable& table, Format format, std::size_t wanted_bytes) {
    const std::size_t row_bytes = simd::bytes_of_row<F>(kCols), piece = kPiece * row_bytes;
    const std::vector<std::byte> plain = test::test_matrix<F>(kPiece, kCols, 7);
    std::vector<std::byte> prepared(piece);
    table.matmul[static_cast<std::size_t>(format)].prepare(plain.data(), kPiece, kCols, prepared.data());
    n_rows = std::max<std::size_t>(wanted_bytes / piece, 1) * kPiece;
    for (std::size_t row = 0; row < n_rows; row += kPiece) bytes.insert(bytes.end(), prepared.begin(), prepared.end());
  }
};

void multiply_rows(const simd::MatmulKernel& k, Format format, const simd::Rows& rows, const std::vector<test::Column>& columns, std::size_t n,
                   float* const* out) {
  constexpr std::size_t kStretch = 64;  // as the backend does: their activations stay in cache while the rows pass
  const simd::Q8Block* q8[kStretch];
  const float* f32[kStretch];
  for (std::size_t first = 0; first < n; first += kStretch) {
    const std::size_t m = std::min(kStretch, n - first);
    for (std::size_t c = 0; c < m; ++c) q8[c] = columns[first + c].quantised.data(), f32[c] = columns[first + c].values.data();
    if (k.q8 != nullptr) k.q8(rows, q8, m, out + first);
    else if (k.f32 != nullptr) k.f32(rows, f32, m, out + first);
    else k.decoded(rows, simd::decoded_format(format), f32, m, out + first);
  }
}

template <class F>
void add_products(Bench& bench, Format format) {
  const bool generic = bench.tables.front()->matmul[static_cast<std::size_t>(format)].decoded != nullptr;
  std::shared_ptr<BigMatrix<F>> streamed, cached;
  for (const std::size_t n : {1, 2, 3, 4, 5, 6, 7, 8, 64, 512}) {
    const bool many = n > 8;
    if (generic && n != 1 && n != 8) continue;
    if (bench.options.smoke && n != 1 && n != 3 && n != 8 && n != 64) continue;
    const std::string name = std::string("matmul ") + F::name.text + ", " + std::to_string(n) + (n == 1 ? " column" : " columns") + (generic ? " (generic)" : "");
    bench.add(name, [&] {
      std::shared_ptr<BigMatrix<F>>& m = many ? cached : streamed;
      const std::size_t bytes = generic ? bench.large / 16 : many ? std::min<std::size_t>(bench.large, 8U << 20) : bench.large;
      if (m == nullptr) m = std::make_shared<BigMatrix<F>>(*bench.tables.front(), format, bytes);
      auto columns = std::make_shared<std::vector<test::Column>>();
      for (std::size_t c = 0; c < n; ++c) columns->emplace_back(*bench.tables.front(), test::random_floats(m->kCols, static_cast<unsigned>(c)));
      auto y = std::make_shared<std::vector<float>>(n * m->n_rows);
      ThreadPool* pool = &bench.pool;
      const auto run = [=, matrix = m](const KernelTable& table) {
        constexpr std::size_t kRows = BigMatrix<F>::kPiece;
        std::vector<float*> out(n);
        for (std::size_t c = 0; c < n; ++c) out[c] = y->data() + c * matrix->n_rows;
        pool->for_each(matrix->n_rows / kRows, [&](std::size_t task, unsigned) {
          multiply_rows(table.matmul[static_cast<std::size_t>(format)], format,
                        {matrix->bytes.data(), Layout::prepared, matrix->n_rows, matrix->kCols, task * kRows, (task + 1) * kRows}, *columns, n, out.data());
        });
      };
      const double weights = static_cast<double>(m->n_rows * m->kCols);
      return Case{name, static_cast<double>(m->bytes.size()), weights * static_cast<double>(n), Limit::memory, run, [y] { return digest(*y); }};
    });
  }
  if (!simd::has_tile<F>) return;
  const std::string name = std::string("prepare ") + F::name.text;
  bench.add(name, [&] {
    auto plain = std::make_shared<std::vector<std::byte>>(BigMatrix<F>(*bench.tables.front(), format, bench.large / 4).bytes);  // any bytes do
    auto prepared = std::make_shared<std::vector<std::byte>>(plain->size());
    ThreadPool* pool = &bench.pool;
    const auto run = [=](const KernelTable& table) {
      constexpr std::size_t kRows = BigMatrix<F>::kPiece;
      const std::size_t piece = kRows * simd::bytes_of_row<F>(BigMatrix<F>::kCols);
      pool->for_each(plain->size() / piece, [&](std::size_t task, unsigned) {
        table.matmul[static_cast<std::size_t>(format)].prepare(plain->data() + task * piece, kRows, BigMatrix<F>::kCols, prepared->data() + task * piece);
      });
    };
    return Case{name, static_cast<double>(plain->size()), 0, Limit::copy, run,
                [prepared] { return digest(prepared->data(), std::min<std::size_t>(prepared->size(), 4U << 20)); }};
  });
}

//--- attention over a cache of keys and values -----------------------------------------------------------------------

void add_attention(Bench& bench, bool f16) {
  const std::string name = std::string("attend ") + (f16 ? "f16" : "f32") + ", 8 queries a KV head of 128";
  bench.add(name, [&] {
    constexpr std::size_t kHeadDim = 128, kHeads = 4, kQueries = 8;
    const std::size_t value_bytes = f16 ? 2 : 4, n_positions = bench.options.smoke ? 300 : 32768;
    const std::size_t head_bytes = n_positions * kHeadDim * value_bytes;
    auto cache = std::make_shared<std::vector<std::byte>>(2 * kHeads * head_bytes);
    const std::vector<float> values = test::random_floats(n_positions * kHeadDim, 3);
    for (std::size_t h = 0; h < 2 * kHeads; ++h) {
      if (f16) bench.tables.front()->write_f16(values.data(), values.size(), cache->data() + h * head_bytes);
      else std::memcpy(cache->data() + h * head_bytes, values.data(), head_bytes);
    }
    auto queries = std::make_shared<std::vector<float>>(test::random_floats(kHeads * kQueries * kHeadDim, 4));
    auto out = std::make_shared<std::vector<float>>(queries->size());
    ThreadPool* pool = &bench.pool;
    const auto run = [=](const KernelTable& table) {
      pool->for_each(kHeads, [&](std::size_t h, unsigned) {
        const std::byte* keys = cache->data() + 2 * h * head_bytes;
        const std::size_t at = h * kQueries * kHeadDim;
        (f16 ? table.attend_f16 : table.attend_f32)({queries->data() + at, keys, keys + head_bytes, 1, kQueries, 0, n_positions, kHeadDim, 0.088F, out->data() + at});
      });
    };
    return Case{name, static_cast<double>(cache->size()), static_cast<double>(2 * kHeads * kQueries * n_positions * kHeadDim), Limit::memory, run,
                [out] { return digest(*out); }};
  });
}

//--- vectors: one thread, operands in cache ----------------------------------------------------------------------------

/// `call(table, y)` on one vector; repeated until a run takes about 100 microseconds.
template <class Call>
void add_vector(Bench& bench, const std::string& name, double bytes, std::size_t n_out, Call call) {
  bench.add(name, [&] {
    auto y = std::make_shared<std::vector<float>>(n_out);
    const int times = std::max(1, static_cast<int>(1e6 / bytes));
    const auto run = [=](const KernelTable& table) {
      for (int i = 0; i < times; ++i) call(table, y->data());
    };
    return Case{name, bytes * times, 0, Limit::cache, run, [y] { return digest(*y); }};
  });
}

void add_vectors(Bench& bench) {
  const auto floats = [](std::size_t n, unsigned seed) { return std::make_shared<std::vector<float>>(test::random_floats(n, seed)); };
  const auto x = floats(16384, 1), w = floats(16384, 2);
  const auto scores = floats(151936, 3);
  add_vector(bench, "rmsnorm 2048", 12 * 2048, 2048, [=](const KernelTable& t, float* y) { t.rmsnorm(x->data(), w->data(), 2048, 1e-6F, y); });
  add_vector(bench, "quantise 2048", 4 * 2048 + 3072, 8 * sizeof(simd::Q8Block) / 4, [=](const KernelTable& t, float* y) {
    alignas(64) static simd::Q8Block blocks[8];
    t.quantise(x->data(), 2048, blocks);
    std::memcpy(y, blocks, sizeof blocks);
  });
  add_vector(bench, "rope, 32 heads of 128", 8 * 4096 + 512, 4096, [=](const KernelTable& t, float* y) {
    std::memcpy(y, x->data(), 4096 * 4);  // in place: without it the values would grow
    for (std::size_t h = 0; h < 32; ++h) t.rope(y + h * 128, w->data(), 128);
  });
  add_vector(bench, "swiglu 768", 12 * 768, 768, [=](const KernelTable& t, float* y) { t.swiglu(x->data(), w->data(), 768, y); });
  add_vector(bench, "softmax 128", 8 * 128, 128, [=](const KernelTable& t, float* y) { t.softmax(x->data(), 128, y); });
  add_vector(bench, "softmax 16384", 8 * 16384, 16384, [=](const KernelTable& t, float* y) { t.softmax(x->data(), 16384, y); });
  add_vector(bench, "top-k, 8 of 128", 4 * 128, 8, [=](const KernelTable& t, float* y) {
    std::uint32_t ids[8];
    (void)t.top_k(x->data(), 128, 8, ids);
    for (int i = 0; i < 8; ++i) y[i] = static_cast<float>(ids[i]);
  });
  add_vector(bench, "argmax 151936", 4.0 * 151936, 1, [=](const KernelTable& t, float* y) { *y = static_cast<float>(t.argmax(scores->data(), scores->size())); });
  add_vector(bench, "add 2048", 12 * 2048, 2048, [=](const KernelTable& t, float* y) {
    std::memcpy(y, x->data(), 2048 * 4);
    t.add(w->data(), 2048, y);
  });
  add_vector(bench, "add_weighted, 8 of 2048", 4 * 10 * 2048, 2048, [=](const KernelTable& t, float* y) {
    std::memcpy(y, x->data(), 2048 * 4);
    t.add_weighted(w->data(), x->data(), 8, 2048, y);
  });
  add_vector(bench, "write_f16 2048", 6 * 2048, 1024, [=](const KernelTable& t, float* y) { t.write_f16(x->data(), 2048, reinterpret_cast<std::byte*>(y)); });
}

//--- limits ------------------------------------------------------------------------------------------------------------

struct Limits {
  PagedMemory huge, small, cached;
  ReadBandwidth memory, cache;
  double best[3] = {0, 0, 0};  // by Limit

  Limits(const Bench& bench, std::size_t bytes) : huge(bytes, true), small(bytes, false), cached(4U << 20, true) {
    for (const KernelTable* table : bench.tables) {
      memory.add(table->read, {huge.bytes()}, std::string("huge pages, ") + table->isa);
      memory.add(table->read, {small.bytes()}, std::string("small pages, ") + table->isa);
    }
  }
  void measure(Bench& bench, std::uint64_t bytes) {
    const auto keep = [&](Limit limit, double rate) { best[static_cast<int>(limit)] = std::max(best[static_cast<int>(limit)], rate); };
    keep(Limit::memory, memory.measure(bench.pool, bytes));
    constexpr std::size_t kInCache = 256U << 10;
    for (const KernelTable* table : bench.tables)
      for (const ReadLoop loop : table->read) {
        std::uint32_t sum = 0;
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 64; ++i) sum += loop(cached.bytes().data(), kInCache);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        asm volatile("" : : "r"(sum));
        keep(Limit::cache, 64.0 * kInCache / seconds);
      }
    constexpr std::size_t kPiece = 1U << 20;
    const std::size_t n = std::min(huge.bytes().size(), std::size_t{256} << 20) / kPiece;
    const auto start = std::chrono::steady_clock::now();
    bench.pool.for_each(n, [&](std::size_t task, unsigned) { std::memcpy(small.bytes().data() + task * kPiece, huge.bytes().data() + task * kPiece, kPiece); });
    keep(Limit::copy, static_cast<double>(n * kPiece) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--smoke") {
      o.smoke = true;
      o.repeat = 1;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    const std::string value = argv[++i];
    if (word == "--threads") o.threads = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    else if (word == "--repeat") o.repeat = std::max(1U, static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10)));
    else if (word == "--only") o.only = value;
    else if (word == "--isa") o.isa = value;
    else if (word == "--json") o.json = value;
    else return std::nullopt;
  }
  return o;
}

bool write_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".tmp." + std::to_string(::getpid());
  std::ofstream(part) << text << '\n';
  return std::rename(part.c_str(), path.c_str()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) return std::fprintf(stderr, "usage: kernels_bench [--smoke] [--threads N] [--repeat N] [--only TEXT] [--isa NAME] [--json FILE]\n"), 2;
  Bench bench(*options);
  if (bench.tables.empty()) return std::puts("SKIP: kernels_bench: no instruction set of this build runs here"), 0;
  test::for_each_format([&]<class F>(Format format) { add_products<F>(bench, format); });
  for (const bool f16 : {true, false}) add_attention(bench, f16);
  add_vectors(bench);
  if (bench.cases.empty()) return std::fprintf(stderr, "kernels_bench: no kernel's name holds '%s'\n", options->only.c_str()), 2;

  using Json = nlohmann::ordered_json;
  std::string isas;
  for (const KernelTable* table : bench.tables) isas += (isas.empty() ? "" : ", ") + std::string(table->isa);
  Json out{{"cpu", colidrv::cpu_model()}, {"threads", bench.pool.n_workers()}, {"isas", isas}, {"compiler", colidrv::build_compiler()},
           {"flags", COLI_BENCH_FLAGS}, {"commit", colidrv::build_commit()}, {"repeat", options->repeat}, {"kernels", Json::array()}};
  std::printf("%s, %u threads; %s; %s, commit %s\nflags: %s\n", colidrv::cpu_model().c_str(), bench.pool.n_workers(), isas.c_str(),
              colidrv::build_compiler().c_str(), colidrv::build_commit().c_str(), COLI_BENCH_FLAGS);

  Limits limits(bench, options->smoke ? bench.large : std::size_t{2} << 30);
  const std::size_t n_tables = bench.tables.size();
  std::vector<std::vector<std::vector<double>>> seconds(bench.cases.size(), std::vector<std::vector<double>>(n_tables));
  bool same = true;
  for (unsigned round = 0; round <= options->repeat; ++round) {  // 0 warms up, and compares results
    limits.measure(bench, options->smoke ? bench.large : std::size_t{4} << 30);
    for (std::size_t c = 0; c < bench.cases.size(); ++c) {
      std::optional<std::uint64_t> wanted;
      for (std::size_t t = 0; t < n_tables; ++t) {
        const auto start = std::chrono::steady_clock::now();
        bench.cases[c].run(*bench.tables[t]);
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (round != 0) {
          seconds[c][t].push_back(took);
          continue;
        }
        const std::uint64_t result = bench.cases[c].results();
        if (wanted && *wanted != result) {
          std::fprintf(stderr, "kernels_bench: %s: %s computes other bits than %s\n", bench.cases[c].name.c_str(), bench.tables[t]->isa, bench.tables[0]->isa);
          same = false;
        }
        wanted = result;
      }
    }
  }
  if (!same) return 1;

  std::printf("limits, best of all rounds: memory %.1f GB/s, cache %.1f GB/s, copy %.1f GB/s\n", limits.best[0] / 1e9, limits.best[1] / 1e9, limits.best[2] / 1e9);
  for (const Limit limit : {Limit::memory, Limit::cache, Limit::copy}) out["limits_gbs"][name_of(limit)] = limits.best[static_cast<int>(limit)] / 1e9;
  for (const auto& arm : limits.memory.arms()) out["read_loops"].push_back({{"loop", arm.name}, {"gbs", arm.best / 1e9}});
  std::printf("%-46s %-12s %8s %17s %9s %9s\n", "kernel", "isa", "GB/s", "(range)", "of limit", "GMAC/s");
  for (std::size_t c = 0; c < bench.cases.size(); ++c)
    for (std::size_t t = 0; t < n_tables; ++t) {
      const Case& kernel = bench.cases[c];
      const auto& times = seconds[c][t];
      const auto [least, most] = std::minmax_element(times.begin(), times.end());
      const double middle = median(times), rate = kernel.bytes / middle, fraction = rate / limits.best[static_cast<int>(kernel.limit)];
      char macs[16] = "";
      if (kernel.macs > 0) std::snprintf(macs, sizeof macs, "%.1f", kernel.macs / middle / 1e9);
      std::printf("%-46s %-12s %8.2f (%6.2f to %6.2f) %4.2f %-6s %7s\n", kernel.name.c_str(), bench.tables[t]->isa, rate / 1e9, kernel.bytes / *most / 1e9,
                  kernel.bytes / *least / 1e9, fraction, name_of(kernel.limit), macs);
      out["kernels"].push_back({{"kernel", kernel.name}, {"isa", bench.tables[t]->isa}, {"gbs_median", rate / 1e9}, {"gbs_min", kernel.bytes / *most / 1e9},
                                {"gbs_max", kernel.bytes / *least / 1e9}, {"n", times.size()}, {"limit", name_of(kernel.limit)}, {"fraction_of_limit", fraction},
                                {"gmacs", kernel.macs / middle / 1e9}});
    }
  if (!options->json.empty() && !write_file(options->json, out.dump(2))) return std::fprintf(stderr, "kernels_bench: cannot write %s\n", options->json.c_str()), 8;
  return 0;
}
