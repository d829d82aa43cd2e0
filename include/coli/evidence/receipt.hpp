// SPDX-License-Identifier: Apache-2.0
// Does this receipt hold? Its verdict is derived again from its own samples; no model and no machine is needed.
//
//   {"schema": "coli.receipt/1", "manifest": {as manifest.hpp says},
//    "machine": {host, kernel, cpu, cpu_flags, cores, memory_bytes, read_ahead_kb, load}, "build": {commit, dirty, compiler},
//    "model": {name, bytes, fingerprint_sha256},
//    "samples": [{run, arm, kind: warmup|measured, command, started, finished (seconds since 1970), status: ok|skipped|failed,
//      exit_code, value, logits_hash, mode: {profile, isa, store, policy, threads}, tokens: {prefill, decode},
//      routes: {moe_layers, top_k}, cache: {hits, misses, bytes_read},
//      process: {peak_rss_bytes, rss_anon_bytes, rss_file_bytes, io_read_bytes, major_faults},
//      memory_limit: {limit_bytes in force, peak_bytes charged or null}, where the manifest asks for one}],
//    "arms": {baseline: {n, median, min, max}, candidate: {...}}, "quality": {gate, hash, same},
//    "verdict": {outcome, improvement, reason}, "sha256": of all the rest}
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/sha256.hpp"
#include "coli/evidence/manifest.hpp"
#include "coli/evidence/verdict.hpp"

namespace coli {

/// One thing that is wrong; `rule` names its kind.
struct ReceiptFinding {
  std::string rule, message;
};
struct ReceiptCheck {
  std::vector<ReceiptFinding> findings;  // none: it holds
  Verdict derived;

