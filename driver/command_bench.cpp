// SPDX-License-Identifier: Apache-2.0
// colidrv bench: prefill and decode rates, beside the rate at which this machine reads memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "coli/core/thread_pool.hpp"
#include "coli/model/geometry.hpp"
#include "coli/plan/memory.hpp"
#include "coli/plan/read_bandwidth.hpp"
#include "coli/sample/rng.hpp"
#include "driver/build_info.hpp"
#include "driver/commands.hpp"
#include "driver/isa/select.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"

namespace colidrv {
namespace {

struct BenchOptions {
  ModelOptions model;
  std::vector<std::uint32_t> prefill{64, 512};
  std::vector<std::uint32_t> decode{64};
  std::uint32_t repeat = 5;
  std::uint32_t warm_up = 1;
  std::uint32_t prompt = 8;
  std::uint32_t discard = 0;
  bool no_bandwidth = false;
  std::string json;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  return (samples[(n - 1) / 2] + samples[n / 2]) / 2;
}

/// Pseudo-random ids, the same for every run: routing is then spread as on unrelated text.
std::vector<coli::TokenId> some_ids(std::size_t n, std::uint32_t n_vocab) {
  coli::Rng rng(1);
  std::vector<coli::TokenId> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(coli::TokenId{static_cast<std::int32_t>(rng.next() % n_vocab)});
  return ids;
}

/// What the measured part asked of a device.
struct DeviceUse {
  std::uint64_t launches = 0, replays = 0, nodes = 0, hits = 0, misses = 0, uploaded_bytes = 0;
  std::vector<coli::BodyTime> bodies{};

  void add(const coli::DeviceTierStats& before, const coli::DeviceTierStats& after) {
    launches += after.work.launches - before.work.launches;
    replays += after.work.replays - before.work.replays;
    nodes += after.work.nodes - before.work.nodes;
    hits += after.hits - before.hits;
    misses += after.misses - before.misses;
    uploaded_bytes += after.uploaded_bytes - before.uploaded_bytes;
    bodies.resize(std::max(bodies.size(), after.bodies.size()));
    for (std::size_t i = 0; i < after.bodies.size(); ++i) {  // names keep their places
      const coli::BodyTime was = i < before.bodies.size() ? before.bodies[i] : coli::BodyTime{};
      bodies[i] = {after.bodies[i].name, bodies[i].runs + after.bodies[i].runs - was.runs, bodies[i].seconds + after.bodies[i].seconds - was.seconds};
    }
  }
  Json json(double tokens) const {
    const auto each = [&](std::uint64_t n) { return static_cast<double>(n) / tokens; };
    Json out{{"launches_per_token", each(launches)},
             {"replays_per_token", each(replays)},
             {"nodes_per_token", each(nodes)},
             {"device_hit_rate", hits + misses == 0 ? 1.0 : static_cast<double>(hits) / static_cast<double>(hits + misses)},
             {"uploaded_bytes_per_token", each(uploaded_bytes)},
             {"bodies", Json::array()}};
    for (const coli::BodyTime& body : bodies)
      if (body.runs != 0) out["bodies"].push_back({{"body", body.name}, {"runs_per_token", each(body.runs)}, {"microseconds_per_token", body.seconds * 1e6 / tokens}});
    return out;
  }
};

/// One length: its rates, and what its measured part asked of the cache of experts, and of a device.
struct Rates {
  std::uint32_t tokens;
  std::vector<double> samples{};  // tokens a second
  std::uint64_t hits = 0, misses = 0, bytes_read = 0;
  DeviceUse device{};

