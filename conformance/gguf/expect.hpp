// SPDX-License-Identifier: Apache-2.0
// Is this file refused for that reason, and is what is accepted sound?
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/model_file.hpp"
#include "raw_file.hpp"

namespace coli::gguf::test {

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// An error of this code, about this subject, whose message says so, on one line that names the file.
template <class T>
void expect_error(const Result<T>& result, Errc code, std::string_view subject, std::string_view says,
                  std::string_view file) {
  BOOST_TEST_REQUIRE(!result.has_value());
  const Error& error = result.error();
  BOOST_TEST_INFO(error.line());
  BOOST_TEST((error.code == code));
  BOOST_TEST(error.subject == subject);
  BOOST_TEST(error.file == file);
  BOOST_TEST(contains(error.message, says), "message is: " << error.message << "\n  wanted: " << says);
  BOOST_TEST(!contains(error.line(), "\n"));
}

inline void expect_refused(std::string_view bytes, std::string_view subject, std::string_view says) {
  expect_error(ModelFile::parse(bytes_of(bytes), "x.gguf"), Errc::bad_input, subject, says, "x.gguf");
}

inline void expect_accepted(std::string_view bytes) {
  const auto model = ModelFile::parse(bytes_of(bytes), "x.gguf");
  BOOST_TEST(model.has_value(), (model ? "" : model.error().line()));
}

/// What every open file promises; false where it is broken. Plain bool: it runs hundreds of thousands of times.
inline bool sound(const ModelFile& model) {
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> ranges(model.shards().size());
  for (const TensorInfo& t : model.tensors()) {
    if (t.file >= model.shards().size() || t.type == nullptr || t.type->removed() || t.type->id != t.type_id)
      return false;
    const ModelFile::Shard& shard = model.shards()[t.file];
    if (t.offset < shard.data_offset || t.offset > shard.size || t.bytes > shard.size - t.offset || t.bytes == 0)
      return false;
    if (t.offset % shard.alignment != 0 || t.n_dims > kMaxDims || t.name.empty()) return false;
    if (t.rows() * t.row_bytes() != t.bytes || t.dims[0] % t.type->values_per_block != 0) return false;
    if (model.find(t.name) != &t) return false;
    ranges[t.file].emplace_back(t.offset, t.offset + t.bytes);
  }
  for (auto& shard : ranges) {
    std::ranges::sort(shard);
    for (std::size_t i = 1; i < shard.size(); ++i)
      if (shard[i - 1].second > shard[i].first) return false;
  }
  for (const auto& line : model.metadata().keys()) {
    if (line.key.empty() || !model.metadata().contains(line.key) || line.value.size() > 400) return false;
    if (const auto strings = model.metadata().find_strings(line.key))
      for (std::size_t i = 0; i < (*strings)->size(); ++i)
        if ((**strings)[i].size() > (1u << 28)) return false;
  }
  return true;
}

}  // namespace coli::gguf::test