  bool holds() const noexcept { return findings.empty(); }
  bool has(std::string_view rule) const {
    return std::any_of(findings.begin(), findings.end(), [&](const ReceiptFinding& f) { return f.rule == rule; });
  }
};

/// The hash that a receipt carries of everything else in it: a change by hand shows.
inline std::string receipt_seal(nlohmann::ordered_json receipt) {
  receipt.erase("sha256");
  const std::string text = receipt.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

class ReceiptChecker {
 public:
  using Json = nlohmann::ordered_json;

  static ReceiptCheck check(const Json& receipt) {
    ReceiptChecker checker;
    checker.run(receipt);
    return std::move(checker.result_);
  }

 private:
  struct Sample {
    std::string run, hash;
    std::size_t arm = 0;
    bool measured = false;
    double started = 0, finished = 0, value = 0;
  };
  using Fields = std::initializer_list<const char*>;
  using Test = bool (Json::*)() const noexcept;

  void find(std::string rule, std::string message) { result_.findings.push_back({std::move(rule), std::move(message)}); }

  /// Exactly these fields. What is missing or not known is a finding.
  bool has_fields(const Json& object, const std::string& where, Fields fields) {
    if (!object.is_object()) return find("missing-field", where + " is not an object"), false;
    bool all = true;
    for (const char* field : fields)
      if (!object.contains(field)) find("missing-field", where + "." + field + " is missing"), all = false;
    for (const auto& [key, value] : object.items())
      if (std::find(fields.begin(), fields.end(), std::string_view(key)) == fields.end()) find("unknown-field", where + "." + key + " is no field of a receipt");
    return all;
  }
  bool are(const Json& object, const std::string& where, Test test, const char* what, Fields fields) {
    bool all = true;
    for (const char* field : fields)
      if (!(object[field].*test)()) find("wrong-type", where + "." + field + " is not " + what), all = false;
    return all;
  }
  static bool is_hash(const Json& json) { return json.is_string() && json.get_ref<const std::string&>().size() == 64 && json.get_ref<const std::string&>().find_first_not_of("0123456789abcdef") == std::string::npos; }

  void run(const Json& receipt) {
    const std::size_t least = result_.findings.size();
    if (!receipt.is_object() || !receipt.contains("schema") || receipt["schema"] != "coli.receipt/1") return find("schema", "this is no coli.receipt/1");
    if (!receipt.contains("quality")) find("missing-quality-gate", "nothing says that the output stayed the same");
    if (!has_fields(receipt, "receipt", {"schema", "manifest", "machine", "build", "model", "samples", "arms", "quality", "verdict", "sha256"})) return;
    auto manifest = Manifest::from_json(receipt["manifest"]);
    if (!manifest) {
      const Error& error = manifest.error();
      find(error.subject == "variable" ? "one-variable" : "manifest", "manifest." + error.line());
      return;
    }
    manifest_ = std::move(*manifest);
    check_surroundings(receipt);
    if (!receipt["samples"].is_array()) return find("missing-field", "samples is not a list");
    for (const Json& sample : receipt["samples"]) check_sample(sample, "samples[" + std::to_string(n_samples_++) + "]");
    if (result_.findings.size() != least && samples_.size() != n_samples_) return;  // what can't be read can't be judged
    check_order();
    check_verdict(receipt);
    if (receipt["sha256"] != receipt_seal(receipt)) find("seal", "the receipt was changed after it was written: its hash doesn't match");
  }

  void check_surroundings(const Json& receipt) {
    const Json &machine = receipt["machine"], &build = receipt["build"], &model = receipt["model"];
    if (has_fields(machine, "machine", {"host", "kernel", "cpu", "cpu_flags", "cores", "memory_bytes", "read_ahead_kb", "load"})) {
      are(machine, "machine", &Json::is_string, "a text", {"host", "kernel", "cpu", "cpu_flags"});
      are(machine, "machine", &Json::is_number, "a number", {"cores", "memory_bytes", "load"});
    }
    if (has_fields(build, "build", {"commit", "dirty", "compiler"}) && are(build, "build", &Json::is_string, "a text", {"commit", "compiler"}) && are(build, "build", &Json::is_boolean, "true or false", {"dirty"})) {
      const std::string& commit = build["commit"].get_ref<const std::string&>();
      if (commit.empty() || commit == "unknown") find("commit", "build.commit doesn't say what was measured");
      if (build["dirty"] != (commit.find("+changes") != std::string::npos)) find("commit", "build.dirty contradicts build.commit");
    }
    if (has_fields(model, "model", {"name", "bytes", "fingerprint_sha256"}) && !is_hash(model["fingerprint_sha256"])) find("model-hash", "model.fingerprint_sha256 is not 64 hexadecimal digits");
  }

  void check_sample(const Json& s, const std::string& at) {
    if (!s.is_object() || !s.contains("logits_hash") || !is_hash(s["logits_hash"])) find("missing-hash", at + " has no hash of its output");
    if (!check_limit(s, at)) return;
    Json fields = s;
    fields.erase("memory_limit");
    if (!has_fields(fields, at, {"run", "arm", "kind", "command", "started", "finished", "status", "exit_code", "value", "logits_hash", "mode", "tokens", "routes", "cache", "process"})) return;
    if (!are(s, at, &Json::is_string, "a text", {"run", "arm", "kind", "status"}) || !are(s, at, &Json::is_number, "a number", {"started", "finished", "exit_code"})) return;
    const auto arm = std::find(kArmNames.begin(), kArmNames.end(), s["arm"].get<std::string>());
    if (arm == kArmNames.end()) return find("arm", at + ".arm is neither baseline nor candidate");
    if (s["kind"] != "warmup" && s["kind"] != "measured") return find("wrong-type", at + ".kind is neither warmup nor measured");
    if (s["status"] == "skipped") return find("skipped", at + " was skipped: a skip is no sample");
    if (s["status"] != "ok" || s["exit_code"] != 0) return find("failed-run", at + " did not end well: " + s["status"].dump() + ", exit code " + s["exit_code"].dump());
    if (!s["value"].is_number() || !std::isfinite(s["value"].get<double>()) || s["value"].get<double>() <= 0) return find("not-a-number", at + ".value is not a positive number");
    Sample& sample = samples_.emplace_back();
    sample = {s["run"].get<std::string>(), s["logits_hash"].is_string() ? s["logits_hash"].get<std::string>() : "", static_cast<std::size_t>(arm - kArmNames.begin()), s["kind"] == "measured", s["started"].get<double>(), s["finished"].get<double>(), s["value"].get<double>()};
    check_command(s["command"], sample.arm, at);
    check_mode(s, sample.arm, at);
    check_counters(s, at);
  }

  /// A limit that was asked for must have been in force, and none where none was. False: nothing more can be read.
  bool check_limit(const Json& s, const std::string& at) {
    if (!s.is_object()) return find("missing-field", at + " is not an object"), false;
    if (s.contains("memory_limit") != manifest_.memory_limit.has_value()) {
      find("memory-limit", at + (manifest_.memory_limit ? " doesn't say which memory limit was in force" : " ran under a memory limit that nobody asked for"));
      return false;
    }
    if (!manifest_.memory_limit) return true;
    const Json& limit = s["memory_limit"];
    if (!has_fields(limit, at + ".memory_limit", {"limit_bytes", "peak_bytes"}) || !are(limit, at + ".memory_limit", &Json::is_number_unsigned, "a count", {"limit_bytes"})) return false;
    const auto in_force = limit["limit_bytes"].get<std::uint64_t>();
    if (!is_limit_in_force(*manifest_.memory_limit, in_force)) find("memory-limit", at + " ran under a limit of " + std::to_string(in_force) + " bytes; " + std::to_string(manifest_.memory_limit->value) + " were asked for");
    const Json& peak = limit["peak_bytes"];
    if (!peak.is_null() && (!peak.is_number_unsigned() || peak.get<std::uint64_t>() == 0 || peak.get<std::uint64_t>() > in_force))
      find("memory-limit", at + ": a peak of " + peak.dump() + " bytes can't be of a run under " + std::to_string(in_force));
    return true;
  }

  void check_command(const Json& command, std::size_t arm, const std::string& at) {
    const Json expected = manifest_.command_of(arm), other = manifest_.command_of(1 - arm);
    if (command == expected) return;
    if (command == other) return find("equal-arms", at + " ran the other arm's command: the arms are the same");
    find("two-variables", at + ".command differs in more than " + manifest_.option);
  }

  /// What was asked for by option must be what ran; and nothing but the variable may differ between samples.
  void check_mode(const Json& s, std::size_t arm, const std::string& at) {
    const Json& mode = s["mode"];
    if (!has_fields(mode, at + ".mode", {"profile", "isa", "store", "policy", "threads"})) return;
    const std::vector<std::string> words = manifest_.command_of(arm);
    constexpr std::array<std::pair<std::string_view, const char*>, 4> kAsked{{{"--profile", "profile"}, {"--store", "store"}, {"--evict", "policy"}, {"--threads", "threads"}}};
    for (const auto& [option, field] : kAsked) {
      for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        if (words[i] != option || words[i + 1] == "auto" || words[i + 1] == "memory") continue;
        const std::string ran = mode[field].is_string() ? mode[field].get<std::string>() : mode[field].dump();
        // A store's rung may say more than its kind: "uring, direct".
        if (!ran.starts_with(words[i + 1])) find("fallback", at + " asked for " + std::string(option) + " " + words[i + 1] + " and ran " + ran);
      }
      if (option == manifest_.option) continue;
      same_as_first(field, mode[field], at);
    }
    if (manifest_.option != "--profile") same_as_first("isa", mode["isa"], at);
  }
  void same_as_first(const char* field, const Json& value, const std::string& at) {
    const auto [first, is_new] = modes_.emplace(field, value);
    if (!is_new && first->second != value) find("two-variables", at + ".mode." + field + " differs from the first sample's");
  }

  void check_counters(const Json& s, const std::string& at) {
    const Json &tokens = s["tokens"], &routes = s["routes"], &cache = s["cache"], &process = s["process"];
    if (!has_fields(tokens, at + ".tokens", {"prefill", "decode"}) || !are(tokens, at + ".tokens", &Json::is_number_unsigned, "a count", {"prefill", "decode"})) return;
    if (!has_fields(routes, at + ".routes", {"moe_layers", "top_k"}) || !are(routes, at + ".routes", &Json::is_number_unsigned, "a count", {"moe_layers", "top_k"})) return;
    if (!has_fields(cache, at + ".cache", {"hits", "misses", "bytes_read"}) || !are(cache, at + ".cache", &Json::is_number_unsigned, "a count", {"hits", "misses", "bytes_read"})) return;
    if (!has_fields(process, at + ".process", {"peak_rss_bytes", "rss_anon_bytes", "rss_file_bytes", "io_read_bytes", "major_faults"}) || !are(process, at + ".process", &Json::is_number_unsigned, "a count", {"peak_rss_bytes", "rss_anon_bytes", "rss_file_bytes", "io_read_bytes", "major_faults"})) return;
    const auto [first, is_new] = modes_.emplace("tokens", tokens);
    if (!is_new && first->second != tokens) find("two-variables", at + ".tokens differ from the first sample's: not the same work");
    const auto u = [](const Json& json) { return json.get<std::uint64_t>(); };
    // A token asks for top_k experts a layer; tokens of one prefill pass may share them.
    const std::uint64_t a_token = u(routes["moe_layers"]) * u(routes["top_k"]), asked = u(cache["hits"]) + u(cache["misses"]);
    if (asked > (u(tokens["prefill"]) + u(tokens["decode"])) * a_token || asked < u(tokens["decode"]) * a_token)
      find("counters", at + ": " + std::to_string(asked) + " hits and misses can't be of one run of " + std::to_string(u(tokens["prefill"]) + u(tokens["decode"])) + " tokens: counters were not reset, or not kept");
    if (manifest_.metric.starts_with("cache.")) {  // counted twice in a sample: both must say the same
      const std::string counter = manifest_.metric.substr(6);
      if (cache.contains(counter) && cache[counter] != s["value"]) find("contradiction", at + ".value is " + s["value"].dump() + ", and cache." + counter + " is " + cache[counter].dump());
    }
    if (manifest_.metric == "decode_tps" || manifest_.metric == "prefill_tps") {  // the work must fit into the time that it took
      const double working = static_cast<double>(u(tokens[manifest_.metric == "decode_tps" ? "decode" : "prefill"])) / s["value"].get<double>();
      if (const double took = s["finished"].get<double>() - s["started"].get<double>(); took > 0 && working > took * 1.001 + 0.001)
        find("impossible-time", at + ": at " + s["value"].dump() + " tok/s its tokens take " + std::to_string(working) + " s; the run took " + std::to_string(took));
    }
    if (manifest_.memory_limit && u(process["peak_rss_bytes"]) > manifest_.memory_limit->value) find("over-limit", at + " held " + process["peak_rss_bytes"].dump() + " bytes under a limit of " + std::to_string(manifest_.memory_limit->value));
    if (const std::uint64_t read = u(cache["bytes_read"]); manifest_.cold && u(process["io_read_bytes"]) < read - read / 50)
      find("not-cold", at + " read " + process["io_read_bytes"].dump() + " bytes from disk for " + std::to_string(read) + " of experts: the caches were not cold");
  }

  void check_order() {
    std::array<std::uint32_t, 2> measured{}, warmups{};
    std::set<std::string> runs;
    for (const Sample& s : samples_) {
      ++(s.measured ? measured : warmups)[s.arm];
      if (!runs.insert(s.run).second) find("one-run-one-sample", "run " + s.run + " stands for more than one sample");
      if (!(s.finished > s.started) || s.started <= 0) find("clock", "run " + s.run + " ended before it began");
    }
    if (measured[0] == 0) find("missing-control", "there is no baseline: nothing to compare with");
    if (measured[1] == 0) find("missing-candidate", "there is no candidate");
    for (std::size_t arm = 0; arm < 2; ++arm) {
      if (measured[arm] < kLeastSamples && measured[arm] != 0) find("too-few", std::string(kArmNames[arm]) + " has " + std::to_string(measured[arm]) + " samples; " + std::to_string(kLeastSamples) + " are the least");
      if (measured[arm] != manifest_.n && measured[arm] >= kLeastSamples) find("dropped-samples", std::string(kArmNames[arm]) + " has " + std::to_string(measured[arm]) + " of the " + std::to_string(manifest_.n) + " samples that the manifest asked for");
      if (warmups[arm] < std::max(1U, manifest_.warmup)) find("missing-warmup", std::string(kArmNames[arm]) + " was not warmed up");
    }
    for (std::size_t i = 1; i < samples_.size(); ++i) {
      if (!samples_[i - 1].measured || samples_[i].measured) continue;
      find("order", "a warm-up follows a measured run");
      break;
    }
    std::vector<const Sample*> by_time, listed;
    for (const Sample& s : samples_)
      if (s.measured) by_time.push_back(&s), listed.push_back(&s);
    std::stable_sort(by_time.begin(), by_time.end(), [](const Sample* a, const Sample* b) { return a->started < b->started; });
    for (std::size_t i = 1; i < samples_.size(); ++i)
      if (samples_[i].started < samples_[i - 1].finished) {
        find("clock", "run " + samples_[i].run + " began before the one listed before it had ended");
        break;
      }
    if (measured[0] == 0 || measured[1] == 0) return;
    if (by_time.front()->arm != 0) return find("control-first", "the candidate was measured before the baseline");
    const std::vector<std::size_t> expected = manifest_.order();
    for (std::size_t i = 0; i < std::min(by_time.size(), expected.size()); ++i)
      if (by_time[i]->arm != expected[i]) return find("not-interleaved", "the arms are not interleaved ABBA: drift would count as an effect");
  }

  void check_verdict(const Json& receipt) {
    std::array<std::vector<double>, 2> values;
    bool same = true;
    for (const Sample& s : samples_) {
      if (s.measured) values[s.arm].push_back(s.value);
      same = same && s.hash == samples_.front().hash;
    }
    result_.derived = judge(values[0], values[1], manifest_.higher, same && !samples_.empty(), manifest_.identical());
    const Json& quality = receipt["quality"];
    if (has_fields(quality, "quality", {"gate", "hash", "same"})) {
      if (quality["gate"] != manifest_.quality) find("quality", "quality.gate is not the manifest's");
      if (quality["same"] != same) find("quality", std::string("quality.same says ") + quality["same"].dump() + "; the samples' hashes are " + (same ? "equal" : "different"));
      if (!samples_.empty() && quality["hash"] != samples_.front().hash) find("quality", "quality.hash is no sample's");
    }
    if (!same) find("quality", "the output differs between runs: no time counts");
    if (has_fields(receipt["arms"], "arms", {"baseline", "candidate"}))
      for (std::size_t arm = 0; arm < 2; ++arm) {
        const std::string name(kArmNames[arm]);
        const Json& told = receipt["arms"][name];
        if (!has_fields(told, "arms." + name, {"n", "median", "min", "max"})) continue;
        const Spread spread = Spread::of(values[arm]);
        for (const auto& [field, value] : {std::pair{"n", static_cast<double>(spread.n)}, std::pair{"median", spread.median}, std::pair{"min", spread.least}, std::pair{"max", spread.most}})
          if (!told[field].is_number() || !close(told[field].get<double>(), value)) find("wrong-" + std::string(field), "arms." + name + "." + field + " is " + told[field].dump() + "; the samples give " + Json(value).dump());
      }
    const Json& verdict = receipt["verdict"];
    if (!has_fields(verdict, "verdict", {"outcome", "improvement", "reason"})) return;
    if (result_.derived.outcome == Outcome::invalid) return find("invalid", result_.derived.reason);
    if (verdict["outcome"] != std::string(name_of(result_.derived.outcome))) {
      const bool equal = manifest_.identical();
      find(equal ? "equal-arms" : result_.derived.reason.find("overlap") != std::string::npos ? "overlap" : "wrong-verdict", "the verdict says " + verdict["outcome"].dump() + "; the samples give " + std::string(name_of(result_.derived.outcome)) + ": " + result_.derived.reason);
    } else if (verdict["reason"] != result_.derived.reason) {
      find("wrong-verdict", "the verdict's reason is not the samples': " + result_.derived.reason);
    }
    if (!verdict["improvement"].is_number() || !close(verdict["improvement"].get<double>() + 1, result_.derived.improvement + 1)) find("wrong-improvement", "the verdict says an improvement of " + verdict["improvement"].dump() + "; the samples give " + Json(result_.derived.improvement).dump());
  }

  static bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

  ReceiptCheck result_;
  Manifest manifest_;
  std::vector<Sample> samples_;
  std::size_t n_samples_ = 0;
  std::map<std::string, Json> modes_;  // of the first sample
};

inline ReceiptCheck check_receipt(const nlohmann::ordered_json& receipt) { return ReceiptChecker::check(receipt); }

}  // namespace coli
