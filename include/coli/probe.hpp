// SPDX-License-Identifier: Apache-2.0
// Would this model run here under that profile? Checks with what was found and what would mend it; reads headers only.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/plan/devices.hpp"
#include "coli/plan/facilities.hpp"
#include "coli/plan/machine.hpp"
#include "coli/plan_needs.hpp"
#include "coli/plan_report.hpp"
#include "coli/planner.hpp"
#include "coli/profile.hpp"
#include "coli/store/model_files.hpp"
#include "coli/text/tokenizer.hpp"

namespace coli {

enum class CheckVerdict { pass, warn, fail };
constexpr std::string_view name_of(CheckVerdict verdict) { return verdict == CheckVerdict::pass ? "pass" : verdict == CheckVerdict::warn ? "warn" : "fail"; }

/// One question and its answer. `fix` is empty where nothing is wrong; `code` is what a run would end with.
struct Check {
  std::string name;
  CheckVerdict verdict = CheckVerdict::pass;
  std::string found;
  std::string fix{};
  Errc code = Errc::unavailable;
};

struct ProbeReport {
  std::vector<Check> checks;
  std::optional<PlanOutcome> outcome{};  // where the model could be planned
  std::uint64_t header_bytes_read = 0;

  /// The first failure as an error; success where the model would run.
  Result<void> verdict() const {
    for (const Check& check : checks)
      if (check.verdict == CheckVerdict::fail) return Error{check.code, check.found + (check.fix.empty() ? "" : "; " + check.fix), check.name};
    return {};
  }
};

/// Direct reads of a file: the alignment, or why there are none.
inline DirectAlignment direct_reads_of(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!fd) return {0, std::string("the file system refuses O_DIRECT (") + std::strerror(errno) + ")"};
  return direct_alignment(fd.get());
}

