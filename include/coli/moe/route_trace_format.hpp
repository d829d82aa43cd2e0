// SPDX-License-Identifier: Apache-2.0
// How does a route trace lie in its file? Little-endian throughout; every byte is under a checksum.
//
//   0   8  magic "coliRTR\n"
//   8   4  version, 1
//   12  4  bytes of the JSON header
//   16  8  bytes of the file that count, in the low 48 bits; a check of that number in the high 16
//   24  4  CRC-32 of the JSON header
//   28     the JSON header; then frames:
//
//   4  bytes of the body    4  CRC-32 of the size and the body    body
//
//   token body:  u8 kind 1, u8 phase, u8 accepted, u8 0, u32 index, u32 position, u32 pass, u32 n_rows; a row is u16
//                layer, f32 gap, f32 wait, top_k u16 experts, top_k f32 weights, ceil(top_k / 8) bytes of residency bits
//   end body:    u8 kind 2, three u8 0, u32 tokens, JSON: what the engine itself counted
//
// The number at 16 is written last, by one store: a process that dies leaves a file that is valid up to its last whole
// token, with rubbish or zeros behind it, and no end. A file shorter than that number was cut afterwards.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/crc32.hpp"
#include "coli/core/error.hpp"
#include "coli/moe/route_trace.hpp"

namespace coli::route_format {

inline constexpr std::string_view kMagic{"coliRTR\n"};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kPrologue = 28;
inline constexpr std::size_t kCountingAt = 16;
inline constexpr std::size_t kFrameHead = 8;
inline constexpr std::uint32_t kMostHeaderBytes = 16U << 20;
inline constexpr std::uint32_t kMostFrameBytes = 64U << 20;
inline constexpr std::uint8_t kTokenKind = 1;
inline constexpr std::uint8_t kEndKind = 2;

/// Appends numbers in little-endian order.
class Packer {
 public:
  explicit Packer(std::vector<std::byte>& to) : to_(to) {}
  template <class T>
  void put(T value) {
    static_assert(std::endian::native == std::endian::little, "this file's numbers are little-endian");
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    to_.insert(to_.end(), bytes, bytes + sizeof value);
  }
  void put_text(std::string_view text) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    to_.insert(to_.end(), bytes, bytes + text.size());
  }

 private:
  std::vector<std::byte>& to_;
};

