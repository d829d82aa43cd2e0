// SPDX-License-Identifier: Apache-2.0
// Which model is this, to the byte? The SHA-256 of a file, or of a split set's shards one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/sha256.hpp"
#include "coli/gguf/byte_source.hpp"
#include "coli/gguf/model_file.hpp"

namespace coli::gguf {

/// Reads everything once. Errors: io, naming the shard.
inline Result<std::string> hash_of(const ModelFile& model) {
  Sha256 hash;
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (const auto& shard : model.shards()) {
    if (!shard.memory.empty()) {
      hash.update(shard.memory);
      continue;
    }
    auto source = ByteSource::open(shard.path);
    if (!source) return std::move(source).error().in_file(shard.path);
    for (std::uint64_t at = 0; at < source->size();) {
      const std::span<std::byte> part = std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), source->size() - at)));
      if (auto read = source->read(at, part); !read) return std::move(read).error().in_file(shard.path);
      hash.update(part);
      at += part.size();
    }
  }
  return hash.hex();
}

}  // namespace coli::gguf
