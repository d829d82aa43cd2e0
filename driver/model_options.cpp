// SPDX-License-Identifier: Apache-2.0
#include "driver/model_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "coli/plan/machine.hpp"
#include "coli/plan_report.hpp"
#include "coli/planner.hpp"
#include "coli/probe.hpp"
#include "coli/text/tokenizer.hpp"

extern "C" {
extern const std::byte coli_embedded_model_begin[];
extern const std::byte coli_embedded_model_end[];
}

namespace colidrv {

void ModelOptions::add_to(CLI::App& command, bool model_required) {
  auto* path = command.add_option("MODEL", model, model_required ? "GGUF file, or any shard of a split set" : "GGUF file, or any shard of a split set; without it, the embedded model");
  if (model_required) path->required();
  add_wishes_to(command);
  command.add_option("--evict", evict, "eviction policy, where the profile holds several; cpu: expected-use (default), lru, lfu-decay, s3-fifo, sieve");
  command.add_option("--prefetch", prefetch, "experts of the next layer to guess and read while the disk is idle; 0 is none")->check(CLI::Range(0U, 1024U))->capture_default_str();
  command.add_option("--io-depth", io_depth, "reads with the kernel at once; default: 4 by pread; by io_uring 8, in bursts where the disk reports only whole queues")->check(CLI::Range(1U, 256U));
  std::vector<std::string> names(coli::ParkedOptions::kNames.begin(), coli::ParkedOptions::kNames.end());
  command.add_option("--parked", parked, "slower ways to the same bits, to be measured again: small-pages, plain-slots, split-experts; of a device: plain-passes")->delimiter(',')->check(CLI::IsMember(names));
  command.add_flag("--unbounded", unbounded, "with --store mmap: pages of the mapping are not counted against --memory");
  command.add_option("--cpu-experts", cpu_experts, "with a device profile: of each layer's experts, how many the CPU computes, or auto, by rates measured first; bits depend on it")
      ->check([](const std::string& text) {
        const bool is_number = !text.empty() && text.size() <= 4 && text.find_first_not_of("0123456789") == std::string::npos;
        return is_number || text == "auto" ? std::string() : "expected a number or auto";
      });
  command.add_flag("--quiet", quiet, "no notes and no summary on standard error");
}

void ModelOptions::add_wishes_to(CLI::App& command) {
  command.add_option("--profile", profile, "named engine (colidrv profiles lists them), or auto")->capture_default_str();
  command.add_option("--threads", threads, "worker threads; default: physical cores available here")->check(CLI::Range(1U, 1024U));
  command.add_option("--ctx", context, "positions of the KV cache; default: the model's, at most 4096")->check(CLI::Range(1U, 1U << 30));
  command.add_option("--kv", kv, "format of the KV cache; default: the profile's")->check(CLI::IsMember({"f32", "f16"}));
  command.add_option("--chunk", chunk, "tokens of one prefill pass; changes speed and memory, never results")->check(CLI::Range(1U, 1U << 20));
  command.add_option("--memory", memory, "bytes that the process may hold, with K, M or G (powers of 1024); default: what this machine has; experts that don't fit are streamed");
  command.add_option("--vram", vram, "bytes that a device profile may hold on its device; default: what is free there");
  std::vector<std::string> stores(coli::kStoreKindNames.begin(), coli::kStoreKindNames.end());
  command.add_option("--store", store, "how experts are read: io_uring, pread workers, a mapping, or all in memory")->check(CLI::IsMember(stores))->capture_default_str();
}

coli::Result<std::optional<coli::Bytes>> size_option(const std::optional<std::string>& text, const std::string& option) {
  if (!text) return std::optional<coli::Bytes>();
  const auto bytes = coli::parse_bytes(*text);
  if (!bytes) return coli::Error{coli::Errc::usage, "'" + *text + "' is not a size; expected bytes, or a number with K, M or G", option};
  return bytes;
}

coli::Result<coli::PlanWishes> ModelOptions::wishes() const {
  coli::PlanWishes wishes;
  wishes.context = context;
  wishes.threads = threads.value_or(0);
  wishes.chunk = chunk;
  wishes.store = coli::parse_store_kind(store).value_or(coli::StoreKind::best);
  if (evict && evict->empty()) return coli::Error{coli::Errc::usage, "names no policy", "--evict"};
  if (wishes.store == coli::StoreKind::memory || wishes.store == coli::StoreKind::mmap) {
    for (const auto& [asked, option] : {std::pair(prefetch != 0, "--prefetch"), std::pair(io_depth.has_value(), "--io-depth")})
      if (asked) return coli::Error{coli::Errc::usage, "would never act: nothing is read ahead or queued with --store " + store, option};
  }
  if (unbounded && wishes.store != coli::StoreKind::mmap) return coli::Error{coli::Errc::usage, "belongs to --store mmap", "--unbounded"};
  if (memory && wishes.store == coli::StoreKind::mmap && !unbounded)
    return coli::Error{coli::Errc::usage, "no memory limit can be kept over a mapping, whose pages the system adds as it likes; say --unbounded, or take another store", "--store mmap"};
  COLI_TRY(limit, size_option(memory, "--memory"));
  wishes.memory = limit;
  COLI_TRY(device_limit, size_option(vram, "--vram"));
  wishes.vram = device_limit;
  if (!kv.empty()) wishes.kv = kv == "f16" ? coli::KvFormat::f16 : coli::KvFormat::f32;
  return wishes;
}

std::optional<std::uint32_t> ModelOptions::cpu_experts_wanted() const {
  if (!cpu_experts || *cpu_experts == "auto") return std::nullopt;
  return static_cast<std::uint32_t>(std::stoul(*cpu_experts));
}

coli::Result<coli::gguf::ModelFile> open_file(const std::string& path) {
  if (!path.empty()) return coli::gguf::ModelFile::open(path);
  const std::span<const std::byte> embedded{coli_embedded_model_begin, coli_embedded_model_end};
  if (embedded.empty()) return coli::Error{coli::Errc::usage, "this build has no embedded model: name a GGUF file"};
  return coli::gguf::ModelFile::parse(embedded, "embedded model");
}

coli::Result<coli::Machine> machine_for(const coli::gguf::ModelFile& file) {
  (void)coli::Tokenizer::from(file.metadata());  // its memory counts, once it has been taken
  COLI_TRY(machine, coli::read_machine());
  machine.process = {machine.process.bytes + coli::Bytes{coli::kMiB}, machine.process.source + ", and 1 MiB for what it grows by while it loads"};
  if (!file.shards().front().memory.empty() || file.missing_bytes() != 0) return machine;
  machine.direct_block = coli::direct_reads_of(file.shards().front().path).block;
  return machine;
}

namespace {

/// A limit that this machine can't give is lowered to what it has: it would end the process, not refuse it memory.
std::string fit_to_machine(coli::PlanWishes& wishes, const coli::Machine& machine) {
  const coli::Bytes most = machine.memory.bytes + machine.process.bytes;
  if (!wishes.memory || wishes.store == coli::StoreKind::mmap || *wishes.memory <= coli::Bytes{most.value / 16 * 17}) return {};
  std::string note = "--memory " + coli::to_text(*wishes.memory) + " is more than there is (" + machine.memory.source + "): going by " + coli::to_text(machine.usable().bytes);
  wishes.memory = machine.usable().bytes;
  return note;
}

coli::EngineOptions engine_options(const ModelOptions& options, const coli::PlanWishes& wishes, const coli::Plan& plan) {
  coli::EngineOptions engine;
  engine.context = plan.shape.context;
  engine.kv = plan.shape.kv;
  engine.threads = plan.threads;
  engine.chunk = plan.shape.chunk;
  engine.prefetch = options.prefetch;
  engine.evict = options.evict.value_or("");
  engine.vram = wishes.vram;
  engine.cpu_experts = options.cpu_experts_wanted().value_or(0);
  engine.store.kind = plan.store;
  engine.store.depth = options.io_depth.value_or(0);
  for (const std::string& name : options.parked) (void)engine.parked.choose(name);
  engine.time_bodies = options.time_bodies;
  // What is planned, and a little for what the process grows by until it is loaded; never more than the limit.
  const coli::Bytes planned = plan.total() + std::max(coli::Bytes{plan.total().value / 64}, coli::Bytes{4 * coli::kMiB});
  engine.memory = plan.resident ? plan.limit.bytes : std::min(plan.limit.bytes, planned);
  return engine;
}

}  // namespace

coli::Result<OpenModel> open_model(const ModelOptions& options) {
  COLI_TRY(wishes, options.wishes());
  COLI_TRY(profile, find_profile(options.profile));
  COLI_TRY(file, open_file(options.model));
  OpenModel model{nullptr, profile, options.model.empty() ? "embedded model" : options.model};
  // The card first: what its driver takes of this machine's memory is then in the process that the plan counts.
  std::optional<coli::DeviceReading> device;
  if (profile->device != nullptr) {
    COLI_TRY(card, profile->device());
    device = std::move(card);
  }
  COLI_TRY(machine, machine_for(file));
  machine.device = std::move(device);
  const std::string lowered = fit_to_machine(wishes, machine);
  const auto named = [&](coli::Error error) { return std::move(error).in_file(model.name); };
  const auto needs = coli::model_needs(file, profile->formats);
  if (!needs) return named(needs.error());
  COLI_TRY(planned, profile->planned());
  const coli::PlanOutcome outcome = coli::plan_run(*needs, planned, machine, wishes, coli::ReuseCurve::fallback());
  if (outcome.refusal) return named(outcome.refusal->error);
  if (!options.quiet) std::fprintf(stderr, "%s: %s\n", model.name.c_str(), coli::plan_line(*outcome.plan, options.profile == "auto" ? " (auto)" : "").c_str());
  if (!options.quiet && !lowered.empty()) std::fprintf(stderr, "note: %s\n", lowered.c_str());

  const bool show_progress = !options.quiet && ::isatty(STDERR_FILENO) != 0;
  if (show_progress) std::fprintf(stderr, "loading %s ...", model.name.c_str());
  coli::EngineOptions engine = engine_options(options, wishes, *outcome.plan);
  if (options.cpu_experts) engine.memory = outcome.plan->limit.bytes;  // its scratch is not in the plan
  if (options.cpu_experts && !options.cpu_experts_wanted()) {
    if (profile->split == nullptr) return coli::Error{coli::Errc::usage, "belongs to device profiles; " + std::string(profile->name) + " runs on the CPU", "--cpu-experts"};
    COLI_TRY(rates, profile->split(file, machine, engine.threads));
    engine.split = rates;
  }
  auto session = profile->open(std::move(file), engine);
  if (show_progress) std::fputs("\r\033[K", stderr);
  if (!session) return std::move(session).error();
  model.session = std::move(*session);
  if (const std::uint32_t n = model.session->stats(false).device.cpu_experts; n != 0 && !options.quiet)
    std::fprintf(stderr, "note: the CPU computes %u of %u experts of each layer; --cpu-experts %u asks for the same again\n", n, model.session->hyperparams().n_experts, n);
  if (!options.quiet)
    for (const std::string& note : model.session->notes()) std::fprintf(stderr, "note: %s\n", note.c_str());
  return model;
}

std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * coli::kKiB;
  return 0;
}

}  // namespace colidrv
