// SPDX-License-Identifier: Apache-2.0
// The closed list of weight formats, and the one place where a run-time tag becomes a type.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "coli/contracts/quant_format.hpp"
#include "coli/quant/bf16.hpp"
#include "coli/quant/f16.hpp"
#include "coli/quant/f32.hpp"
#include "coli/quant/mxfp4.hpp"
#include "coli/quant/q2_k.hpp"
#include "coli/quant/q3_k.hpp"
#include "coli/quant/q4_0.hpp"
#include "coli/quant/q4_1.hpp"
#include "coli/quant/q4_k.hpp"
#include "coli/quant/q5_0.hpp"
#include "coli/quant/q5_1.hpp"
#include "coli/quant/q5_k.hpp"
#include "coli/quant/q6_k.hpp"
#include "coli/quant/q8_0.hpp"

namespace coli {

/// A tensor's format at run time. Closed: a new one is a new header, a new enumerator and a line in visit_format,
/// and every switch that forgets it fails to compile. GGUF's numbers stay inside gguf/; names join the two.
enum class Format : std::uint8_t { f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, mxfp4 };

/// A compile-time set of formats: the quantisation policy of a profile.
template <QuantFormat... Fs>
struct formats {
  template <class F>
  static constexpr bool contains = (std::same_as<F, Fs> || ...);
};

using all_formats = formats<F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, MXFP4>;

/// Calls `f.template operator()<F>()` with the format type that `tag` names.
template <class Fn>
constexpr decltype(auto) visit_format(Format tag, Fn&& f) {
  switch (tag) {
    case Format::f32: return f.template operator()<F32>();
    case Format::f16: return f.template operator()<F16>();
    case Format::bf16: return f.template operator()<BF16>();
    case Format::q8_0: return f.template operator()<Q8_0>();
    case Format::q4_0: return f.template operator()<Q4_0>();
    case Format::q4_1: return f.template operator()<Q4_1>();
    case Format::q5_0: return f.template operator()<Q5_0>();
    case Format::q5_1: return f.template operator()<Q5_1>();
    case Format::q2_k: return f.template operator()<Q2_K>();
    case Format::q3_k: return f.template operator()<Q3_K>();
    case Format::q4_k: return f.template operator()<Q4_K>();
    case Format::q5_k: return f.template operator()<Q5_K>();
    case Format::q6_k: return f.template operator()<Q6_K>();
    case Format::mxfp4: return f.template operator()<MXFP4>();
  }
  __builtin_unreachable();
}

inline constexpr std::size_t kFormats = 14;

constexpr std::string_view name_of(Format tag) {
  return visit_format(tag, [&]<class F>() { return F::name.view(); });  // [&]: nvcc warns about one that could be a function pointer
}

/// The format with this name ("Q4_K"), as GGUF's type table spells it; nothing for types that have no header here.
constexpr std::optional<Format> format_named(std::string_view name) {
  for (std::size_t i = 0; i < kFormats; ++i)
    if (name_of(static_cast<Format>(i)) == name) return static_cast<Format>(i);
  return std::nullopt;
}

/// Bytes of a row of `values` values in a format; 0 where the row is not whole blocks.
constexpr std::uint64_t row_bytes(Format tag, std::uint64_t values) {
  return visit_format(tag, [&]<class F>() { return bytes_for<F>(values); });
}

/// A set of formats at run time: what a compile-time `formats<...>` becomes where a file's header is checked.
class FormatSet {
 public:
  template <QuantFormat... Fs>
  static constexpr FormatSet of(formats<Fs...>) {
    FormatSet set;
    ((set.bits_ |= 1U << static_cast<unsigned>(*format_named(Fs::name.view()))), ...);
    return set;
  }
  static constexpr FormatSet all() { return of(all_formats{}); }
  constexpr void insert(Format tag) { bits_ |= 1U << static_cast<unsigned>(tag); }
  constexpr bool contains(Format tag) const { return (bits_ >> static_cast<unsigned>(tag) & 1U) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

/// "F32, F16, Q8_0": for messages.
inline std::string names_of(FormatSet set) {
  std::string text;
  for (std::size_t i = 0; i < kFormats; ++i)
    if (set.contains(static_cast<Format>(i))) text += (text.empty() ? "" : ", ") + std::string(name_of(static_cast<Format>(i)));
  return text;
}

}  // namespace coli
