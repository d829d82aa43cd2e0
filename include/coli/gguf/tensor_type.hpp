// SPDX-License-Identifier: Apache-2.0
// Which tensor type does this id stand for, and how many bytes does it take? Every id that ggml has given out.
//
// The ids live only here: the rest of the library joins by name (`format_named(type->name)`), so a type may be
// known, sized and listed by `inspect` without there being a kernel for it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coli::gguf {

/// One tensor type: rows are whole blocks of `values_per_block` values in `bytes_per_block` bytes.
struct TensorType {
  std::uint32_t id;
  std::string_view name;           // as ggml spells it
  std::uint32_t values_per_block;  // 0: the id was withdrawn, and files that use it cannot be sized
  std::uint32_t bytes_per_block;

  constexpr bool removed() const { return values_per_block == 0; }
};

inline constexpr std::array kTensorTypes{
    TensorType{0, "F32", 1, 4},         TensorType{1, "F16", 1, 2},         TensorType{2, "Q4_0", 32, 18},
    TensorType{3, "Q4_1", 32, 20},      TensorType{4, "Q4_2", 0, 0},        TensorType{5, "Q4_3", 0, 0},
    TensorType{6, "Q5_0", 32, 22},      TensorType{7, "Q5_1", 32, 24},      TensorType{8, "Q8_0", 32, 34},
    TensorType{9, "Q8_1", 32, 36},      TensorType{10, "Q2_K", 256, 84},    TensorType{11, "Q3_K", 256, 110},
    TensorType{12, "Q4_K", 256, 144},   TensorType{13, "Q5_K", 256, 176},   TensorType{14, "Q6_K", 256, 210},
    TensorType{15, "Q8_K", 256, 292},   TensorType{16, "IQ2_XXS", 256, 66}, TensorType{17, "IQ2_XS", 256, 74},
    TensorType{18, "IQ3_XXS", 256, 98}, TensorType{19, "IQ1_S", 256, 50},   TensorType{20, "IQ4_NL", 32, 18},
    TensorType{21, "IQ3_S", 256, 110},  TensorType{22, "IQ2_S", 256, 82},   TensorType{23, "IQ4_XS", 256, 136},
    TensorType{24, "I8", 1, 1},         TensorType{25, "I16", 1, 2},        TensorType{26, "I32", 1, 4},
    TensorType{27, "I64", 1, 8},        TensorType{28, "F64", 1, 8},        TensorType{29, "IQ1_M", 256, 56},
    TensorType{30, "BF16", 1, 2},       TensorType{31, "Q4_0_4_4", 0, 0},   TensorType{32, "Q4_0_4_8", 0, 0},
    TensorType{33, "Q4_0_8_8", 0, 0},   TensorType{34, "TQ1_0", 256, 54},   TensorType{35, "TQ2_0", 256, 66},
    TensorType{36, "IQ4_NL_4_4", 0, 0}, TensorType{37, "IQ4_NL_4_8", 0, 0}, TensorType{38, "IQ4_NL_8_8", 0, 0},
    TensorType{39, "MXFP4", 32, 17},    TensorType{40, "NVFP4", 64, 36},    TensorType{41, "Q1_0", 128, 18},
    TensorType{42, "Q2_0", 64, 18},
};

/// The type with this id, removed ones included (as rows that say so); null for ids that ggml never gave out.
constexpr const TensorType* find_tensor_type(std::uint32_t id) {
  // Rows stand at their own id (asserted below), so that lookup needs no search.
  return id < kTensorTypes.size() ? &kTensorTypes[id] : nullptr;
}

/// The type with this name; nothing for unknown and for removed ones.
constexpr const TensorType* find_tensor_type(std::string_view name) {
  for (const TensorType& type : kTensorTypes)
    if (type.name == name && !type.removed()) return &type;
  return nullptr;
}

/// The type with this id; nothing for unknown and for removed ones.
constexpr std::optional<TensorType> tensor_type(std::uint32_t id) {
  const TensorType* type = find_tensor_type(id);
  if (type == nullptr || type->removed()) return std::nullopt;
  return *type;
}

static_assert([] {
  for (std::uint32_t id = 0; id < kTensorTypes.size(); ++id)
    if (kTensorTypes[id].id != id) return false;
  return true;
}());

}  // namespace coli::gguf
