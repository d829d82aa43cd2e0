// SPDX-License-Identifier: Apache-2.0
// Do all launches of models as large as there are stay within what devices take? Shapes are constant data: no GPU is needed.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <type_traits>

#include "coli/kernels/grid/attend.hpp"
#include "coli/kernels/grid/combine.hpp"
#include "coli/kernels/grid/embed.hpp"
#include "coli/kernels/grid/expert_groups.hpp"
#include "coli/kernels/grid/group_by_expert.hpp"
#include "coli/kernels/grid/kv_write.hpp"
#include "coli/kernels/grid/rmsnorm.hpp"
#include "coli/kernels/grid/rope.hpp"
#include "coli/kernels/grid/swiglu.hpp"
#include "coli/kernels/grid/top_k.hpp"
#include "coli/kernels/grid/tuning.hpp"

namespace coli::grid {
namespace {

/// A pass through a layer of such a model.
struct Model {
  std::uint32_t tokens, context, hidden, heads, kv_heads, head_dim, experts, top_k, ffn, vocab;
};
constexpr Model kModels[]{
    {1, 512, 32, 1, 1, 32, 2, 1, 32, 256},                        // about the least
    {2048, 262144, 2048, 32, 4, 128, 128, 8, 768, 151936},        // 30B-A3B, the longest context and pass
    {2048, 262144, 4096, 64, 4, 128, 128, 8, 1536, 151936},       // 235B-A22B
    {1, 262144, 4096, 64, 4, 128, 512, 10, 512, 151936},          // 512 experts, decode
    {1, 4 << 20, 8192, 128, 8, 256, 2048, 22, 2048, 262144},      // larger than any published
};

/// May it be launched, and do its arguments and shared memory fit?
template <class B>
consteval bool fits() {
  return sizeof(B) <= 4096 && std::is_trivially_copyable_v<B> && (std::is_empty_v<typename B::Shared> || sizeof(typename B::Shared) + 512 <= 48 * 1024);
}
template <class B, class... Args>
constexpr bool launches(Args... args) {
  static_assert(fits<B>(), "arguments or shared memory are too large");
  return takes<B>(B::shape(args...));
}

template <class F>
constexpr bool products_launch(const Model& m) {
  const std::uint32_t groups = m.tokens == 1 ? 2 * m.top_k : 2 * m.experts;
  return launches<SingleMatmul<F>>(m.vocab, 1u) && launches<SingleMatmul<F>>(m.ffn, groups) && launches<BatchMatmul<F>>(m.hidden, groups) && launches<BatchMatmul<F>>(m.vocab, 3u) &&
         launches<Embed<F, Layout::plain>>(m.tokens) && launches<Embed<F, Layout::prepared>>(m.tokens);
}
template <class... Fs>
constexpr bool all_products_launch(const Model& m, formats<Fs...>) {
  return (products_launch<Fs>(m) && ...);
}

constexpr bool all_launch(const Model& m) {
  const std::uint32_t splits = AttendPartials::splits(m.context), uses = m.tokens * m.top_k;
  return all_products_launch(m, all_formats{}) && launches<RmsNorm<kWarp>>(m.tokens * m.heads) && launches<RmsNorm<256>>(m.tokens) && launches<Rope>(m.tokens) &&
         launches<KvWrite<float>>(m.tokens) && launches<KvWrite<std::uint16_t>>(m.tokens) && launches<AttendSplit<float>>(m.tokens, m.heads, m.kv_heads, splits) &&
         launches<AttendSplit<std::uint16_t>>(m.tokens, m.heads, m.kv_heads, splits) && launches<AttendMerge>(m.tokens, m.heads) && launches<Add>(m.tokens * m.hidden) &&
         launches<TopK>(m.tokens) && launches<GroupByExpert>(m.experts) && launches<ExpertGroups>(m.experts) && launches<SetGroups>() && launches<Swiglu>(uses, m.ffn) &&
         launches<Quantise>(m.tokens, m.hidden) && launches<Combine>(m.tokens, m.hidden) && takes<Argmax>(Argmax::first(m.vocab)) && takes<Argmax>(Argmax::second());
}

BOOST_AUTO_TEST_CASE(every_launch_of_large_models_is_possible) {
  for (const Model& m : kModels) BOOST_TEST(all_launch(m), m.experts << " experts, " << m.tokens << " tokens");
}

BOOST_AUTO_TEST_CASE(what_no_device_takes_is_told) {
  static_assert(LaunchShape{1, 65535, 1024}.is_possible() && LaunchShape{0x7FFF'FFFF, 1, 32}.is_possible());
  static_assert(!LaunchShape{1, 65536, 32}.is_possible() && !LaunchShape{0x8000'0000, 1, 32}.is_possible());
  static_assert(!LaunchShape{0, 1, 32}.is_possible() && !LaunchShape{1, 0, 32}.is_possible() && !LaunchShape{1, 1, 0}.is_possible());
  static_assert(!LaunchShape{1, 1, 33}.is_possible() && !LaunchShape{1, 1, 2048}.is_possible());
  static_assert(!takes<GroupByExpert>({1, 1, 64}) && !takes<Add>({1, 1, 512}), "a body with its own size of block, one that says none");
  static_assert(!launches<Swiglu>(65536u, 32u), "one row more than a launch has");
}

BOOST_AUTO_TEST_CASE(every_format_is_tuned) {
  for (std::size_t f = 0; f < kFormats; ++f)
    for (const bool single : {true, false}) {
      const MatmulTuning tuning = matmul_tuning(static_cast<Format>(f), single);
      BOOST_TEST(tuning.rows >= 1U);
      BOOST_TEST(tuning.columns == (single ? 1U : tuning.columns));  // more would load what nobody uses
      BOOST_TEST(tuning.ahead >= 1U);
    }
  static_assert(std::is_same_v<SingleMatmul<Q4_K>, Matmul<Q4_K, Layout::prepared, 1, 1, 2>>);
}

}  // namespace
}  // namespace coli::grid
