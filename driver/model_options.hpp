// SPDX-License-Identifier: Apache-2.0
// The options that every command with an engine shares: which model, which profile, how many threads.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/registry.hpp"

namespace colidrv {

struct ModelOptions {
  std::string model;  // empty: the embedded one
  std::string profile = "auto";
  std::string kv;
  std::optional<unsigned> threads;
  std::optional<std::uint32_t> context;
  std::optional<std::uint32_t> chunk;
  std::optional<std::string> memory;
  std::optional<std::string> vram;
  std::optional<std::string> cpu_experts;
  std::string store = "auto";
  std::optional<std::string> evict;  // otherwise the profile's own
  std::uint32_t prefetch = 0;
  std::optional<unsigned> io_depth;
  std::vector<std::string> parked;
  bool time_bodies = false;  // of a device
  bool unbounded = false;  // a mapping may hold more than --memory says
  bool quiet = false;

  void add_to(CLI::App& command, bool model_required);
  /// Those that a plan has a say in, also for commands without an engine.
  void add_wishes_to(CLI::App& command);
  coli::Result<coli::PlanWishes> wishes() const;  // errors: usage
  std::optional<std::uint32_t> cpu_experts_wanted() const;  // none: not said, or auto
};

/// A size of an option, as people write it. Errors: usage, naming the option.
coli::Result<std::optional<coli::Bytes>> size_option(const std::optional<std::string>& text, const std::string& option);

/// What this machine has for a run of `file`, whose vocabulary is read once so that the process's own size is known.
coli::Result<coli::Machine> machine_for(const coli::gguf::ModelFile& file);

/// An engine and what it is called.
struct OpenModel {
  std::unique_ptr<Session> session;
  const ProfileEntry* profile;
  std::string name;  // the path, or "embedded model"
};

/// Opens the header of `path`, or of the embedded model where it is empty. Errors: io, bad_input, usage (none embedded).
coli::Result<coli::gguf::ModelFile> open_file(const std::string& path);

/// Opens the model; says on standard error what was chosen, unless quiet. Errors: those of the engine and registry.
coli::Result<OpenModel> open_model(const ModelOptions& options);

/// The largest resident set of this process so far (VmHWM); 0 where the system does not say.
std::uint64_t peak_rss_bytes();

}  // namespace colidrv
