// SPDX-License-Identifier: Apache-2.0
// What is computed side by side? Always sixteen lanes, whatever the register width.
//
// All arithmetic of the fast kernels is defined on vectors of 16 f32 or 16 32-bit words: one AVX-512 register, two of
// AVX2, four of NEON. A lane's operations and their order are the same on every instruction set, fused multiply-adds
// are explicit, and reductions across lanes follow one fixed tree: results are bit-identical everywhere.
// No expression here multiplies and then adds without saying fma, so that no compiler setting can contract one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coli/kernels/simd/simd_config.hpp"
#include "coli/kernels/simd/unroll.hpp"

#if defined(__GNUC__) && !defined(__clang__)  // g++ 12 takes the "undefined" vectors of its own intrinsics for ours
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace coli::simd {

inline constexpr int kLanes = 16;

/// Sixteen values of T in as many registers as Arch needs. Part i holds lanes [i * Part::size, (i + 1) * Part::size).
template <class Arch, class T>
struct Lanes {
  using Part = xsimd::batch<T, typename RegistersOf<Arch>::type>;
  static constexpr int kParts = kLanes / static_cast<int>(Part::size);
  Part part[kParts];
};

template <class Arch>
using F32x16 = Lanes<Arch, float>;
template <class Arch>
using I32x16 = Lanes<Arch, std::int32_t>;
template <class Arch>
using U32x16 = Lanes<Arch, std::uint32_t>;  // also 16 quads of bytes, one a row

/// result.part[i] = f(operands.part[i]...)
template <class T, class Arch, class F, class... Ts>
COLI_SIMD_INLINE Lanes<Arch, T> by_part(F f, const Lanes<Arch, Ts>&... operands) {
  return [&]<int... I>(std::integer_sequence<int, I...>) COLI_SIMD_LAMBDA {
    const auto at = [&]<int i>() COLI_SIMD_LAMBDA { return f(operands.part[i]...); };
    return Lanes<Arch, T>{{at.template operator()<I>()...}};
  }(std::make_integer_sequence<int, Lanes<Arch, T>::kParts>{});
}

template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> splat(T value) {
  Lanes<Arch, T> v;
  unroll<Lanes<Arch, T>::kParts>([&]<int i>() COLI_SIMD_LAMBDA { v.part[i] = typename Lanes<Arch, T>::Part(value); });
  return v;
}
template <class Arch>
COLI_SIMD_INLINE F32x16<Arch> zero() {
  return splat<Arch>(0.0f);
}

/// Sixteen adjacent values; any alignment.
template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> load(const T* from) {
  using V = Lanes<Arch, T>;
  V v;
  unroll<V::kParts>([&]<int i>() COLI_SIMD_LAMBDA {
    v.part[i] = V::Part::load_unaligned(from + i * static_cast<int>(V::Part::size));
  });
  return v;
}
template <class Arch, class T>
COLI_SIMD_INLINE void store(const Lanes<Arch, T>& v, T* to) {
  using V = Lanes<Arch, T>;
  unroll<V::kParts>([&]<int i>() COLI_SIMD_LAMBDA { v.part[i].store_unaligned(to + i * static_cast<int>(V::Part::size)); });
}
/// Sixteen words of raw bytes.
template <class Arch>
COLI_SIMD_INLINE U32x16<Arch> load_words(const std::byte* from) {
  return load<Arch>(reinterpret_cast<const std::uint32_t*>(from));
}

/// The first n (at most 16) values, the other lanes `pad`. Never reads past from + n.
template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> load_first(const T* from, std::size_t n, T pad = T{}) {
  alignas(64) T padded[kLanes];
  for (std::size_t i = 0; i < static_cast<std::size_t>(kLanes); ++i) padded[i] = i < n ? from[i] : pad;
  return load<Arch>(static_cast<const T*>(padded));
}
template <class Arch>
COLI_SIMD_INLINE void store_first(const F32x16<Arch>& v, float* to, std::size_t n) {
  alignas(64) float padded[kLanes];
  store(v, padded);
  for (std::size_t i = 0; i < n; ++i) to[i] = padded[i];
}

template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> operator+(const Lanes<Arch, T>& a, const Lanes<Arch, T>& b) {
  return by_part<T>([](auto x, auto y) COLI_SIMD_LAMBDA { return x + y; }, a, b);
}
template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> operator-(const Lanes<Arch, T>& a, const Lanes<Arch, T>& b) {
  return by_part<T>([](auto x, auto y) COLI_SIMD_LAMBDA { return x - y; }, a, b);
}
template <class Arch>
COLI_SIMD_INLINE F32x16<Arch> operator*(const F32x16<Arch>& a, const F32x16<Arch>& b) {
  return by_part<float>([](auto x, auto y) COLI_SIMD_LAMBDA { return x * y; }, a, b);
}
namespace detail {
template <class Part>
COLI_SIMD_INLINE Part quotient(Part x, Part y) {
  return x / y;
}
#if defined(COLI_SIMD_HAS_NEON)  // xsimd 8.1 takes two Newton steps towards 1 / y here: not the nearest float
COLI_SIMD_INLINE xsimd::batch<float, xsimd::neon64> quotient(xsimd::batch<float, xsimd::neon64> x, xsimd::batch<float, xsimd::neon64> y) {
  return vdivq_f32(x, y);
}
#endif
}  // namespace detail

/// Rounded once.
template <class Arch>
COLI_SIMD_INLINE F32x16<Arch> operator/(const F32x16<Arch>& a, const F32x16<Arch>& b) {
  return by_part<float>([](auto x, auto y) COLI_SIMD_LAMBDA { return detail::quotient(x, y); }, a, b);
}
template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> operator&(const Lanes<Arch, T>& a, const Lanes<Arch, T>& b) {
  return by_part<T>([](auto x, auto y) COLI_SIMD_LAMBDA { return x & y; }, a, b);
}
template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> operator|(const Lanes<Arch, T>& a, const Lanes<Arch, T>& b) {
  return by_part<T>([](auto x, auto y) COLI_SIMD_LAMBDA { return x | y; }, a, b);
}
template <class Arch>
COLI_SIMD_INLINE U32x16<Arch> operator^(const U32x16<Arch>& a, const U32x16<Arch>& b) {
  return by_part<std::uint32_t>([](auto x, auto y) COLI_SIMD_LAMBDA { return x ^ y; }, a, b);
}
/// Shifts by a constant; >> is arithmetic on i32 and logical on u32.
template <int kBits, class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> shift_left(const Lanes<Arch, T>& a) {
  if constexpr (kBits == 0) return a;
  return by_part<T>([](auto x) COLI_SIMD_LAMBDA { return x << kBits; }, a);
}
template <int kBits, class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> shift_right(const Lanes<Arch, T>& a) {
  if constexpr (kBits == 0) return a;
  return by_part<T>([](auto x) COLI_SIMD_LAMBDA { return x >> kBits; }, a);
}
template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> shift_right(const Lanes<Arch, T>& a, int bits) {
  return by_part<T>([=](auto x) COLI_SIMD_LAMBDA { return x >> bits; }, a);
}

namespace detail {
template <class Part>
COLI_SIMD_INLINE Part fused(Part x, Part y, Part z) {
  return xsimd::fma(x, y, z);
}
#if defined(COLI_SIMD_HAS_AVX512VNNI)  // xsimd 8.1 multiplies, rounds and adds here, without a word
COLI_SIMD_INLINE xsimd::batch<float, Avx512Vnni> fused(xsimd::batch<float, Avx512Vnni> x, xsimd::batch<float, Avx512Vnni> y,
                                                       xsimd::batch<float, Avx512Vnni> z) {
  return _mm512_fmadd_ps(x, y, z);
}
#endif
}  // namespace detail

/// a * b + c, rounded once.
template <class Arch>
COLI_SIMD_INLINE F32x16<Arch> fma(const F32x16<Arch>& a, const F32x16<Arch>& b, const F32x16<Arch>& c) {
  return by_part<float>([](auto x, auto y, auto z) COLI_SIMD_LAMBDA { return detail::fused(x, y, z); }, a, b, c);
}

/// The same bits under another type.
template <class To, class Arch, class From>
COLI_SIMD_INLINE Lanes<Arch, To> bits_as(const Lanes<Arch, From>& a) {
  return by_part<To>(
      [](auto x) COLI_SIMD_LAMBDA {
        if constexpr (std::is_same_v<To, From>) return x;
        else return xsimd::bitwise_cast<typename Lanes<Arch, To>::Part>(x);
      },
      a);
}
/// To the nearest integer, ties to even; lanes within +-2^31.
template <class Arch>
COLI_SIMD_INLINE I32x16<Arch> round_to_i32(const F32x16<Arch>& a) {
  return by_part<std::int32_t>([](auto x) COLI_SIMD_LAMBDA { return xsimd::nearbyint_as_int(x); }, a);
}
template <class Arch, class T>
COLI_SIMD_INLINE Lanes<Arch, T> max(const Lanes<Arch, T>& a, const Lanes<Arch, T>& b) {
  return by_part<T>([](auto x, auto y) COLI_SIMD_LAMBDA { return xsimd::max(x, y); }, a, b);
}
/// c where a < b, else d.
template <class Arch>
COLI_SIMD_INLINE F32x16<Arch> where_less(const F32x16<Arch>& a, const F32x16<Arch>& b, const F32x16<Arch>& c,
                                         const F32x16<Arch>& d) {
  return by_part<float>([](auto w, auto x, auto y, auto z) COLI_SIMD_LAMBDA { return xsimd::select(w < x, y, z); }, a, b, c, d);
}
/// Integer to the nearest float (exact below 2^24).
template <class Arch>
COLI_SIMD_INLINE F32x16<Arch> to_f32(const I32x16<Arch>& a) {
  return by_part<float>([](auto x) COLI_SIMD_LAMBDA { return xsimd::batch_cast<float>(x); }, a);
}

/// The largest lane. Which of several equal lanes is no matter; NaN is lost (callers look for it themselves).
template <class Arch, class T>
COLI_SIMD_INLINE T largest_lane(const Lanes<Arch, T>& v) {
  alignas(64) T lane[kLanes];
  store(v, lane);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] = lane[i + half] > lane[i] ? lane[i + half] : lane[i];
  return lane[0];
}

/// Calls step(i, load, store) for each 16 of n values: whole vectors, then the tail with pads behind it.
template <class Arch, class Step>
COLI_SIMD_INLINE void for_lanes(std::size_t n, Step step) {
  const auto whole_load = [](const float* p, float /*pad*/ = 0) COLI_SIMD_LAMBDA { return load<Arch>(p); };
  const auto whole_store = [](const F32x16<Arch>& v, float* p) COLI_SIMD_LAMBDA { store(v, p); };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(i, whole_load, whole_store);
  const std::size_t rest = n - i;
  if (rest == 0) return;
  step(
      i, [=](const float* p, float pad = 0) COLI_SIMD_LAMBDA { return load_first<Arch>(p, rest, pad); },
      [=](const F32x16<Arch>& v, float* p) COLI_SIMD_LAMBDA { store_first(v, p, rest); });
}

}  // namespace coli::simd

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
