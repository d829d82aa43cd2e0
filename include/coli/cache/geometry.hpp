// SPDX-License-Identifier: Apache-2.0
// How large are a model's experts, layer by layer, and which layers can share slots?
//
// Layers whose experts take the same bytes form a size class; a slot belongs to one class. All that the cache knows of
// a model. Bytes in a slot may differ from bytes in the file (a prepared layout may be padded): both are given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// Bytes of one expert of a layer, by part: as they lie in the file, and as the backend wants them in a slot.
struct ExpertBytes {
  std::array<std::uint64_t, kParts> raw;
  std::array<std::uint64_t, kParts> slot;
};

class CacheGeometry {
 public:
  /// Parts start at multiples of this within a slot, and slots within their class.
  static constexpr std::uint64_t kPartAlignment = 64;

  struct SizeClass {
    std::uint64_t slot_bytes;
    std::uint32_t n_layers;  // that use it
  };

  CacheGeometry() = default;

  /// `layers` has an entry for each layer of the model, nothing for dense ones. Errors: bad_input where an expert has
  /// no bytes or top_k isn't 1..n_experts.
  static Result<CacheGeometry> make(std::uint32_t n_experts, std::uint32_t top_k,
                                    std::vector<std::optional<ExpertBytes>> layers) {
    if (top_k == 0 || top_k > n_experts) {
      return Error{Errc::bad_input,
                   "top_k is " + std::to_string(top_k) + " of " + std::to_string(n_experts) + " experts"};
    }
    CacheGeometry geometry;
    geometry.n_experts_ = n_experts;
    geometry.top_k_ = top_k;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      Layer placed{};
      if (const auto& bytes = layers[layer]) {
        std::uint64_t at = 0;
        for (std::size_t p = 0; p < kParts; ++p) {
          if (bytes->raw[p] == 0 || bytes->slot[p] == 0) {
            return Error{Errc::bad_input, "an expert's part has no bytes",
                         "layer " + std::to_string(layer) + " " + std::string(name_of(static_cast<Part>(p)))};
          }
          placed.raw[p] = bytes->raw[p];
          placed.offset[p] = at;
          placed.slot[p] = bytes->slot[p];
          at = (at + bytes->slot[p] + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
        }
        placed.size_class = geometry.class_with(at);
        ++geometry.classes_[placed.size_class].n_layers;
      } else {
        placed.size_class = kDense;
      }
      geometry.layers_.push_back(placed);
    }
    return geometry;
  }

  std::uint32_t n_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }
  std::uint32_t n_experts() const noexcept { return n_experts_; }
  std::uint32_t top_k() const noexcept { return top_k_; }
  std::span<const SizeClass> classes() const noexcept { return classes_; }

  bool has_experts(LayerId layer) const noexcept {
    return layer.value < layers_.size() && layers_[layer.value].size_class != kDense;
  }
  /// These four require has_experts(layer).
  std::uint32_t class_of(LayerId layer) const noexcept { return layers_[layer.value].size_class; }
  std::uint64_t raw_bytes(LayerId layer, Part part) const noexcept { return layers_[layer.value].raw[index(part)]; }
  std::uint64_t slot_bytes(LayerId layer, Part part) const noexcept { return layers_[layer.value].slot[index(part)]; }
  std::uint64_t part_offset(LayerId layer, Part part) const noexcept {
    return layers_[layer.value].offset[index(part)];
  }

  /// Experts of all layers of a class: with that many slots it holds all of them.
  std::uint32_t experts_in_class(std::uint32_t size_class) const noexcept {
    return classes_[size_class].n_layers * n_experts_;
  }
  /// Slots for every expert of the model.
  Bytes all_bytes() const noexcept {
    Bytes sum{};
    for (std::uint32_t c = 0; c < classes_.size(); ++c) sum += Bytes{classes_[c].slot_bytes} * experts_in_class(c);
    return sum;
  }
  /// What one token touches: k slots a layer. A cache smaller than this can't hold one token's experts.
  Bytes token_cycle() const noexcept {
    Bytes sum{};
    for (const SizeClass& c : classes_) sum += Bytes{c.slot_bytes} * (std::uint64_t{c.n_layers} * top_k_);
    return sum;
  }
  std::uint64_t largest_raw_part() const noexcept {
    std::uint64_t largest = 0;
    for (const Layer& layer : layers_) {
      for (const std::uint64_t bytes : layer.raw) largest = bytes > largest ? bytes : largest;
    }
    return largest;
  }

 private:
  static constexpr std::uint32_t kDense = 0xFFFFFFFF;
  struct Layer {
    std::array<std::uint64_t, kParts> raw;
    std::array<std::uint64_t, kParts> slot;
    std::array<std::uint64_t, kParts> offset;
    std::uint32_t size_class;
  };
  static constexpr std::size_t index(Part part) noexcept { return static_cast<std::size_t>(part); }

  std::uint32_t class_with(std::uint64_t slot_bytes) {
    for (std::uint32_t c = 0; c < classes_.size(); ++c) {
      if (classes_[c].slot_bytes == slot_bytes) return c;
    }
    classes_.push_back({slot_bytes, 0});
    return static_cast<std::uint32_t>(classes_.size() - 1);
  }

  std::vector<Layer> layers_;
  std::vector<SizeClass> classes_;
  std::uint32_t n_experts_ = 0;
  std::uint32_t top_k_ = 0;
};

/// The geometry of an index of experts whose slots hold `slot_bytes(LayerId, Part)` bytes a part.
template <class Index, class SlotBytes>
Result<CacheGeometry> geometry_of(const Index& index, std::uint32_t top_k, SlotBytes&& slot_bytes) {
  std::vector<std::optional<ExpertBytes>> layers(index.n_layers());
  for (std::uint32_t l = 0; l < index.n_layers(); ++l) {
    const LayerId layer{l};
    if (!index.has_experts(layer)) continue;
    layers[l].emplace();
    for (std::size_t p = 0; p < kParts; ++p) {
      layers[l]->raw[p] = index.part_bytes(layer, static_cast<Part>(p));
      layers[l]->slot[p] = slot_bytes(layer, static_cast<Part>(p));
    }
  }
  return CacheGeometry::make(index.n_experts(), top_k, std::move(layers));
}
template <class Index>
Result<CacheGeometry> geometry_of(const Index& index, std::uint32_t top_k) {
  return geometry_of(index, top_k, [&](LayerId layer, Part part) { return index.part_bytes(layer, part); });
}

}  // namespace coli
