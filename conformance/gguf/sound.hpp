// SPDX-License-Identifier: Apache-2.0
// Does an open file keep its promises? Tests and fuzz targets ask it of everything that was accepted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/model_file.hpp"

namespace coli::gguf::test {

/// People read errors: valid UTF-8 without line ends or other control characters.
inline bool one_line(const Error& error) {
  const std::string line = error.line();
  for (std::string_view rest = line; !rest.empty();) {
    const std::size_t n = utf8_length(rest);
    if (n == 0 || static_cast<unsigned char>(rest.front()) < 0x20) return false;
    rest.remove_prefix(n);
  }
  return true;
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

/// Whatever types its keys have, every accessor answers with a value or with an error of one line that names the key.
inline bool answers(const Metadata& metadata) {
  const auto orderly = [](const auto& result) {
    if (result) return true;
    const Error& error = result.error();
    return error.code == Errc::bad_input && !error.message.empty() && !error.subject.empty() && one_line(error);
  };
  for (const auto& line : metadata.keys()) {
    const auto key = line.key;
    if (!orderly(metadata.get<std::uint32_t>(key)) || !orderly(metadata.get<std::int64_t>(key)) ||
        !orderly(metadata.get<std::uint64_t>(key)) || !orderly(metadata.get<bool>(key)) ||
        !orderly(metadata.get<float>(key)) || !orderly(metadata.get<double>(key)) ||
        !orderly(metadata.find<std::string_view>(key)) || !orderly(metadata.strings(key)) ||
        !orderly(metadata.integers(key)) || !orderly(metadata.floats(key)))
      return false;
  }
  return true;
}

}  // namespace coli::gguf::test
