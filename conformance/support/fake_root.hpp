// SPDX-License-Identifier: Apache-2.0
// A machine made of files: a temporary directory that stands for "/", removed afterwards.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace coli::conformance {

class FakeRoot {
 public:
  FakeRoot() {
    std::string pattern = (std::filesystem::temp_directory_path() / "coli-root-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  FakeRoot& file(std::string_view path, std::string_view text) {
    const std::filesystem::path full = path_ + std::string(path);
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace coli::conformance
