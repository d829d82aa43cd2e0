// SPDX-License-Identifier: Apache-2.0
// A host proves its own format, policy, store, sampler and kernels with the kit that is installed; no test framework.
// The second half plants one fault in each, and expects the kit to say so: a proof that can't fail proves nothing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <coli/backend/scalar.hpp>
#include <coli/conformance/eviction_laws.hpp>
#include <coli/conformance/format_laws.hpp>
#include <coli/conformance/kernel_laws.hpp>
#include <coli/conformance/sampler_laws.hpp>
#include <coli/conformance/store_laws.hpp>

namespace host {

/// Four values of one byte each under a shared power of two. kShift = 1 is the fault: twice too large.
template <int kShift>
struct Quarters {
  static constexpr coli::FixedName name{"host_quarters"};
  static constexpr std::size_t kValuesPerBlock = 4, kBytesPerBlock = 5;
  static void decode(const std::byte* block, float* values) noexcept {
    const int exponent = static_cast<signed char>(block[0]);
    for (std::size_t i = 0; i < 4; ++i) values[i] = std::ldexp(static_cast<float>(static_cast<signed char>(block[1 + i])), exponent + kShift);
  }
  static void encode(const float* values, std::byte* block) noexcept {
    float most = 0;
    for (std::size_t i = 0; i < 4; ++i) most = std::max(most, std::fabs(values[i]));
    int exponent = 0;
    (void)std::frexp(most, &exponent);
    exponent = std::max(exponent - 6, -100);
    block[0] = static_cast<std::byte>(exponent);
    for (std::size_t i = 0; i < 4; ++i) block[1 + i] = static_cast<std::byte>(static_cast<signed char>(std::lrint(std::ldexp(values[i], -exponent))));
  }
};

/// First in, first out. kIgnoresLeases is the fault.
template <bool kIgnoresLeases>
class Fifo {
 public:
  static constexpr coli::FixedName name{"host_fifo"};
  explicit Fifo(coli::EvictionShape) {}
  void on_fill(coli::SlotId slot, coli::ExpertKey) noexcept { order_.push_back(slot); }
  void on_hit(coli::SlotId, coli::ExpertKey) noexcept {}
  void on_erase(coli::SlotId slot, coli::ExpertKey) noexcept { order_.erase(std::find(order_.begin(), order_.end(), slot)); }
  std::optional<coli::SlotId> victim(const coli::Evictable& may_go, coli::ExpertKey) noexcept {
    for (const coli::SlotId slot : order_)
      if (kIgnoresLeases || may_go(slot)) return slot;
    return std::nullopt;
  }
  void reset() noexcept { order_.clear(); }

 private:
  std::deque<coli::SlotId> order_;
};

/// Reads at once, when asked. kHalf is the fault: half a part passes for all of it.
template <bool kHalf>
class Eager {
 public:
  static constexpr coli::FixedName name{"host_eager"};
  explicit Eager(const coli::ExpertIndex& index) : index_(&index) {}
  coli::Result<coli::ReadTicket> submit(coli::ExpertKey key, coli::Part part, std::span<std::byte> to, coli::Urgency) {
    if (!index_->contains(key)) return coli::Error{coli::Errc::internal, "no such expert"};
    const coli::Extent extent = index_->extent(key, part);
    if (to.size() < extent.bytes) return coli::Error{coli::Errc::internal, "too little room"};
    const std::byte* from = index_->files()[extent.file].memory.data() + extent.offset;
    std::memcpy(to.data(), from, static_cast<std::size_t>(kHalf ? extent.bytes / 2 : extent.bytes));
    const std::lock_guard lock(mutex_);
    const coli::ReadTicket ticket{++last_};
    done_.push_back({ticket, coli::Result<const std::byte*>(to.data())});
    return ticket;
  }
  std::optional<coli::Completion> poll() {
    const std::lock_guard lock(mutex_);
    if (done_.empty()) return std::nullopt;
    coli::Completion first = std::move(done_.front());
    done_.pop_front();
    return first;
  }
  std::optional<coli::Completion> wait(std::chrono::milliseconds) { return poll(); }
  void cancel(coli::ReadTicket) {}
  void promote(coli::ReadTicket) {}
  coli::StoreAlignment alignment() const noexcept { return {1, 0}; }

