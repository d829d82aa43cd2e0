// SPDX-License-Identifier: Apache-2.0
#include "driver/model_options.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "coli/plan/memory.hpp"

extern "C" {
extern const std::byte coli_embedded_model_begin[];
extern const std::byte coli_embedded_model_end[];
}

namespace colidrv {

void ModelOptions::add_to(CLI::App& command, bool model_required) {
  auto* path = command.add_option("MODEL", model, model_required ? "GGUF file, or any shard of a split set" : "GGUF file, or any shard of a split set; without it, the embedded model");
  if (model_required) path->required();
  command.add_option("--profile", profile, "named engine (colidrv profiles lists them), or auto")->capture_default_str();
  command.add_option("--threads", threads, "worker threads; default: physical cores available here")->check(CLI::Range(1U, 1024U));
  command.add_option("--ctx", context, "positions of the KV cache; default: the model's, at most 4096")->check(CLI::Range(1U, 1U << 30));
  command.add_option("--kv", kv, "format of the KV cache; default: the profile's")->check(CLI::IsMember({"f32", "f16"}));
  command.add_option("--chunk", chunk, "tokens of one prefill pass; changes speed and memory, never results")->check(CLI::Range(1U, 1U << 20));
  command.add_option("--memory", memory, "bytes that the process may hold, with K, M or G (powers of 1024); default: what this machine has; experts that don't fit are streamed");
  std::vector<std::string> stores(coli::kStoreKindNames.begin(), coli::kStoreKindNames.end());
  command.add_option("--store", store, "how experts are read: io_uring, pread workers, a mapping, or all in memory")->check(CLI::IsMember(stores))->capture_default_str();
  command.add_option("--evict", evict, "eviction policy, where the profile holds several; cpu: expected-use (default), lru, lfu-decay, s3-fifo, sieve");
  command.add_option("--prefetch", prefetch, "experts of the next layer to guess and read while the disk is idle; 0 is none")->check(CLI::Range(0U, 1024U))->capture_default_str();
  command.add_flag("--unbounded", unbounded, "with --store mmap: pages of the mapping are not counted against --memory");
  command.add_flag("--quiet", quiet, "no notes and no summary on standard error");
}

coli::Result<coli::EngineOptions> ModelOptions::engine_options() const {
  coli::EngineOptions options;
  options.context = context;
  options.threads = threads.value_or(0);
  options.chunk = chunk;
  options.prefetch = prefetch;
  if (evict && evict->empty()) return coli::Error{coli::Errc::usage, "names no policy", "--evict"};
  options.evict = evict.value_or("");
  options.store.kind = coli::parse_store_kind(store).value_or(coli::StoreKind::best);
  if (unbounded && options.store.kind != coli::StoreKind::mmap) return coli::Error{coli::Errc::usage, "belongs to --store mmap", "--unbounded"};
  if (memory && options.store.kind == coli::StoreKind::mmap && !unbounded)
    return coli::Error{coli::Errc::usage, "no memory limit can be kept over a mapping, whose pages the system adds as it likes; say --unbounded, or take another store", "--store mmap"};
  if (!memory) {
    // All that is there, less a thirtieth: what others take while a model loads must not be what ends this process.
    COLI_TRY(available, coli::available_memory());
    options.memory = coli::Bytes{available.bytes.value / 30 * 29} + coli::Bytes{peak_rss_bytes()};
  } else {
    options.memory = coli::parse_bytes(*memory);
    if (!options.memory) return coli::Error{coli::Errc::usage, "'" + *memory + "' is not a size; expected bytes, or a number with K, M or G", "--memory"};
  }
  if (!kv.empty()) options.kv = kv == "f16" ? coli::KvFormat::f16 : coli::KvFormat::f32;
  return options;
}

coli::Result<coli::gguf::ModelFile> open_file(const std::string& path) {
  if (!path.empty()) return coli::gguf::ModelFile::open(path);
  const std::span<const std::byte> embedded{coli_embedded_model_begin, coli_embedded_model_end};
  if (embedded.empty()) return coli::Error{coli::Errc::usage, "this build has no embedded model: name a GGUF file"};
  return coli::gguf::ModelFile::parse(embedded, "embedded model");
}

coli::Result<OpenModel> open_model(const ModelOptions& options) {
  COLI_TRY(engine_options, options.engine_options());
  COLI_TRY(profile, find_profile(options.profile));
  COLI_TRY(file, open_file(options.model));
  OpenModel model{nullptr, profile, options.model.empty() ? "embedded model" : options.model};
  const bool show_progress = !options.quiet && ::isatty(STDERR_FILENO) != 0;
  if (show_progress) std::fprintf(stderr, "loading %s ...", model.name.c_str());
  auto session = profile->open(std::move(file), engine_options);
  if (show_progress) std::fputs("\r\033[K", stderr);
  if (!session) return std::move(session).error();
  model.session = std::move(*session);
  if (!options.quiet)
    for (const std::string& note : model.session->notes()) std::fprintf(stderr, "note: %s\n", note.c_str());
  if (!options.quiet)
    std::fprintf(stderr, "%s: profile %.*s%s, context %u, memory %s\n", model.name.c_str(), static_cast<int>(profile->name.size()), profile->name.data(),
                 options.profile == "auto" ? " (auto)" : "", model.session->context(), model.session->memory().bill().c_str());
  return model;
}

std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * coli::kKiB;
  return 0;
}

}  // namespace colidrv
