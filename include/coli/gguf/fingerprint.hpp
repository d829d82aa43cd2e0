// SPDX-License-Identifier: Apache-2.0
// Is it the same model? A SHA-256 that takes milliseconds on any size: of all headers and of the first bytes of every tensor.
//
// Hashing 18 GB takes longer than a run; a name or a header alone wouldn't notice exchanged weights. Two files with equal
// fingerprints have the same metadata, the same tensors at the same places, and each tensor begins alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/sha256.hpp"
#include "coli/gguf/byte_source.hpp"
#include "coli/gguf/model_file.hpp"

namespace coli::gguf {

inline constexpr std::uint64_t kFingerprintBytes = 4096;  // of each tensor

/// 64 hexadecimal digits. Errors: io.
inline Result<std::string> fingerprint(const ModelFile& model) {
  Sha256 hash;
  std::vector<std::byte> buffer;
  const auto take = [&](ByteSource& source, std::uint64_t offset, std::uint64_t n) -> Result<void> {
    buffer.resize(n);
    COLI_CHECK(source.read(offset, buffer));
    hash.update(buffer);
    return {};
  };
  for (std::size_t s = 0; s < model.shards().size(); ++s) {
    const auto& shard = model.shards()[s];
    auto opened = shard.memory.empty() ? ByteSource::open(shard.path) : ByteSource::over(shard.memory);
    if (!opened) return std::move(opened).error();
    if (auto header = take(*opened, 0, std::min(shard.data_offset, shard.size)); !header) return std::move(header).error().in_file(shard.path);
    for (const TensorInfo& tensor : model.tensors()) {
      if (tensor.file != s) continue;
      const std::uint64_t n = std::min(kFingerprintBytes, shard.size - std::min(tensor.offset, shard.size));
      if (auto begin = take(*opened, tensor.offset, n); !begin) return std::move(begin).error().in_file(shard.path);
    }
  }
  return hash.hex();
}

}  // namespace coli::gguf