 private:
  const coli::ExpertIndex* index_;
  std::mutex mutex_;
  std::deque<coli::Completion> done_;
  std::uint64_t last_ = 0;
};

/// The most likely token. kHigh is the fault: ties go to the higher id.
template <bool kHigh>
struct Best {
  coli::Result<coli::TokenId> next(std::span<const float> logits) const {
    std::int32_t best = -1;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (!(logits[i] < INFINITY)) return coli::Error{coli::Errc::internal, "a logit is not finite"};
      if (logits[i] == -INFINITY) continue;
      const float held = best < 0 ? -INFINITY : logits[static_cast<std::size_t>(best)];
      if (kHigh ? logits[i] >= held : logits[i] > held) best = static_cast<std::int32_t>(i);
    }
    if (best < 0) return coli::Error{coli::Errc::internal, "no candidate"};
    return coli::TokenId{best};
  }
};

/// Our own gate on top of the plain kernels. kSwapped is the fault: silu of the wrong half.
template <bool kSwapped>
struct Kernels : coli::ScalarKernels {
  static constexpr coli::FixedName name{"host_kernels"};
  void swiglu(const float* gate, const float* up, std::uint32_t n, float* out) const {
    coli::ScalarKernels::swiglu(kSwapped ? up : gate, kSwapped ? gate : up, n, out);
  }
};

}  // namespace host

namespace kit = coli::conformance;

int main() {
  const kit::ExpertFiles files(kit::small_shape());
  int failures = 0;
  const auto expect = [&](bool holds, const char* what, const kit::Findings& found) {
    if (static_cast<bool>(found) == holds) return;
    ++failures;
    std::printf("%s: %s\n%s\n", what, holds ? "a law is broken" : "the planted fault was not seen", found.text().c_str());
  };
  // 1.5, -0.75, 0.25, 2: worked by hand as 24, -12, 4, 32 times 2^-4.
  const std::vector<std::byte> block{std::byte{0xFC}, std::byte{24}, std::byte{0xF4}, std::byte{4}, std::byte{32}};
  const kit::FormatVector vectors[]{{block, {0x3FC00000, 0xBF400000, 0x3E800000, 0x40000000}}};
  expect(true, "format", kit::check_format_laws<host::Quarters<0>>(vectors));
  expect(false, "format", kit::check_format_laws<host::Quarters<1>>(vectors));
  expect(true, "policy", kit::check_eviction_laws<host::Fifo<false>>());
  expect(false, "policy", kit::check_eviction_laws<host::Fifo<true>>());
  expect(true, "store", kit::check_store_laws(files, [&] { return std::make_unique<host::Eager<false>>(files.in_memory()); }));
  expect(false, "store", kit::check_store_laws(files, [&] { return std::make_unique<host::Eager<true>>(files.in_memory()); }));
  expect(true, "sampler", kit::check_sampler_laws<host::Best<false>>([](std::uint64_t) { return host::Best<false>{}; }));
  expect(true, "sampler", kit::check_is_greedy<host::Best<false>>([] { return host::Best<false>{}; }));
  expect(false, "sampler", kit::check_is_greedy<host::Best<true>>([] { return host::Best<true>{}; }));
  expect(true, "kernels", kit::check_kernel_laws(host::Kernels<false>{}));
  expect(false, "kernels", kit::check_kernel_laws(host::Kernels<true>{}));
  expect(true, "backend", kit::check_thread_laws(host::Kernels<false>{}));
  std::printf("prove: %d surprises\n", failures);
  return failures == 0 ? 0 : 1;
}
