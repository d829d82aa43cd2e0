// SPDX-License-Identifier: Apache-2.0
// What is a case of a kernel body, for the emulator and for a device alike?
//
// A case is a function template over a device: it makes inputs, launches, and reports to a Report. It knows no test
// framework and no vendor: the emulator's test and the device check call the same functions. Outputs go into the report's
// digest too, so that a device can be asked for the emulator's very bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"

namespace coli::grid::cases {

/// What a device must do for a case: keep arrays and launch bodies.
///   auto buffer = device.upload(std::vector<V>);  V* at = buffer.get();
///   Result<std::vector<V>> values = device.download(buffer);
///   Result<void> done = device.launch(body, shape);   // in order with uploads and downloads
///   Device::kQuick                                    // launches are dear: cases keep to a few small shapes
class Report {
 public:
  void expect(bool holds, const std::string& what) {
    ++n_checks_;
    if (!holds) failures_.push_back(context_ + ": " + what);
  }
  /// A launch or a copy that failed is a failure of the case.
  bool expect_ok(const Result<void>& done) {
    expect(done.has_value(), done ? std::string() : done.error().line());
    return done.has_value();
  }
  void context(std::string text) { context_ = std::move(text); }
  /// Every NaN counts as the same one: sign and payload of what an operation returns are the processor's choice (0x7FFF'FFFF
  /// on a card, an operand's or 0xFFC0'0000 on x86), and nobody promises them.
  template <class V>
  void digest(const std::vector<V>& output) {
    std::uint64_t hash = 0xCBF2'9CE4'8422'2325u;
    for (const V& v : output) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &v, sizeof(V) < 8 ? sizeof(V) : 8);
      if constexpr (std::is_same_v<V, float>)
        if (std::isnan(v)) bits = 0x7FC0'0000u;
      hash = (hash ^ bits) * 0x100'0000'01B3u;
    }
    digests_.push_back({context_, hash});
  }

  struct Digest {
    std::string of;
    std::uint64_t hash;
    bool operator==(const Digest&) const = default;
  };
  std::size_t n_checks() const { return n_checks_; }
  const std::vector<std::string>& failures() const { return failures_; }
  const std::vector<Digest>& digests() const { return digests_; }

 private:
  std::string context_;
  std::size_t n_checks_ = 0;
  std::vector<std::string> failures_;
  std::vector<Digest> digests_;
};

/// All shapes, or where launches are dear those that `few` names.
template <class Device, class Shape>
std::vector<Shape> shapes(std::initializer_list<Shape> all, std::initializer_list<Shape> few) {
  return Device::kQuick ? few : all;
}

/// What is read back; empty, and reported, where that failed.
template <class Device, class Buffer>
auto download(Device& device, const Buffer& buffer, Report& report) {
  auto values = device.download(buffer);
  using Values = std::remove_reference_t<decltype(*values)>;
  report.expect(values.has_value(), values ? std::string() : values.error().line());
  if (!values) return Values{};
  report.digest(*values);
  return std::move(*values);
}

/// The furthest of n values from what is wanted, each in units of its bound: more than 1 is out of bounds, NaN counts as that.
template <class Wanted, class Bound>
double worst(const std::vector<float>& got, const Wanted& wanted, Bound bound) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])), most = bound(i);
    const double ratio = off <= most ? (most == 0 ? 0 : off / most) : 1e9;
    worst = std::max(worst, ratio);
  }
  return worst;
}

}  // namespace coli::grid::cases