/// What the machine has, whatever the model.
inline std::vector<Check> probe_machine(const Result<Machine>& machine, const std::string& root = "") {
  std::vector<Check> checks;
  if (!machine) {
    checks.push_back({"memory", CheckVerdict::fail, machine.error().line(), "mend that limit, or say --memory: a limit that can't be read is not taken for none", machine.error().code});
    return checks;
  }
  checks.push_back({"memory", CheckVerdict::pass, to_text(machine->memory.bytes) + " may be taken (" + machine->memory.source + ")"});
  checks.push_back({"cores", CheckVerdict::pass, std::to_string(machine->cpus.cores) + " (" + machine->cpus.source + "), " + cpu_identity(root).model});
  const std::string no_uring = why_no_uring();
  checks.push_back({"io_uring", no_uring.empty() ? CheckVerdict::pass : CheckVerdict::warn, no_uring.empty() ? "allowed" : no_uring,
                    no_uring.empty() ? "" : "pread workers are used instead; allow io_uring_setup in the container's seccomp profile, or see kernel.io_uring_disabled"});
  const auto pages = huge_pages(root);
  const bool huge = pages && *pages != "never";
  checks.push_back({"huge pages", huge ? CheckVerdict::pass : CheckVerdict::warn, pages ? "transparent_hugepage is " + *pages : "this kernel says nothing of them",
                    huge ? "" : "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  const auto memlock = process_limit("Max locked memory", root);
  constexpr Bytes kStagingOfLargeModels{64 * kMiB};
  if (!memlock) checks.push_back({"locked memory", CheckVerdict::warn, memlock.error().line(), "mend /proc"});
  else if (!*memlock) checks.push_back({"locked memory", CheckVerdict::pass, "unlimited"});
  else checks.push_back({"locked memory", **memlock >= kStagingOfLargeModels ? CheckVerdict::pass : CheckVerdict::warn, to_text(**memlock),
                         **memlock >= kStagingOfLargeModels ? "" : "read buffers may not be registered with io_uring, which costs little; ulimit -l 65536 allows it"});
  return checks;
}

/// The machine's graphics cards: none is no fault.
inline std::vector<Check> probe_cards(const Result<CardsReading>& cards) {
  if (!cards) return {{"graphics card", CheckVerdict::pass, "none that the profile cuda could run on: " + cards.error().line()}};
  std::vector<Check> checks;
  for (const CardReading& card : cards->cards)
    checks.push_back({"graphics card", card.why_not.empty() ? CheckVerdict::pass : CheckVerdict::warn,
                      card.name + ", " + to_text(card.memory) + ", compute capability " + std::to_string(card.major) + "." + std::to_string(card.minor) + (card.why_not.empty() ? "" : ": " + card.why_not),
                      card.why_not.empty() ? "" : "the profile cuda can't run on it"});
  if (checks.empty()) checks.push_back({"graphics card", CheckVerdict::pass, "the driver shows none"});
  return checks;
}

/// The same for one model under one profile: `kernels_or_why` says why its kernels can't run here. Reads no tensor data.
template <Profile P>
ProbeReport probe(const Result<gguf::ModelFile>& file, const Result<Machine>& machine, const Result<typename P::Backend::KernelSet>& kernels, const PlanWishes& wishes = {},
                  const ReuseCurve& curve = ReuseCurve::fallback()) {
  ProbeReport report;
  auto& checks = report.checks;
  const std::string profile = "profile " + std::string(P::name.view());
  if (kernels) checks.push_back({profile, CheckVerdict::pass, std::string(about_of<P>().needs)});
  else checks.push_back({profile, CheckVerdict::fail, kernels.error().line(), "needs " + std::string(about_of<P>().needs), kernels.error().code});
  if (!file) {
    checks.push_back({"file", CheckVerdict::fail, file.error().line(), "fetch or convert it again", file.error().code});
    return report;
  }
  report.header_bytes_read = file->header_bytes_read();
  const auto& first = file->shards().front();
  if (file->missing_bytes() != 0) {
    std::string which = first.path;
    for (const auto& shard : file->shards())
      if (shard.missing != 0) which = shard.path;
    checks.push_back({"file", CheckVerdict::fail, which + " lacks " + std::to_string(file->missing_bytes()) + " of the set's " + std::to_string(file->total_bytes()) + " bytes: truncated", "fetch the rest",
                      Errc::bad_input});
  } else {
    checks.push_back({"file", CheckVerdict::pass, to_text(Bytes{file->total_bytes()}) + " in " + std::to_string(file->shards().size()) + (file->shards().size() == 1 ? " file" : " files") + ", complete"});
  }
  const auto needs = model_needs(*file, FormatSet::of(typename P::Formats{}));
  if (!needs) {
    checks.push_back({"tensors", CheckVerdict::fail, needs.error().line(), "", needs.error().code});
    return report;
  }
  checks.push_back({"tensors", CheckVerdict::pass, "all " + std::to_string(file->tensors().size()) + " are known to the profile; experts in " + (needs->formats.empty() ? "no format" : needs->formats)});
  const auto tokenizer = Tokenizer::from(file->metadata());
  checks.push_back({"tokenizer", tokenizer ? CheckVerdict::pass : CheckVerdict::warn, tokenizer ? std::to_string((*tokenizer).vocabulary().size()) + " tokens" : tokenizer.error().line(),
                    tokenizer ? "" : "token ids can be given with --tokens"});
  if (!machine || !kernels) return report;
  if (about_of<P>().processor == Processor::device && !machine->device) return report;  // nothing to plan with
  Machine here = *machine;
  if (!needs->in_memory && file->missing_bytes() == 0) {
    const DirectAlignment direct = direct_reads_of(first.path);
    here.direct_block = direct.block;
    checks.push_back({"direct reads", direct.block != 0 ? CheckVerdict::pass : CheckVerdict::warn, direct.block != 0 ? "aligned to " + std::to_string(direct.block) + " (" + direct.how + ")" : direct.how,
                      direct.block != 0 ? "" : "reads go through the page cache, which then competes for memory; a local ext4 or xfs has them"});
  }
  report.outcome = plan_run(*needs, planned_profile<P>(*kernels), here, wishes, curve);
  if (report.outcome->plan) {
    const Plan& plan = *report.outcome->plan;
    checks.push_back({"plan", plan.token.rate() < 1 ? CheckVerdict::warn : CheckVerdict::pass, plan_line(plan),
                      plan.token.rate() < 1 ? "more memory (" + to_text(plan.bill.all()) + " holds all of it), a faster disk or fewer bits a weight" : ""});
  } else {
    const Error& error = report.outcome->refusal->error;
    checks.push_back({"plan", CheckVerdict::fail, error.line(), "", error.code});
  }
  return report;
}

inline PlanJson checks_json(const std::vector<Check>& checks) {
  PlanJson list = PlanJson::array();
  for (const Check& check : checks) list.push_back({{"name", check.name}, {"verdict", name_of(check.verdict)}, {"found", check.found}, {"fix", check.fix}});
  return list;
}

inline std::string checks_text(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    text += std::string(name_of(check.verdict)) + "  " + detail::padded(check.name, 15) + check.found + "\n";
    if (!check.fix.empty()) text += "      " + std::string(15, ' ') + "-> " + check.fix + "\n";
  }
  return text;
}

}  // namespace coli