  void add(double seconds, const coli::EngineStats& before, const coli::EngineStats& after) {
    samples.push_back(tokens / seconds);
    hits += after.cache.hits - before.cache.hits;
    misses += after.cache.misses - before.cache.misses;
    bytes_read += after.cache.bytes_read - before.cache.bytes_read;
    device.add(before.device, after.device);
  }
  double all_tokens() const { return static_cast<double>(tokens) * static_cast<double>(samples.size()); }
  Json json() const {
    const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
    return {{"tokens", tokens},
            {"tps_median", median(samples)},
            {"tps_min", *least},
            {"tps_max", *most},
            {"n", samples.size()},
            {"samples", samples},
            {"hit_rate", hits + misses == 0 ? 1.0 : static_cast<double>(hits) / static_cast<double>(hits + misses)},
            {"bytes_read_per_token", static_cast<double>(bytes_read) / all_tokens()}};
  }
};

/// Loops of the instruction set that the model runs on, over its own weights (huge pages, where the system has them)
/// and, where no limit on memory was given and there is room, over memory with small pages.
struct Limit {
  coli::ReadBandwidth reads;
  std::optional<coli::PagedMemory> small_pages;
  std::vector<double> rounds;  // the best of each round
  static constexpr std::uint64_t kRead = 4 * coli::kGiB;  // by each loop in each round

  Limit(const Session& session, bool may_take_memory) {
    std::span<const coli::ReadLoop> loops = coli::kPortableReadLoops;
    for (const IsaEntry& isa : isas())
      if (isa.name == session.isa() && isa.runs_here()) loops = isa.table().read;
    reads.add(loops, session.weight_memory(), "the weights");
    constexpr std::uint64_t kSmallPages = 512 * coli::kMiB;
    const auto room = coli::available_memory();
    if (!may_take_memory || !room || room->bytes.value < 2 * kSmallPages) return;
    small_pages.emplace(kSmallPages, false);
    reads.add(loops, {small_pages->bytes()}, "small pages");
  }
  double middle() const { return rounds.empty() ? 0 : median(rounds); }
  double best() const { return rounds.empty() ? 0 : *std::max_element(rounds.begin(), rounds.end()); }

