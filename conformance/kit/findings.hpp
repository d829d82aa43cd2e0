// SPDX-License-Identifier: Apache-2.0
// Which laws did somebody's policy break? A list of sentences, for any test framework or none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coli::conformance {

/// What `check_*_laws` return: empty where every law holds. A law that is broken often is told a few times, and counted.
class Findings {
 public:
  Findings() = default;
  explicit Findings(std::string subject) : subject_(std::move(subject)) {}

  /// True where it holds, so that a check that can't go on may stop.
  bool check(bool holds, std::string_view law, std::string_view detail = {}) {
    ++n_checked_;
    if (holds) return true;
    ++n_broken_;
    if (broken_.size() < kMostTold) {
      std::string line = subject_.empty() ? std::string(law) : subject_ + ": " + std::string(law);
      if (!detail.empty()) line += ": " + std::string(detail);
      broken_.push_back(std::move(line));
    }
    return false;
  }
  void add(const Findings& other) {
    n_checked_ += other.n_checked_;
    n_broken_ += other.n_broken_;
    for (const std::string& line : other.broken_)
      if (broken_.size() < kMostTold) broken_.push_back(line);
  }

  /// Every law held, and at least one was checked: nothing checked is no proof.
  explicit operator bool() const noexcept { return n_checked_ != 0 && n_broken_ == 0; }
  std::size_t n_checked() const noexcept { return n_checked_; }
  std::size_t n_broken() const noexcept { return n_broken_; }
  const std::vector<std::string>& broken() const noexcept { return broken_; }
  /// Lines; the first is a summary.
  std::string text() const {
    std::string text = std::to_string(n_checked_) + " checks, " + std::to_string(n_broken_) + " broken";
    for (const std::string& line : broken_) text += "\n  " + line;
    return text;
  }

 private:
  static constexpr std::size_t kMostTold = 20;
  std::string subject_;
  std::vector<std::string> broken_;
  std::size_t n_checked_ = 0, n_broken_ = 0;
};

}  // namespace coli::conformance
