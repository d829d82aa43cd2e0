// SPDX-License-Identifier: Apache-2.0
#include "driver/build_info.hpp"

#include <fstream>

namespace colidrv {

#ifndef COLI_COMMIT
#define COLI_COMMIT "unknown"
#endif

std::string build_commit() { return COLI_COMMIT; }

std::string build_compiler() {
#if defined(__clang__)
  std::string text = "clang " __clang_version__;
#else
  std::string text = "g++ " __VERSION__;
#endif
#if defined(__OPTIMIZE__)
  return text + " optimised";
#else
  return text + " not optimised";
#endif
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string name, family, model;
  for (std::string line; std::getline(info, line);) {
    const auto value = [&] { return line.substr(std::min(line.find(':') + 2, line.size())); };
    if (line.starts_with("model name")) name = value();
    else if (line.starts_with("cpu family")) family = value();
    else if (line.starts_with("model\t")) model = value();
    else if (line.empty()) break;
  }
  if (name.empty()) return "unknown processor";
  return family.empty() ? name : name + " (family " + family + ", model " + model + ")";
}

}  // namespace colidrv
