// SPDX-License-Identifier: Apache-2.0
// A named composition: backend x formats x eviction policy, checked in words where it does not fit together.
#pragma once

#include <concepts>
#include <span>
#include <string_view>

#include "coli/contracts/backend.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/contracts/names_itself.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/moe/moe_block.hpp"
#include "coli/profile_about.hpp"
#include "coli/quant/format.hpp"
#include "coli/store/any_store.hpp"

namespace coli {

/// What an engine is made of. `Base` policies are types; a host writes its own and composes them here. `About` tells
/// people and the planner what the types can't: see ProfileAbout.
template <FixedName Name, class BackendT, class FormatsT, class EvictionT, KvFormat Kv = KvFormat::f32, class About = NothingToSay>
struct profile {
  static constexpr FixedName name = Name;
  using Backend = BackendT;
  using Formats = FormatsT;
  using Eviction = EvictionT;
  static constexpr KvFormat kKvFormat = Kv;  // unless the options say otherwise
  static constexpr ProfileAbout about = About::about;

  static_assert(is_profile_name(Name.view()), "profile: a name is lower-case letters, digits, - and _, starts with a letter, and isn't auto");
  static_assert(is_set_of_formats<FormatsT>, "profile: the second policy is a set of formats, coli::formats<Q4_K, Q6_K, F32>, each named once");
  static_assert(require_eviction_policy<EvictionT>());
  static_assert(require_backend<BackendT>());
  static_assert(keeps_kv<BackendT, Kv>, "profile: this backend keeps no keys and values of that format");
};

template <class P>
concept Profile = NamesItself<P> && requires {
  typename P::Backend;
  typename P::Formats;
  typename P::Eviction;
  { P::kKvFormat } -> std::convertible_to<KvFormat>;
};

/// What a profile says of itself; a profile that says nothing is no less of one.
template <class P>
constexpr ProfileAbout about_of() {
  if constexpr (requires { P::about; }) return P::about;
  else return {};
}

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
