// SPDX-License-Identifier: Apache-2.0
// How near is streamed decode to the bound of its own disk and its own compute?
//
//   streamed_decode MODEL [--memory BYTES | --of-file SHARE | --expert-bytes BYTES] [--routes FILE] [--threads N]
//                   [--evict NAME] [--store NAME] [--io-depth N] [--prefetch N] [--layers]
//
// Protocol: 16 prompt ids, 64 tokens decoded and discarded, 64 measured on a clock that runs in decode steps only. The
// bound is 1 / (head + sum over layers of [trunk + max(compute of resident experts, missed bytes / disk rate) + compute
// of the last arrival]), token by token from this run's own misses; trunk and head are this run's medians, an expert's
// compute is that of layers in which nothing was missed (the last token is repeated for more of them), the disk rate the best of probes of the same store just before
// and just after and of what the run got while it was reading.
//
// --routes replays a recorded trace on the model's weights: who is chosen comes from the file, rank for rank, the weight
// of each rank from the model's own router. Layers are spread evenly over the recorded ones; experts and k must be equal
// (make the file so: --top-k 6); the 16 prompt tokens take the last 16 recorded ones; what the recording lacks (the
// prompt in the last layer) stays the router's choice.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "coli/core/sha256.hpp"
#include "coli/engine.hpp"
#include "coli/plan/decode_time.hpp"
#include "coli/profiles.hpp"
#include "driver/isa/select.hpp"
#include "recorded_routes.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using coli::ExpertId;
using coli::LayerId;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

constexpr std::uint32_t kPrompt = 16, kDiscarded = 64, kMeasured = 64;

/// What was chosen, by recorded token and layer; prompt tokens first.
class RouteTable {
 public:
  static std::optional<RouteTable> read(const std::string& path) {
    const auto trace = coli::test::read_recorded_route(path);
    if (!trace) return std::nullopt;
    RouteTable table(*trace);
    std::map<std::uint32_t, std::uint32_t> order[coli::kPhases];  // recorded token number -> place in its phase
    for (std::size_t i = 0; i < trace->n_rows(); ++i) order[static_cast<std::size_t>(trace->row(i).phase)].emplace(trace->row(i).token, 0);
    for (auto& phase : order) {
      std::uint32_t n = 0;
      for (auto& [token, place] : phase) place = n++;
    }
    table.n_prompt_ = static_cast<std::uint32_t>(order[0].size());
    table.rows_.resize((order[0].size() + order[1].size()) * trace->n_layers());
    for (std::size_t i = 0; i < trace->n_rows(); ++i) {
      const auto row = trace->row(i);
      const std::uint32_t token = order[static_cast<std::size_t>(row.phase)][row.token] + (row.phase == coli::Phase::decode ? table.n_prompt_ : 0);
      table.rows_[std::size_t{token} * table.n_layers_ + row.layer.value].assign(row.experts.begin(), row.experts.end());
    }
    return table;
  }

  std::uint32_t n_layers() const { return n_layers_; }
  std::uint32_t n_experts() const { return n_experts_; }
  std::uint32_t top_k() const { return top_k_; }
  std::uint32_t n_prompt() const { return n_prompt_; }
  std::uint32_t n_decoded() const { return static_cast<std::uint32_t>(rows_.size() / n_layers_) - n_prompt_; }
  /// Empty where the recording has nothing for it.
  const std::vector<ExpertId>& at(std::uint32_t layer, std::uint32_t token) const { return rows_[std::size_t{token} * n_layers_ + layer]; }

 private:
  explicit RouteTable(const coli::AccessTrace& trace) : n_layers_(trace.n_layers()), n_experts_(trace.n_experts()), top_k_(trace.top_k()) {}
  std::uint32_t n_layers_, n_experts_, top_k_, n_prompt_ = 0;
  std::vector<std::vector<ExpertId>> rows_;
};

/// Routes from the router or the table, and the time at which each layer knew them.
struct TimedRoutes {
  const RouteTable* table = nullptr;
  std::uint32_t n_model_layers = 1;
  std::vector<Clock::time_point> chosen;  // by layer
  coli::OwnRoutes own{};

