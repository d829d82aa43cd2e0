// SPDX-License-Identifier: Apache-2.0
// How are 150,000 tokens held? As one blob of bytes and where each string ends in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coli::gguf {

/// An array of strings, as read from metadata. Views stay valid as long as the array lives and is not appended to.
class StringArray {
 public:
  std::size_t size() const noexcept { return ends_.size(); }
  bool empty() const noexcept { return ends_.empty(); }

  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(blob_).substr(begin, ends_[i] - begin);
  }

  /// For readers: the next string's bytes go to `blob()`, then `end_string()` closes it.
  std::string& blob() noexcept { return blob_; }
  void end_string() { ends_.push_back(static_cast<std::uint32_t>(blob_.size())); }
  void reserve(std::size_t strings) { ends_.reserve(strings); }

 private:
  std::string blob_;
  std::vector<std::uint32_t> ends_;  // 32 bits: headers are bounded far below 4 GiB (kMaxHeaderBytes)
};

}  // namespace coli::gguf
