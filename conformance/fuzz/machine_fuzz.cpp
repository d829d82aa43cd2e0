// SPDX-License-Identifier: Apache-2.0
// Any bytes in the files that a machine's limits are read from: a reading, or one line that names the file.
//
// Input: the files' texts, one after the other, each ended by a zero byte, in the order of kFiles.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "coli/plan/cpus.hpp"
#include "coli/plan/memory.hpp"
#include "fake_root.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr std::array<std::string_view, 11> kFiles{
    "/proc/self/mountinfo",        "/proc/self/cgroup",          "/proc/meminfo",             "/proc/self/status", "/proc/self/limits",
    "/cg/memory.max",              "/cg/memory.current",         "/cg/memory.stat",           "/cg/cpu.max",       "/cg/a/memory.limit_in_bytes",
    "/cg/a/memory.usage_in_bytes"};

void check(const coli::Error& error, const std::string& root) {
  require(error.code == coli::Errc::bad_input && error.message.find('\n') == std::string::npos && error.message.size() < 400);
  require(error.file.starts_with(root) || !error.subject.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static coli::conformance::FakeRoot root;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const std::string_view path : kFiles) {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    root.file(path, text);
  }
  const auto memory = coli::available_memory(root.path());
  if (!memory) check(memory.error(), root.path());
  const auto cpus = coli::read_cpus(root.path());
  if (!cpus) check(cpus.error(), root.path());
  require(coli::available_cores(root.path()) >= 1);
  return 0;
}
