// SPDX-License-Identifier: Apache-2.0
// Where does a tensor lie, and what shape and type has it? One record per tensor, verified when the file was opened.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "coli/gguf/tensor_type.hpp"

namespace coli::gguf {

inline constexpr std::uint32_t kMaxDims = 4;

/// Holds for every TensorInfo that a ModelFile hands out: the type is known and sized, rows are whole blocks, and
/// [offset, offset + bytes) lies inside its file and meets no other tensor. `offset` is a multiple of the file's
/// alignment, which may be as low as 1: copy before reading values wider than bytes.
struct TensorInfo {
  std::string name;
  std::uint32_t type_id = 0;
  const TensorType* type = nullptr;  // into kTensorTypes, never null
  std::uint32_t n_dims = 0;
  std::array<std::uint64_t, kMaxDims> dims{1, 1, 1, 1};  // ggml order: dims[0] is the row length; unused ones are 1
  std::uint32_t file = 0;                                // which shard
  std::uint64_t offset = 0;                              // absolute in that file
  std::uint64_t bytes = 0;

  std::uint64_t values() const noexcept { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::uint64_t rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
  std::uint64_t row_bytes() const noexcept { return dims[0] / type->values_per_block * type->bytes_per_block; }

  /// "[256 x 512 x 16]", row length first.
  std::string shape_text() const {
    std::string text = "[";
    for (std::uint32_t i = 0; i < n_dims; ++i) text += (i == 0 ? "" : " x ") + std::to_string(dims[i]);
    return text + "]";
  }
};

}  // namespace coli::gguf