template <class T>
T get(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The number at kCountingAt, with its check.
inline std::uint64_t pack_counting(std::uint64_t bytes) noexcept {
  const std::uint64_t low = bytes & 0xFFFF'FFFF'FFFFU;
  const std::uint32_t crc = crc32(std::as_bytes(std::span(&low, 1)));
  return low | static_cast<std::uint64_t>((crc ^ crc >> 16) & 0xFFFFU) << 48;
}

inline constexpr std::size_t row_bytes(std::uint32_t top_k) noexcept { return 10 + std::size_t{top_k} * 6 + (top_k + 7) / 8; }
inline constexpr std::size_t token_bytes(std::size_t n_rows, std::uint32_t top_k) noexcept { return 20 + n_rows * row_bytes(top_k); }

/// Puts size and checksum into the room that was left at `begin`.
inline void seal_frame(std::vector<std::byte>& file, std::size_t begin) noexcept {
  const auto size = static_cast<std::uint32_t>(file.size() - begin - kFrameHead);
  std::memcpy(file.data() + begin, &size, 4);
  const std::uint32_t crc = crc32(std::span(file).subspan(begin + kFrameHead), crc32(std::span(file).subspan(begin, 4)));
  std::memcpy(file.data() + begin + 4, &crc, 4);
}

/// Requires a token whose rows have `top_k` experts each.
inline void pack_token(const RouteToken& token, std::uint32_t index, std::uint32_t top_k, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  out.resize(begin + kFrameHead);
  Packer pack(out);
  pack.put(kTokenKind), pack.put(static_cast<std::uint8_t>(token.phase)), pack.put(std::uint8_t{token.accepted}), pack.put(std::uint8_t{0});
  pack.put(index), pack.put(token.position), pack.put(token.pass), pack.put(static_cast<std::uint32_t>(token.n_rows()));
  for (std::size_t r = 0; r < token.n_rows(); ++r) {
    pack.put(static_cast<std::uint16_t>(token.layers[r].value)), pack.put(token.gaps[r]), pack.put(token.waits[r]);
    const std::size_t at = r * top_k;
    for (std::uint32_t i = 0; i < top_k; ++i) pack.put(static_cast<std::uint16_t>(token.experts[at + i].value));
    for (std::uint32_t i = 0; i < top_k; ++i) pack.put(token.weights[at + i]);
    for (std::uint32_t i = 0; i < top_k; i += 8) {
      std::uint8_t bits = 0;
      for (std::uint32_t b = 0; b < 8 && i + b < top_k; ++b)
        if (token.resident[at + i + b] != 0) bits = static_cast<std::uint8_t>(bits | 1U << b);
      pack.put(bits);
    }
  }
  seal_frame(out, begin);
}

inline void pack_end(const RouteHeader::Json& counted, std::uint32_t n_tokens, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  out.resize(begin + kFrameHead);
  Packer pack(out);
  pack.put(std::uint32_t{kEndKind}), pack.put(n_tokens);
  pack.put_text(counted.dump());
  seal_frame(out, begin);
}

/// Reads a token's body, kind included. Errors: bad_input, saying what is wrong.
inline Result<void> unpack_token(std::span<const std::byte> body, std::uint32_t index, const RouteHeader& header, RouteToken& token) {
  const auto bad = [](std::string why) { return Error{Errc::bad_input, std::move(why)}; };
  if (body.size() < 20) return bad("a token of " + std::to_string(body.size()) + " bytes");
  const auto phase = get<std::uint8_t>(body.data() + 1), accepted = get<std::uint8_t>(body.data() + 2);
  if (phase >= kRoutePhaseNames.size() || accepted > 1 || get<std::uint8_t>(body.data() + 3) != 0) return bad("a token of unknown phase or state");
  if (get<std::uint32_t>(body.data() + 4) != index) return bad("token " + std::to_string(get<std::uint32_t>(body.data() + 4)) + " stands where " + std::to_string(index) + " should");
  const auto n_rows = get<std::uint32_t>(body.data() + 16);
  if (n_rows > header.n_layers() || body.size() != token_bytes(n_rows, header.top_k)) return bad(std::to_string(n_rows) + " rows in " + std::to_string(body.size()) + " bytes");
  token.phase = static_cast<RoutePhase>(phase), token.accepted = accepted != 0;
  token.position = get<std::uint32_t>(body.data() + 8), token.pass = get<std::uint32_t>(body.data() + 12);
  const std::size_t k = header.top_k;
  token.resize(n_rows, k);
  const std::byte* at = body.data() + 20;
  for (std::size_t r = 0; r < n_rows; ++r) {
    const LayerId layer{get<std::uint16_t>(at)};
    if (layer.value >= header.n_layers() || header.layers[layer.value].expert() == 0) return bad("there are no experts in layer " + std::to_string(layer.value));
    if (r > 0 && !(token.layers[r - 1] < layer)) return bad("layer " + std::to_string(layer.value) + " after layer " + std::to_string(token.layers[r - 1].value));
    token.layers[r] = layer, token.gaps[r] = get<float>(at + 2), token.waits[r] = get<float>(at + 6);
    at += 10;
    ExpertId* const experts = token.experts.data() + r * k;
    for (std::size_t i = 0; i < k; ++i) {
      experts[i] = ExpertId{get<std::uint16_t>(at + 2 * i)};
      if (experts[i].value >= header.n_experts) return bad("layer " + std::to_string(layer.value) + " has no expert " + std::to_string(experts[i].value));
      if (std::find(experts, experts + i, experts[i]) != experts + i) return bad("layer " + std::to_string(layer.value) + " chose expert " + std::to_string(experts[i].value) + " twice");
    }
    at += 2 * k;
    std::memcpy(token.weights.data() + r * k, at, 4 * k);
    at += 4 * k;
    for (std::size_t i = 0; i < k; ++i) token.resident[r * k + i] = get<std::uint8_t>(at + i / 8) >> (i % 8) & 1U;
    at += (k + 7) / 8;
  }
  return {};
}

}  // namespace coli::route_format