  std::optional<std::uint32_t> choose(const coli::MoeLayer& layer, std::uint32_t first, std::uint32_t n, const float* logits, coli::Routing& routing) {
    const auto bad = own.choose(layer, first, n, logits, routing);
    if (table != nullptr && !bad) {
      const std::uint32_t recorded_layer = layer.id.value * table->n_layers() / n_model_layers;
      for (std::uint32_t t = 0; t < n; ++t) {
        const auto& row = table->at(recorded_layer, table->n_prompt() - kPrompt + first + t);
        if (!row.empty()) std::copy(row.begin(), row.end(), routing.ids.begin() + std::size_t{t} * routing.top_k);
      }
    }
    if (layer.id.value < chosen.size()) chosen[layer.id.value] = Clock::now();
    return bad;
  }
};

struct timed : coli::profiles::cpu {
  static constexpr coli::FixedName name{"cpu"};
  using Routes = TimedRoutes;
};
using Engine = coli::engine<timed>;

struct Options {
  std::string model, memory, routes, evict, store = "auto";
  double of_file = 0;
  std::uint64_t expert_bytes = 0;
  unsigned threads = 0, io_depth = 0;
  std::uint32_t prefetch = 0;
  bool layers = false, smoke = false;
};

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool has_value = i + 1 < argc;
    if (arg == "--smoke") o.smoke = true;
    else if (arg == "--layers") o.layers = true;
    else if (!arg.starts_with("--") && o.model.empty()) o.model = arg;
    else if (!has_value) return std::nullopt;
    else if (arg == "--memory") o.memory = argv[++i];
    else if (arg == "--of-file") o.of_file = std::atof(argv[++i]);
    else if (arg == "--expert-bytes") o.expert_bytes = std::strtoull(argv[++i], nullptr, 10);
    else if (arg == "--routes") o.routes = argv[++i];
    else if (arg == "--threads") o.threads = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (arg == "--io-depth") o.io_depth = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (arg == "--evict") o.evict = argv[++i];
    else if (arg == "--store") o.store = argv[++i];
    else if (arg == "--prefetch") o.prefetch = static_cast<std::uint32_t>(std::atoi(argv[++i]));
    else return std::nullopt;
  }
  if (o.smoke) {
    o.model = std::string(COLI_FIXTURES_DIR) + "/bard.gguf";
    o.expert_bytes = 3'000'000;
  }
  if (o.model.empty() || (!o.routes.empty() && o.prefetch != 0)) return std::nullopt;  // a guess of the router says nothing of a recording
  return o;
}

/// Bytes a second of reading experts as the engine does, many parts at once. The engine must be idle.
double probe_disk(Engine& engine) {
  auto& store = engine.store();
  const auto& h = engine.hyperparams();
  const coli::StoreAlignment alignment = store.alignment();
  if (!alignment.copies()) return 0;
  const auto& tensors = engine.tensors();
  std::uint64_t largest = 0;
  std::vector<std::uint32_t> layers;
  for (std::uint32_t l = 0; l < h.n_layers; ++l) {
    if (!tensors.layers[l].is_moe()) continue;
    layers.push_back(l);
    for (const auto* t : {&tensors.layers[l].gate, &tensors.layers[l].up, &tensors.layers[l].down}) largest = std::max(largest, t->bytes().value);
  }
  constexpr std::size_t kWindow = 24;
  const std::size_t each = (largest + alignment.slack + 4095) / 4096 * 4096;
  // Huge pages, as the engine's own buffers have: under a hypervisor each page of a read costs the host work, and the rate
  // into scattered 4 KiB pages is a third of it.
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t bytes = (each * kWindow + kHugePage - 1) / kHugePage * kHugePage;
  std::unique_ptr<std::byte, void (*)(void*)> memory(static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes)), std::free);
  (void)::madvise(memory.get(), bytes, MADV_HUGEPAGE);
  std::memset(memory.get(), 0, bytes);
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < kWindow; ++i) free.push_back(i);
  std::map<std::uint64_t, std::pair<std::size_t, std::uint64_t>> under_way;
  const std::uint64_t wanted = std::min<std::uint64_t>(400'000'000, largest * kWindow * 20);
  std::uint64_t asked = 0, read = 0, state = 12345;
  const auto start = Clock::now();
  while (asked < wanted || !under_way.empty()) {
    while (asked < wanted && free.size() >= coli::kParts) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const std::uint32_t l = layers[(state >> 33) % layers.size()];
      const coli::ExpertKey key{LayerId{l}, ExpertId{static_cast<std::uint32_t>((state >> 40) % h.n_experts)}};
      for (std::size_t p = 0; p < coli::kParts; ++p) {
        const auto& t = p == 0 ? tensors.layers[l].gate : p == 1 ? tensors.layers[l].up : tensors.layers[l].down;
        const std::size_t buffer = free.back();
        const auto ticket = store.submit(key, static_cast<coli::Part>(p), {memory.get() + buffer * each, each}, coli::Urgency::demand);
        if (!ticket) return 0;
        free.pop_back();
        under_way[ticket->value] = {buffer, t.bytes().value};
        asked += t.bytes().value;
      }
    }
    auto completion = store.wait(std::chrono::milliseconds(100));
    if (!completion) continue;
    const auto at = under_way.find(completion->ticket.value);
    if (at == under_way.end()) continue;
    if (completion->data) read += at->second.second;
    free.push_back(at->second.first);
    under_way.erase(at);
  }
  return static_cast<double>(read) / seconds(Clock::now() - start);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

