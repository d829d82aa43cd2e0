// SPDX-License-Identifier: Apache-2.0
// What does a profile say about itself, and which names are profiles at all?
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "coli/contracts/cpu_kernels.hpp"
#include "coli/quant/format.hpp"

namespace coli {

enum class Processor { host, device };

/// Decisions whose margin is smaller are near-ties: another profile may decide them otherwise. 0: none is.
struct MarginFloors {
  float token = 0;  // top logit less the second
  float route = 0;  // k-th router logit less the next
  std::string_view source = "none of its own: every lane carries its floors";
};

/// Text for people and figures for the planner; what needs no type to be known.
struct ProfileAbout {
  std::string_view summary = "composed by its host";
  std::string_view needs = "nothing beyond the processor it was compiled for";
  std::string_view activations = "as its kernels say";
  std::string_view stores = "io_uring, pread workers, mmap on request; direct reads where the file system has them";
  Processor processor = Processor::host;
  MarginFloors floors{};
  double memory_share = 0.85;    // of the memory's read rate that decoding keeps up with
  double most_core_rate = 1e12;  // bytes of weights a second that one core computes at most
  std::span<const std::string_view> notes{};
  std::span<const std::string_view> warnings{};
};

/// For profiles that a host composes.
struct NothingToSay {
  static constexpr ProfileAbout about{};
};

constexpr bool is_profile_name(std::string_view name) {
  if (name.empty() || name == "auto" || name.front() < 'a' || name.front() > 'z') return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')) return false;
  return true;
}

template <class T>
inline constexpr bool is_set_of_formats = false;
template <QuantFormat... Fs>
inline constexpr bool is_set_of_formats<formats<Fs...>> = sizeof...(Fs) > 0 && [] {
  std::array names{Fs::name.view()...};
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (names[i] == names[j]) return false;
  return true;
}();

/// A backend without a KernelSet, or whose kernels decide at run time, is asked when an engine is opened.
template <class Backend, KvFormat Kv>
inline constexpr bool keeps_kv = true;
template <class Backend, KvFormat Kv>
  requires requires { requires(Backend::KernelSet::supports(Kv) || !Backend::KernelSet::supports(Kv)); }
inline constexpr bool keeps_kv<Backend, Kv> = Backend::KernelSet::supports(Kv);

/// Every profile that anybody may mean, whether this build holds it or not: the one table of names.
struct KnownProfile {
  std::string_view name;
  std::string_view summary;
};
inline constexpr std::array kKnownProfiles{
    KnownProfile{"cpu", "everyday use: SIMD kernels of the best instruction set here, 8-bit activations, F16 KV cache, experts streamed as memory asks"},
    KnownProfile{"cuda", "NVIDIA graphics cards: their memory over this machine's over the disk"},
    KnownProfile{"grid", "the graphics card's programs on a host emulator: tests of that logic where there is no card"},
    KnownProfile{"scalar", "reference arithmetic, f64 sums, f32 activations: the lane that every other is judged against"},
};

template <std::size_t N>
consteval bool names_are_sound(const std::array<KnownProfile, N>& table) {
  for (std::size_t i = 0; i < N; ++i) {
    if (!is_profile_name(table[i].name)) return false;
    for (std::size_t j = 0; j < i; ++j)
      if (table[j].name == table[i].name) return false;
  }
  return true;
}
static_assert(names_are_sound(kKnownProfiles), "kKnownProfiles: a name is twice in the table, or no name");

constexpr const KnownProfile* known_profile(std::string_view name) {
  for (const KnownProfile& known : kKnownProfiles)
    if (known.name == name) return &known;
  return nullptr;
}

}  // namespace coli
