// SPDX-License-Identifier: Apache-2.0
// Files of made-up experts whose every byte is known: what stores and caches are tested on.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/cache/geometry.hpp"
#include "coli/store/expert_index.hpp"

namespace coli::conformance {

/// The byte at `at` of an expert's part.
inline std::byte expert_byte(ExpertKey key, Part part, std::uint64_t at) {
  std::uint64_t x = (std::uint64_t{key.layer.value} << 40) ^ (std::uint64_t{key.expert.value} << 20) ^
                    (static_cast<std::uint64_t>(part) << 60) ^ at;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return static_cast<std::byte>((x ^ (x >> 31)) & 0xFF);
}

struct Shape {
  std::uint32_t n_experts = 8;
  std::uint32_t top_k = 2;
  /// Per layer: bytes of one expert's gate, up, down; all zero for a dense layer.
  std::vector<std::array<std::uint64_t, kParts>> layers;
  std::uint32_t n_files = 1;
  /// Where the first stack starts: GGUF aligns to 32 only, so never at a block.
  std::uint64_t first_offset = 96;
  std::string directory = "/tmp";
};

/// Shape with one dense layer, two size classes, odd sizes.
inline Shape small_shape() {
  return {.n_experts = 8,
          .top_k = 2,
          .layers = {{0, 0, 0}, {1000, 1000, 1500}, {1000, 1000, 1000}, {1000, 1000, 1500}, {1000, 1000, 1000}},
          .n_files = 2};
}

/// Writes the files, removes them at the end.
class ExpertFiles {
 public:
  explicit ExpertFiles(Shape shape) : shape_(std::move(shape)) {
    std::vector<std::vector<std::byte>> contents(shape_.n_files);
    for (auto& bytes : contents) bytes.resize(shape_.first_offset, std::byte{0x55});
    std::vector<std::optional<ExpertStacks>> layers(shape_.layers.size());
    for (std::uint32_t l = 0; l < shape_.layers.size(); ++l) {
      if (shape_.layers[l][0] == 0) continue;
      layers[l].emplace();
      auto& bytes = contents[l % shape_.n_files];
      for (std::size_t p = 0; p < kParts; ++p) {
        const std::uint64_t each = shape_.layers[l][p];
        layers[l]->part[p] = Extent{l % shape_.n_files, bytes.size(), each * shape_.n_experts};
        for (std::uint32_t e = 0; e < shape_.n_experts; ++e) {
          for (std::uint64_t i = 0; i < each; ++i) {
            bytes.push_back(expert_byte({LayerId{l}, ExpertId{e}}, static_cast<Part>(p), i));
          }
        }
        while (bytes.size() % 32 != 0) bytes.push_back(std::byte{0x55});
      }
    }
    std::vector<ExpertFile> files;
    for (auto& bytes : contents) {
      std::string path = shape_.directory + "/coli-experts-XXXXXX";
      const int fd = ::mkstemp(path.data());
      for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
        if (n <= 0) std::abort();
        done += static_cast<std::size_t>(n);
      }
      ::close(fd);
      files.push_back({path, bytes.size(), {}});
    }
    memory_ = std::move(contents);
    index_ = *ExpertIndex::make(files, shape_.n_experts, layers);
    for (std::size_t f = 0; f < files.size(); ++f) files[f].memory = memory_[f];
    in_memory_ = *ExpertIndex::make(std::move(files), shape_.n_experts, std::move(layers));
  }
  ExpertFiles(const ExpertFiles&) = delete;
  ExpertFiles& operator=(const ExpertFiles&) = delete;
  ~ExpertFiles() {
    for (const ExpertFile& file : index_.files()) ::unlink(file.path.c_str());
  }

  const Shape& shape() const { return shape_; }
  const ExpertIndex& index() const { return index_; }          // on disk only
  const ExpertIndex& in_memory() const { return in_memory_; }  // the same, with its bytes at hand
  CacheGeometry geometry() const { return *geometry_of(index_, shape_.top_k); }

 private:
  Shape shape_;
  std::vector<std::vector<std::byte>> memory_;
  ExpertIndex index_;
  ExpertIndex in_memory_;
};

/// Are these the bytes of that part?
inline bool is_part(const std::byte* bytes, std::uint64_t n, ExpertKey key, Part part) {
  for (std::uint64_t i = 0; i < n; ++i) {
    if (bytes[i] != expert_byte(key, part, i)) return false;
  }
  return true;
}

/// A small generator that is the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }

  /// k distinct experts of n, in random order.
  std::vector<ExpertId> experts(std::uint32_t k, std::uint32_t n) {
    std::vector<ExpertId> all;
    for (std::uint32_t e = 0; e < n; ++e) all.push_back(ExpertId{e});
    for (std::uint32_t i = 0; i < k; ++i) std::swap(all[i], all[i + below(n - i)]);
    all.resize(k);
    return all;
  }

 private:
  std::uint64_t state_;
};

}  // namespace coli::conformance
