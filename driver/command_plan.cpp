// SPDX-License-Identifier: Apache-2.0
// colidrv plan: what fits, and how fast will it be? colidrv doctor: would it run here, and what is missing?
#include <cstdio>

#include "coli/plan_measure.hpp"
#include "coli/plan_report.hpp"
#include "coli/probe.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"

namespace colidrv {
namespace {

struct PlanOptions {
  ModelOptions model;
  std::vector<std::string> models;
  std::optional<std::string> disk, disk_rate, memory_rate;
  std::vector<std::string> formats;
  std::uint32_t prompt = 16;
  std::string reuse;
  bool measure = false;
  std::string json;
};

coli::Result<coli::gguf::ModelFile> open_header(const std::string& path) {
  return path.empty() ? open_file(path) : coli::gguf::ModelFile::open(path, coli::gguf::Data::may_be_missing);
}

coli::Result<coli::ReuseCurve> reuse_curve(const std::string& path) {
  return path.empty() ? coli::Result<coli::ReuseCurve>(coli::ReuseCurve::fallback()) : coli::ReuseCurve::read(path);
}

/// `said` in the words of people who ask for a rate: "1.5G" is 1.5 GiB a second.
coli::Result<void> set_rate(coli::RateReading& rate, const std::optional<std::string>& said, const std::string& option) {
  COLI_TRY(bytes, size_option(said, option));
  if (bytes) rate = {static_cast<double>(bytes->value), option};
  return {};
}

coli::Result<void> measure_into(coli::Machine& machine, const coli::gguf::ModelFile& file, unsigned threads, const ProfileEntry& profile, bool quiet) {
  COLI_TRY(notes, coli::measure_rates(machine, file, threads, profile.measure));
  for (const std::string& note : notes)
    if (!quiet) std::fprintf(stderr, "note: %s\n", note.c_str());
  return {};
}

/// This build's profile for graphics cards; null where it holds none.
const ProfileEntry* card_entry() {
  for (const ProfileEntry* p : profiles())
    if (p->about->processor == coli::Processor::device) return p;
  return nullptr;
}

/// That profile as far as plans go, whether it is in this build and runs here or not.
coli::Result<coli::PlannedProfile> card_profile() {
  const ProfileEntry* const entry = card_entry();
  return entry != nullptr ? entry->planned() : coli::supposed_card();
}

coli::Result<void> plan(const PlanOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(wishes, options.model.wishes());
  COLI_TRY(disk, size_option(options.disk, "--disk"));
  wishes.disk = disk, wishes.prompt_tokens = options.prompt;
  COLI_TRY(curve, reuse_curve(options.reuse));
  COLI_TRY(profile, find_profile(options.model.profile));
  std::vector<std::optional<coli::Format>> formats;
  for (const std::string& name : options.formats) {
    formats.push_back(coli::format_named(name));
    if (!formats.back()) return coli::Error{coli::Errc::usage, "'" + name + "' is no format; there are " + names_of(coli::FormatSet::all()), "--formats"};
  }
  if (formats.empty()) formats.push_back(std::nullopt);  // as they are

  std::vector<coli::ModelNeeds> needs;
  std::optional<coli::gguf::ModelFile> first;
  for (const std::string& path : options.models.empty() ? std::vector<std::string>{""} : options.models) {
    COLI_TRY(file, open_header(path));
    for (const auto format : formats) {
      auto model = coli::model_needs(file, profile->formats, format);
      if (!model) return std::move(model).error().in_file(path);
      if (format) model->name += " in " + std::string(name_of(*format));
      needs.push_back(std::move(*model));
    }
    if (!first) first = std::move(file);
  }
  COLI_TRY(machine, machine_for(*first));
  if (options.measure) COLI_CHECK(measure_into(machine, *first, wishes.threads, *profile, options.json == "-"));
  COLI_CHECK(set_rate(machine.disk_rate, options.disk_rate, "--disk-rate"));
  COLI_CHECK(set_rate(machine.memory_rate, options.memory_rate, "--memory-rate"));

  COLI_TRY(here, profile->planned());
  std::vector<coli::PlannedProfile> candidates{here};
  if (profile->device != nullptr) {
    COLI_TRY(card, profile->device());
    machine.device = std::move(card);
  } else if (wishes.vram && wishes.vram->value != 0) {
    machine.device = coli::DeviceReading{"a supposed card", *wishes.vram, {500e9, "default, not measured: 500 GB/s"}, {12e9, "default, not measured: 12 GB/s"}, "--vram"};
    if (options.model.profile == "auto") {
      COLI_TRY(card, card_profile());
      candidates.insert(candidates.begin(), std::move(card));
    }
  }
  const coli::PlanOutcome outcome = coli::choose_plan(needs, candidates, machine, wishes, curve);
  Json out = outcome.plan ? coli::plan_json(*outcome.plan) : coli::refusal_json(*outcome.refusal);
  out["machine"] = coli::machine_json(machine);
  std::string why_not;
  for (const coli::PlannedProfile& p : candidates)
    if (outcome.plan && outcome.plan->profile == p.name) why_not = p.why_not;
  if (first->missing_bytes() != 0) why_not += std::string(why_not.empty() ? "" : "; ") + std::to_string(first->missing_bytes()) + " bytes of the file are not there";
  out["runs_here"] = outcome.plan.has_value() && why_not.empty();
  out["why_not"] = why_not;
  if (options.json != "-" && outcome.plan) std::fputs((coli::plan_text(*outcome.plan) + (why_not.empty() ? "" : "\nnot here: " + why_not + "\n")).c_str(), stdout);
  if (options.json != "-" && outcome.refusal && outcome.refusal->needed.value != 0) std::fputs((coli::refusal_text(*outcome.refusal) + "\n").c_str(), stdout);
  if (!options.json.empty()) COLI_CHECK(write_json(out, options.json));
  if (outcome.refusal) return coli::Error(outcome.refusal->error).in_file(needs.front().name);
  return {};
}

struct DoctorOptions {
  std::string model, json, profile = "auto";
  std::optional<std::string> memory;
  bool no_measure = false;
};

coli::Result<void> doctor(const DoctorOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  const auto profile = find_profile(options.profile);
  const auto file = open_header(options.model);
  coli::Result<coli::Machine> machine = file ? machine_for(*file) : coli::read_machine();
  std::vector<coli::Check> checks;
  for (const ProfileEntry* p : profiles())
    if (p->isa != nullptr) {
      const std::string why_not = p->why_not();
      checks.push_back({"instructions", why_not.empty() ? coli::CheckVerdict::pass : coli::CheckVerdict::warn, why_not.empty() ? p->isa() : why_not, why_not.empty() ? "" : "auto takes the profile scalar"});
    }
  for (coli::Check& check : coli::probe_machine(machine)) checks.push_back(std::move(check));
  for (coli::Check& check : coli::probe_cards(coli::read_cards(card_entry() != nullptr ? card_entry()->card_needs : coli::CardNeeds{}))) checks.push_back(std::move(check));

  coli::PlanWishes wishes;
  COLI_TRY(limit, size_option(options.memory, "--memory"));
  wishes.memory = limit;
  if (!profile) {
    checks.push_back({"profile", coli::CheckVerdict::fail, profile.error().line(), "colidrv profiles lists them", profile.error().code});
  } else if (machine && (*profile)->device != nullptr) {
    auto card = (*profile)->device();
    if (card) machine->device = *std::move(card);
    else checks.push_back({"device", coli::CheckVerdict::fail, card.error().line(), "", card.error().code});
  } else if (machine && file && !options.no_measure) {
    const auto notes = coli::measure_rates(*machine, *file, 0, (*profile)->measure);
    const auto told = [](const coli::RateReading& r) { return coli::detail::printed("%.2f", r.bytes_per_second / 1e9) + " GB/s (" + r.source + ")"; };
    if (notes) {
      for (const std::string& note : *notes) checks.push_back({"measuring", coli::CheckVerdict::warn, note, "the default rate stands"});
      const bool slow = machine->disk_rate.source.starts_with("measured") && machine->disk_rate.bytes_per_second < 0.3e9;
      checks.push_back({"disk rate", slow ? coli::CheckVerdict::warn : coli::CheckVerdict::pass, told(machine->disk_rate), slow ? "streaming will be slow from here: put the model on a faster disk" : ""});
      checks.push_back({"memory rate", coli::CheckVerdict::pass, told(machine->memory_rate)});
      if (machine->weight_rate) checks.push_back({"weights rate", coli::CheckVerdict::pass, told(*machine->weight_rate)});
    }
  }
  Json out{{"profile", nullptr}, {"header_bytes_read", nullptr}};
  if (profile) {
    coli::ProbeReport report = (*profile)->probe(file, machine, wishes, coli::ReuseCurve::fallback());
    for (coli::Check& check : report.checks) checks.push_back(std::move(check));
    out["profile"] = (*profile)->name, out["header_bytes_read"] = report.header_bytes_read;
    if (report.outcome) out["plan"] = report.outcome->plan ? coli::plan_json(*report.outcome->plan) : coli::refusal_json(*report.outcome->refusal);
  }
  const coli::Result<void> verdict = coli::ProbeReport{checks}.verdict();
  out["runs_here"] = verdict.has_value();
  out["checks"] = coli::checks_json(checks);
  if (options.json != "-") std::fputs(coli::checks_text(checks).c_str(), stdout);
  if (!options.json.empty()) COLI_CHECK(write_json(out, options.json));
  return verdict;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App& command = *app.add_subcommand("plan", "what fits this machine, or these budgets, and how fast it will be; reads headers only");
  command.add_option("MODEL", options->models, "GGUF file; several files of one model: the best is chosen; without it, the embedded model");
  options->model.add_wishes_to(command);
  command.add_option("--disk", options->disk, "bytes of disk that the model's file may take");
  command.add_option("--formats", options->formats, "choose among these instead of the file's own, for example Q8_0,Q6_K,Q4_K")->delimiter(',');
  command.add_option("--prompt-tokens", options->prompt, "length of the prompt that the time to the first token is reckoned for")->check(CLI::Range(1U, 1U << 20))->capture_default_str();
  command.add_option("--reuse", options->reuse, "recorded reuse curve: lines of share,hits (shares of all experts held, shares of uses that hit)");
  command.add_flag("--measure", options->measure, "measure disk, memory and kernels (about two seconds; reads the model's file)");
  command.add_option("--disk-rate", options->disk_rate, "bytes a second that the disk reads, with K, M or G");
  command.add_option("--memory-rate", options->memory_rate, "bytes a second that all cores read from memory, with K, M or G");
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return plan(*options); }; });
}

void add_doctor(CLI::App& app, Action& action) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App& command = *app.add_subcommand("doctor", "would a model run here? Each check with what was found and what would mend it");
  command.add_option("MODEL", options->model, "GGUF file; without it, the embedded model");
  command.add_option("--profile", options->profile, "named engine, or auto")->capture_default_str();
  command.add_option("--memory", options->memory, "as for run");
  command.add_flag("--no-measure", options->no_measure, "leave rates at their defaults: nothing but headers is read");
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return doctor(*options); }; });
}

}  // namespace colidrv
