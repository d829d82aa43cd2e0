// SPDX-License-Identifier: Apache-2.0
// A named composition: backend x formats x eviction policy, checked in words where it does not fit together.
#pragma once

#include <concepts>
#include <string_view>

#include "coli/contracts/backend.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/contracts/names_itself.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/moe/moe_block.hpp"
#include "coli/quant/format.hpp"
#include "coli/store/any_store.hpp"

namespace coli {

/// What an engine is made of. `Base` policies are types; a host writes its own and composes them here.
template <FixedName Name, class BackendT, class FormatsT, class EvictionT, KvFormat Kv = KvFormat::f32>
struct profile {
  static constexpr FixedName name = Name;
  using Backend = BackendT;
  using Formats = FormatsT;
  using Eviction = EvictionT;
  static constexpr KvFormat kKvFormat = Kv;  // unless the options say otherwise

  static_assert(require_eviction_policy<EvictionT>());
  static_assert(require_backend<BackendT>());
};

template <class P>
concept Profile = NamesItself<P> && requires {
  typename P::Backend;
  typename P::Formats;
  typename P::Eviction;
  { P::kKvFormat } -> std::convertible_to<KvFormat>;
};

/// Optional members of a profile: `Routes` (see OwnRoutes) and `Store` (opened as AnyStore is). Tests and benchmarks put
/// their own here; what ships has neither.
template <class P>
struct RoutesOfProfile {
  using type = OwnRoutes;
};
template <class P>
  requires requires { typename P::Routes; }
struct RoutesOfProfile<P> {
  using type = typename P::Routes;
};
template <class P>
using RoutesOf = typename RoutesOfProfile<P>::type;

template <class P>
struct StoreOfProfile {
  using type = AnyStore;
};
template <class P>
  requires requires { typename P::Store; }
struct StoreOfProfile<P> {
  using type = typename P::Store;
};
template <class P>
using StoreOf = typename StoreOfProfile<P>::type;

}  // namespace coli