int fail(const std::string& why) {
  std::fprintf(stderr, "streamed_decode: %s\n", why.c_str());
  return 1;
}

int run(const Options& o) {
  coli::EngineOptions options;
  options.threads = o.threads;
  options.context = 256;
  options.chunk = 64;
  options.prefetch = o.prefetch;
  options.evict = o.evict;
  const auto kind = coli::parse_store_kind(o.store);
  if (!kind) return fail("unknown store " + o.store);
  options.store.kind = *kind;
  options.store.depth = o.io_depth;
  if (!o.memory.empty()) options.memory = coli::parse_bytes(o.memory);
  if (o.of_file > 0) options.memory = coli::Bytes{static_cast<std::uint64_t>(o.of_file * static_cast<double>(std::filesystem::file_size(o.model)))};
  if (o.expert_bytes != 0) options.expert_bytes = coli::Bytes{o.expert_bytes};
  const auto isa = colidrv::select_isa();
  if (!isa) {
    std::printf("SKIP: %s\n", isa.error().line().c_str());
    return 0;
  }
  auto opened = Engine::open(o.model, options, coli::SimdKernels(**isa));
  if (!opened) return fail(opened.error().line());
  Engine& engine = *opened;
  const auto& h = engine.hyperparams();

  std::optional<RouteTable> table;
  if (!o.routes.empty()) {
    table = RouteTable::read(o.routes);
    if (!table) return fail(o.routes + " is no recorded route");
    if (table->n_experts() != h.n_experts || table->top_k() != h.top_k || table->n_layers() < h.n_layers)
      return fail("the recording has k = " + std::to_string(table->top_k()) + " of " + std::to_string(table->n_experts()) + " experts in " + std::to_string(table->n_layers()) +
                  " layers, the model k = " + std::to_string(h.top_k) + " of " + std::to_string(h.n_experts) + " in " + std::to_string(h.n_layers) +
                  ": experts and k must be equal, layers at least as many (make_synthetic --top-k)");
    if (table->n_prompt() < kPrompt || table->n_decoded() < kDiscarded + kMeasured) return fail("the recording is too short");
    engine.routes().table = &*table;
  }
  engine.routes().n_model_layers = h.n_layers;
  engine.routes().chosen.resize(h.n_layers);

  // Warm up.
  std::vector<coli::TokenId> prompt;
  for (std::uint32_t i = 0; i < kPrompt; ++i) prompt.push_back(coli::TokenId{static_cast<std::int32_t>((i * 37 + 11) % 250)});
  auto logits = engine.prefill(prompt);
  if (!logits) return fail(logits.error().line());
  const auto next = [&] { return coli::top_two(*logits)->best; };
  coli::TokenId token = next();
  for (std::uint32_t i = 0; i < kDiscarded; ++i) {
    logits = engine.step(token);
    if (!logits) return fail(logits.error().line());
    token = next();
  }
  const bool streams = engine.stats().cache.misses != 0;
  const double disk_before = streams ? probe_disk(engine) : 0;

  // Measure.
  std::vector<Clock::time_point> ended(h.n_layers);
  engine.observer().on_hidden = [&](LayerId l, std::uint32_t, std::span<const float>) { ended[l.value] = Clock::now(); };
  struct Sample {
    std::vector<double> trunk, experts;  // seconds by layer
    std::vector<std::uint32_t> missed;
    double head = 0;
  };
  std::vector<Sample> samples;
  const coli::CacheStats before = engine.stats(true).cache;
  std::vector<coli::LayerStats> seen = before.layers;
  coli::Sha256 hash;
  double decode_seconds = 0;
  for (std::uint32_t i = 0; i < kMeasured; ++i) {
    const auto start = Clock::now();
    logits = engine.step(token);
    const auto end = Clock::now();
    if (!logits) return fail(logits.error().line());
    decode_seconds += seconds(end - start);
    hash.update_values(*logits);
    token = next();
    Sample& s = samples.emplace_back();
    auto from = start;
    const coli::CacheStats now = engine.stats(true).cache;
    for (std::uint32_t l = 0; l < h.n_layers; ++l) {
      const bool is_moe = engine.tensors().layers[l].is_moe();
      const auto middle = is_moe ? engine.routes().chosen[l] : ended[l];
      s.trunk.push_back(seconds(middle - from));
      s.experts.push_back(seconds(ended[l] - middle));
      s.missed.push_back(static_cast<std::uint32_t>(now.layers[l].misses - seen[l].misses));
      from = ended[l];
    }
    s.head = seconds(end - from);
    seen = now.layers;
  }
  const coli::CacheStats after = engine.stats(true).cache;
  // A shared disk lends bursts after idle moments: what the engine itself got while reading counts too.
  const double got = after.read_seconds > before.read_seconds ? static_cast<double>(after.bytes_read - before.bytes_read) / (after.read_seconds - before.read_seconds) : 0;
  const double probed = streams ? std::max(disk_before, probe_disk(engine)) : 0;
  const double disk = std::max(probed, got);

  // Layers without a miss say what an expert's compute takes. Where the run had few, the last token again and again: its
  // experts are at hand, if a cache of more than a token's experts is.
  constexpr std::uint32_t kAgain = 12;
  std::vector<Sample> again;
  for (std::uint32_t i = 0; i < kAgain; ++i) {
    if (!engine.truncate(engine.position() - 1)) break;
    const coli::CacheStats old = engine.stats(true).cache;
    if (!engine.step(token)) break;
    const coli::CacheStats now = engine.stats(true).cache;
    Sample& s = again.emplace_back();
    for (std::uint32_t l = 0; l < h.n_layers; ++l) {
      const bool is_moe = engine.tensors().layers[l].is_moe();
      s.experts.push_back(is_moe ? seconds(ended[l] - engine.routes().chosen[l]) : 0);
      s.missed.push_back(static_cast<std::uint32_t>(now.layers[l].misses - old.layers[l].misses));
    }
  }

  // The bound, from what was seen.
  const auto bytes_of = [&](std::uint32_t l) {
    const auto& t = engine.tensors().layers[l];
    return t.is_moe() ? (t.gate.bytes() + t.up.bytes() + t.down.bytes()).value : 0;
  };
  std::map<std::uint64_t, std::vector<double>> of_size;  // an expert's compute, by its bytes: layers without a miss
  std::vector<double> of_any;
  for (const auto* list : {&samples, &again})
    for (const Sample& s : *list)
      for (std::uint32_t l = 0; l < h.n_layers; ++l)
        if (bytes_of(l) != 0 && s.missed[l] == 0) {
          of_size[bytes_of(l)].push_back(s.experts[l] / h.top_k);
          of_any.push_back(s.experts[l] / h.top_k / static_cast<double>(bytes_of(l)));
        }
  const auto expert_seconds = [&](std::uint64_t bytes) {
    const auto at = of_size.find(bytes);
    if (at != of_size.end() && at->second.size() >= 5) return median(at->second);
    return of_any.size() < 5 ? 0 : median(of_any) * static_cast<double>(bytes);
  };
  std::vector<double> heads;
  std::vector<std::vector<double>> trunks(h.n_layers);
  for (const Sample& s : samples) {
    heads.push_back(s.head);
    for (std::uint32_t l = 0; l < h.n_layers; ++l) trunks[l].push_back(s.trunk[l]);
  }
  coli::DecodeTime bound;
  double resident = 0;  // seconds of a token with nothing missed
  for (const Sample& s : samples) {
    std::vector<coli::LayerLoad> loads;
    for (std::uint32_t l = 0; l < h.n_layers; ++l) {
      const std::uint64_t bytes = bytes_of(l);
      const std::uint32_t k = bytes == 0 ? 0 : h.top_k;
      loads.push_back({median(trunks[l]), bytes == 0 ? 0 : expert_seconds(bytes), static_cast<double>(bytes), k - s.missed[l], s.missed[l]});
    }
    bound += coli::token_time(median(heads), loads, std::max(disk, 1.0));
    for (coli::LayerLoad& load : loads) load.resident += std::exchange(load.missed, 0);
    resident += coli::token_time(median(heads), loads, 1).seconds();
  }

  const double rate = kMeasured / decode_seconds;
  const double bound_rate = kMeasured / bound.seconds();
  const std::uint64_t hits = after.hits - before.hits, misses = after.misses - before.misses;
  const double missed_bytes = static_cast<double>(after.bytes_read - before.bytes_read) / kMeasured;
  std::printf("%s: %s, %u threads, %llu slots, routes %s, k = %u, policy %.*s, store %.*s, prefetch %u\n", o.model.c_str(), std::string((*isa)->isa).c_str(), engine.threads(),
              static_cast<unsigned long long>(engine.stats().slots), table ? o.routes.c_str() : "of the model's router", h.top_k, static_cast<int>(engine.stats().policy.size()),
              engine.stats().policy.data(), static_cast<int>(engine.stats().store.size()), engine.stats().store.data(), o.prefetch);
  std::printf("hits %.1f %%, %.1f MB read a token, waited %.2f ms, fill %.2f thread-ms, disk %.2f GB/s (probe), %.2f (while reading)\n",
              100.0 * static_cast<double>(hits) / static_cast<double>(std::max<std::uint64_t>(hits + misses, 1)), missed_bytes / 1e6, 1e3 * (after.wait_seconds - before.wait_seconds) / kMeasured,
              1e3 * (after.fill_seconds - before.fill_seconds) / kMeasured, probed / 1e9, got / 1e9);
  std::printf("prefetch issued %llu useful %llu late %llu wasted %llu\n", static_cast<unsigned long long>(after.prefetch.issued - before.prefetch.issued),
              static_cast<unsigned long long>(after.prefetch.useful - before.prefetch.useful), static_cast<unsigned long long>(after.prefetch.late - before.prefetch.late),
              static_cast<unsigned long long>(after.prefetch.wasted - before.prefetch.wasted));
  std::printf("decode %.2f tok/s, bound %.2f: %.1f %%; all resident %.2f (estimate), disk alone %.2f; logits %.16s\n", rate, bound_rate, 100 * rate / bound_rate, kMeasured / resident,
              missed_bytes > 0 ? disk / missed_bytes : 0.0, hash.hex().c_str());
  if (of_any.size() < 5) std::printf("too few layers without a miss to time an expert: the bound counts its compute as nothing\n");
  if (o.layers) {
    std::printf("missed in a layer   layers a token   experts us   bound us\n");
    for (std::uint32_t missed = 0; missed <= h.top_k; ++missed) {
      double n = 0, took = 0, allowed = 0;
      for (const Sample& s : samples)
        for (std::uint32_t l = 0; l < h.n_layers; ++l) {
          if (bytes_of(l) == 0 || s.missed[l] != missed) continue;
          n += 1, took += s.experts[l];
          allowed += coli::layer_time({0, expert_seconds(bytes_of(l)), static_cast<double>(bytes_of(l)), h.top_k - missed, missed}, std::max(disk, 1.0)).seconds();
        }
      if (n != 0) std::printf("%17u   %14.2f   %10.0f   %8.0f\n", missed, n / kMeasured, 1e6 * took / n, 1e6 * allowed / n);
    }
    std::printf("head us %.0f (median %.0f)\nlayer  trunk us (median)  experts us  bound us  missed\n", 1e6 * mean(heads), 1e6 * median(heads));
    for (std::uint32_t l = 0; l < h.n_layers; ++l) {
      double experts = 0, missed = 0, allowed = 0;
      for (const Sample& s : samples) {
        experts += s.experts[l], missed += s.missed[l];
        const std::uint64_t bytes = bytes_of(l);
        if (bytes != 0) allowed += coli::layer_time({0, expert_seconds(bytes), static_cast<double>(bytes), h.top_k - s.missed[l], s.missed[l]}, std::max(disk, 1.0)).seconds();
      }
      std::printf("%5u  %8.0f  %7.0f  %10.0f  %8.0f  %6.2f\n", l, 1e6 * mean(trunks[l]), 1e6 * median(trunks[l]), 1e6 * experts / kMeasured, 1e6 * allowed / kMeasured, missed / kMeasured);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return fail("streamed_decode MODEL [--memory BYTES | --of-file SHARE | --expert-bytes BYTES] [--routes FILE] [--threads N] [--evict NAME] [--store NAME] [--io-depth N] [--prefetch N] [--layers]; --routes goes without --prefetch");
  return run(*options);
}