  Json json() const {
    Json loops = Json::array();
    for (const auto& arm : reads.arms()) loops.push_back({{"loop", arm.name}, {"gbs", arm.best / 1e9}});
    return loops;
  }
};

/// Formats that this backend has no kernel of its own for: correct, and slower.
Json generic_tensors(const Session& session, const std::vector<std::string>& kernels) {
  Json list = Json::array();
  for (const std::string& kernel : kernels) {
    if (!kernel.ends_with("/decoded")) continue;
    std::uint64_t n = 0, bytes = 0;
    const std::string format = kernel.substr(kernel.find('/') + 1, kernel.find('/', kernel.find('/') + 1) - kernel.find('/') - 1);
    for (const auto& tensor : session.file().tensors())
      if (tensor.type->name == format) ++n, bytes += tensor.bytes;
    list.push_back({{"format", format}, {"tensors", n}, {"bytes", bytes}});
  }
  return list;
}

void print_device_use(const Json& use) {
  const auto number = [&](const char* key) { return use[key].get<double>(); };
  std::printf("  a token: %.1f bodies launched one by one, %.1f in %.2f recorded passes", number("launches_per_token"), number("nodes_per_token"), number("replays_per_token"));
  if (number("device_hit_rate") < 1) std::printf("; %.3f of its experts on the device, %.1f MB uploaded", number("device_hit_rate"), number("uploaded_bytes_per_token") / 1e6);
  std::printf("\n");
  for (const Json& body : use["bodies"])
    std::printf("  a token: %9.1f microseconds in %6.1f runs of %s\n", body["microseconds_per_token"].get<double>(), body["runs_per_token"].get<double>(), body["body"].get<std::string>().c_str());
}

coli::Result<void> check_lengths(const BenchOptions& options, std::uint32_t context) {
  const auto refuse = [&](std::uint32_t n, const char* option, std::uint64_t others) {
    const std::string less = others == 0 ? "" : " less " + std::to_string(others) + " of --prompt and --discard";
    return coli::Error{coli::Errc::usage, std::to_string(n) + " tokens; expected 1 to the context of " + std::to_string(context) + less, option};
  };
  const std::uint64_t before = std::uint64_t{options.prompt} + options.discard;
  for (const std::uint32_t n : options.prefill)
    if (n == 0 || n > context) return refuse(n, "--prefill", 0);
  for (const std::uint32_t n : options.decode)
    if (n == 0 || n + before > context) return refuse(n, "--decode", before);
  return {};
}

coli::Result<void> bench(const BenchOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(model, open_model(options.model));
  Session& session = *model.session;
  COLI_CHECK(check_lengths(options, session.context()));
  const std::uint32_t n_vocab = session.tensors().n_vocab;

  std::vector<Rates> prefill, decode;
  for (const std::uint32_t n : options.prefill) prefill.push_back({n});
  for (const std::uint32_t n : options.decode) decode.push_back({n});
  std::optional<Limit> limit;
  std::optional<coli::ThreadPool> readers;
  std::uint64_t peak = 0;  // of the model, before memory for reading is added
  for (std::uint32_t repeat = 0; repeat < options.warm_up + options.repeat; ++repeat) {
    const bool counts = repeat >= options.warm_up;
    for (Rates& rates : prefill) {
      const auto ids = some_ids(rates.tokens, n_vocab);
      COLI_CHECK(session.truncate(0));
      const coli::EngineStats before = session.stats();
      const auto start = std::chrono::steady_clock::now();
      COLI_TRY(logits, session.prefill(ids));
      (void)logits;
      const double seconds = seconds_since(start);
      if (counts) rates.add(seconds, before, session.stats());
    }
    for (Rates& rates : decode) {
      const auto ids = some_ids(std::size_t{options.prompt} + options.discard + rates.tokens, n_vocab);
      const auto decode_ids = [&](std::size_t first, std::size_t n) -> coli::Result<void> {
        for (const coli::TokenId id : std::span(ids).subspan(first, n)) {
          COLI_TRY(logits, session.step(id));
          (void)logits;
        }
        return {};
      };
      COLI_CHECK(session.truncate(0));
      COLI_TRY(prompt, session.prefill(std::span(ids).first(options.prompt)));
      (void)prompt;
      COLI_CHECK(decode_ids(options.prompt, options.discard));
      const coli::EngineStats before = session.stats();
      const auto start = std::chrono::steady_clock::now();
      COLI_CHECK(decode_ids(std::size_t{options.prompt} + options.discard, rates.tokens));
      const double seconds = seconds_since(start);
      if (counts) rates.add(seconds, before, session.stats());
    }
    if (repeat == 0) peak = peak_rss_bytes();
    if (repeat == 0 && !options.no_bandwidth) {
      limit.emplace(session, !options.model.memory);
      readers.emplace(session.threads());
    }
    if (limit && counts) limit->rounds.push_back(limit->reads.measure(*readers, Limit::kRead));  // in the same minutes: machines drift
  }

  const coli::ModelGeometry geometry = coli::ModelGeometry::of(session.hyperparams(), session.tensors());
  const double bytes_per_token = static_cast<double>(geometry.token_weights().value);
  const double bandwidth = limit ? limit->middle() : 0;
  const coli::EngineStats stats = session.stats();
  Json out{{"model", model.name},
           {"profile", model.profile->name},
           {"isa", session.isa()},
           {"threads", session.threads()},
           {"commit", build_commit()},
           {"compiler", build_compiler()},
           {"cpu", cpu_model()},
           {"prefill", Json::array()},
           {"decode", Json::array()},
           {"bytes_per_token", geometry.token_weights().value},
           {"read_bandwidth_gbs", bandwidth > 0 ? Json(bandwidth / 1e9) : Json(nullptr)},
           {"read_bandwidth_best_gbs", bandwidth > 0 ? Json(limit->best() / 1e9) : Json(nullptr)},
           {"read_bandwidth_rounds_gbs", Json::array()},
           {"read_loops", limit ? limit->json() : Json::array()},
           {"kernels", stats.kernels},
           {"generic_tensors", generic_tensors(session, stats.kernels)},
           {"load_seconds", stats.load_seconds},
           {"peak_rss_bytes", peak},
           {"kv_bytes", session.memory().held(coli::MemoryClass::kv).value},
           {"store", stats.store},
           {"cache_hit_rate", stats.cache.hit_rate()},
           {"bytes_read", stats.cache.bytes_read}};
  if (limit)
    for (const double round : limit->rounds) out["read_bandwidth_rounds_gbs"].push_back(round / 1e9);
  const bool on_device = stats.device.work.bodies() != 0;  // of an emulator, too
  if (on_device)
    out["device"] = {{"layers", session.hyperparams().n_layers}, {"device_slots", stats.device.slots}, {"device_experts", stats.device.experts}, {"device_slot_bytes", stats.device.slot_bytes.value}, {"device_held_bytes", stats.device.held.value}};
  const bool text = options.json != "-";
  if (text)
    std::printf("%s, profile %s, isa %s, %u threads, commit %s, %s\n", cpu_model().c_str(), std::string(model.profile->name).c_str(), session.isa().c_str(), session.threads(), build_commit().c_str(), build_compiler().c_str());
  for (const auto& [key, list] : {std::pair{"prefill", &prefill}, std::pair{"decode", &decode}})
    for (const Rates& rates : *list) {
      Json entry = rates.json();
      if (on_device) entry["device"] = rates.device.json(rates.all_tokens());
      const double tps = entry["tps_median"];
      if (bandwidth > 0 && std::string_view(key) == "decode") {  // round by round: both drift
        std::vector<double> fractions;
        for (std::size_t round = 0; round < rates.samples.size(); ++round) fractions.push_back(rates.samples[round] * bytes_per_token / limit->rounds[round]);
        entry["bandwidth_fraction"] = median(fractions);
      }
      if (text) {
        std::printf("%-8s %5u tokens: %8.2f tok/s (%.2f to %.2f, n = %zu)", key, rates.tokens, tps, entry["tps_min"].get<double>(), entry["tps_max"].get<double>(), rates.samples.size());
        if (entry.contains("bandwidth_fraction"))
          std::printf(", %.2f of %.1f GB/s read bandwidth at %.3f GB a token", entry["bandwidth_fraction"].get<double>(), bandwidth / 1e9, bytes_per_token / 1e9);
        if (rates.misses != 0) std::printf(", %.3f hits, %.1f MB a token read", entry["hit_rate"].get<double>(), entry["bytes_read_per_token"].get<double>() / 1e6);
        std::printf("\n");
        if (on_device) print_device_use(entry["device"]);
      }
      out[key].push_back(std::move(entry));
    }
  if (text) {
    std::string names;
    for (const std::string& kernel : stats.kernels) names += ' ' + kernel;
    std::printf("kernels: %s\n", names.c_str() + 1);
    for (const Json& generic : out["generic_tensors"])
      std::printf("note: %llu tensors of %s (%.1f MB) have no kernel of their own and go through the generic one\n", generic["tensors"].get<unsigned long long>(), generic["format"].get<std::string>().c_str(), generic["bytes"].get<double>() / 1e6);
  }
  return options.json.empty() ? coli::Result<void>{} : write_json(out, options.json);
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command = *app.add_subcommand("bench", "prefill and decode rates, medians over repeats");
  options->model.add_to(command, false);
  command.add_option("--prefill", options->prefill, "prompt lengths, 64,512")->delimiter(',')->capture_default_str();
  command.add_option("--decode", options->decode, "numbers of tokens to decode")->delimiter(',')->capture_default_str();
  command.add_option("--repeat", options->repeat, "measured repeats, after the warm-up")->check(CLI::Range(1U, 1000U))->capture_default_str();
  command.add_option("--warm-up", options->warm_up, "repeats before the first that counts; 0 measures from a cold start")->check(CLI::Range(0U, 1000U))->capture_default_str();
  command.add_option("--prompt", options->prompt, "tokens in front of those that are decoded")->check(CLI::Range(1U, 1U << 20))->capture_default_str();
  command.add_option("--discard", options->discard, "tokens decoded and not counted, before those that are")->check(CLI::Range(0U, 1U << 20))->capture_default_str();
  command.add_flag("--no-bandwidth", options->no_bandwidth, "do not measure memory read bandwidth");
  command.add_flag("--no-prefill", [options](std::int64_t) { options->prefill.clear(); }, "measure decode only");
  command.add_flag("--bodies", options->model.time_bodies, "of a device: how long each kind of kernel takes; marks around each make all of them slower");
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return bench(*options); }; });
}

}  // namespace colidrv
