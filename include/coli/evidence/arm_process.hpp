// SPDX-License-Identifier: Apache-2.0
// Runs one arm of an experiment as a process of its own: caches dropped, in a group of that limit, its result read back.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "coli/core/bounded_json.hpp"
#include "coli/core/error.hpp"
#include "coli/evidence/limited_group.hpp"

extern "C" char** environ;

namespace coli {

/// Drops what the system caches of these files. Errors: io.
inline Result<void> drop_cached(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Error{Errc::io, "cannot open: " + std::generic_category().message(errno), "", path};
    ::fdatasync(fd);
    const int code = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
    if (code != 0) return Error{Errc::io, "cannot drop its cached pages: " + std::generic_category().message(code), "", path};
  }
  return {};
}

/// Runs `program words... --quiet --json FILE`; standard output goes nowhere. `exit_code` is set where it ran.
/// Errors: io, where it can't be started or read.
inline Result<nlohmann::ordered_json> run_program(const std::string& program, const std::vector<std::string>& words, const LimitedGroup* group, int& exit_code) {
  std::string result = (std::filesystem::temp_directory_path() / "coli-experiment-XXXXXX").string();
  const int fd = ::mkstemp(result.data());
  if (fd < 0) return Error{Errc::io, "cannot make a temporary file: " + std::generic_category().message(errno)};
  ::close(fd);
  // The shell enters the group before it becomes the program: every page is charged to the group.
  std::vector<std::string> all{"/bin/sh", "-c", "if [ -n \"$0\" ]; then echo $$ > \"$0\" || exit 126; fi; exec \"$@\"", group != nullptr ? group->processes() : "", program};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"--quiet", "--json", result});
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed == 0)
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  std::ifstream file(result, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(result);
  if (failed != 0) return Error{Errc::io, "cannot start a run: " + std::generic_category().message(failed)};
  exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  nlohmann::ordered_json json = parse_bounded_json(text);
  return json.is_object() ? json : nlohmann::ordered_json::object();
}

/// A sample's own fields from what `run --json` says. `metric` is a figure of its stats; a dot goes one level down
/// ("decode_tps", "cache.bytes_read"). Errors: bad_input, where it isn't there; mismatch, where the run failed.
inline Result<nlohmann::ordered_json> sample_of(const nlohmann::ordered_json& run, const std::string& metric, int exit_code, std::uint64_t moe_layers, std::uint64_t top_k) {
  using Json = nlohmann::ordered_json;
  if (exit_code != 0 || !run.contains("stats") || !run["stats"].is_object()) return Error{Errc::mismatch, "a run ended with exit code " + std::to_string(exit_code) + ": there is nothing to measure"};
  const Json& stats = run["stats"];
  const std::size_t dot = metric.find('.');
  const Json level = dot == std::string::npos ? stats : stats.value(metric.substr(0, dot), Json());
  const Json value = level.is_object() ? level.value(metric.substr(dot == std::string::npos ? 0 : dot + 1), Json()) : Json();
  if (!value.is_number()) {
    std::string there;
    for (const auto& [key, figure] : stats.items())
      if (figure.is_number()) there += " " + key;
    return Error{Errc::bad_input, "a run has no figure '" + metric + "'; it has:" + there, "metric"};
  }
  return Json{{"status", "ok"},
              {"exit_code", exit_code},
              {"value", value},
              {"logits_hash", run.value("logits_hash", Json())},
              {"mode", {{"profile", run.value("profile", Json())}, {"isa", stats.value("isa", Json())}, {"store", stats["cache"].value("store", Json())}, {"policy", stats["cache"].value("policy", Json())}, {"threads", stats.value("threads", Json())}}},
              {"tokens", {{"prefill", stats.value("prefill_tokens", Json())}, {"decode", stats.value("decode_tokens", Json())}}},
              {"routes", {{"moe_layers", moe_layers}, {"top_k", top_k}}},
              {"cache", {{"hits", stats["cache"].value("hits", Json())}, {"misses", stats["cache"].value("misses", Json())}, {"bytes_read", stats["cache"].value("bytes_read", Json())}}},
              {"process", stats.value("process", Json())}};
}

}  // namespace coli
