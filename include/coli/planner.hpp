// SPDX-License-Identifier: Apache-2.0
// What fits this machine, and how fast will it be? A pure function of model, profile, machine and wishes.
//
// What a budget buys is the longest prefix of one fixed sequence of purchases, which does not depend on the budget: the
// least that runs, then expert slots, with a context twice as long as soon as its keys and values are an eighth of all
// that is bought, and a prefill pass twice as large as soon as its scratch is a twentieth. So more memory never means a
// shorter context, fewer slots or a smaller pass, and the plan is found in as many steps as there are slots. A budget
// just short of such a step stays unspent by up to half of it. A wish takes its purchase out of the sequence.
// With a graphics card, the sequence is bought of its memory; this machine's then holds the experts that are left.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/cache/slot_plan.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/engine_bill.hpp"
#include "coli/plan/decode_time.hpp"
#include "coli/plan/machine.hpp"
#include "coli/plan/memory_bill.hpp"
#include "coli/plan/reuse_curve.hpp"
#include "coli/plan_needs.hpp"
#include "coli/store/store_options.hpp"

namespace coli {

/// What was asked for; what is empty, the planner chooses.
struct PlanWishes {
  std::optional<Bytes> memory{};  // for everything the process holds
  std::optional<Bytes> vram{};    // of the graphics card
  std::optional<Bytes> disk{};    // that the model's files may take
  std::optional<std::uint32_t> context{};
  std::optional<std::uint32_t> chunk{};
  std::optional<KvFormat> kv{};
  unsigned threads = 0;
  StoreKind store = StoreKind::best;
  std::uint32_t prompt_tokens = 16;  // that the time to the first token is reckoned for
};

struct Plan {
  std::string profile;
  std::string model;
  std::string formats;
  EngineShape shape{};
  unsigned threads = 1;
  StoreKind store = StoreKind::best;
  MemoryReading limit;
  MemoryBill bill;   // of this machine's memory
  SlotPlan slots;    // in this machine's memory, or the card's where there is one
  Bytes cache{};     // taken of this machine's memory for experts: the slots' bytes without a card
  Bytes at_hand{};   // experts' bytes that need no read: the cache, or what the file's own memory shows without a copy
  std::optional<MemoryReading> device_limit{};
  MemoryBill device_bill;
  Bytes file{};
  Bytes token_cycle{};
  bool resident = false;  // nothing is read once it runs
  double share = 0;       // of all experts held
  double hit_rate = 0;    // of them that need no read from disk
  std::string hit_source;
  DecodeTime token;       // at position kDecodePosition
  double first_token_seconds = 0;
  std::string_view binds;  // compute, memory or disk
  RateReading weight_rate, disk_rate;

  Bytes total() const { return bill.fixed() + cache; }
  Bytes device_total() const { return device_limit ? device_bill.fixed() + slots.bytes : Bytes{}; }
  static constexpr std::uint32_t kDecodePosition = 256;
};

/// What does not fit, by how much, and what would.
struct PlanRefusal {
  std::string budget;  // "--memory", "--vram", "--disk", or the wish that can't be
  Bytes limit{}, needed{};
  MemoryBill bill;     // the least that would run, where a bill is what doesn't fit
  std::vector<std::string> remedies;  // most useful first
  std::optional<Plan> nearest{};      // with exactly what is needed
  Error error{};
};

struct PlanOutcome {
  std::optional<Plan> plan;
  std::optional<PlanRefusal> refusal;
};

inline constexpr std::uint32_t kLeastContext = 256, kLeastChunk = 16;

namespace detail {

/// What a layer costs besides its weights: barriers of some twenty regions, norms, attention's bookkeeping.
inline constexpr double kLayerSeconds = 60e-6;
/// What putting a read expert into its slot costs, in reads of as many bytes of memory by all cores: the raw bytes come
/// from memory, the slot's lines are fetched and written back, and the permutation keeps three quarters of that pace.
inline constexpr double kFillTransfers = 4;
/// A card's driver, context and kernels.
inline constexpr Bytes kDeviceBase{512 * kMiB};

/// One model under one profile, and the purchases that a budget makes.
class Shopper {
 public:
  Shopper(const ModelNeeds& model, const PlannedProfile& profile, const PlanWishes& wishes, unsigned threads, const ExpertSizes& experts, Bytes base)
      : model_(&model), profile_(&profile), threads_(threads), experts_(experts), base_(base) {
    const std::uint32_t most = std::min(model.h.context, kDefaultContext);
    last_context_ = wishes.context.value_or(most);
    first_context_ = wishes.context.value_or(std::min(most, kLeastContext));
    wished_chunk_ = wishes.chunk;
    kv_ = wishes.kv.value_or(profile.kv);
  }

  struct Bought {
    EngineShape shape{};
    MemoryBill bill;
    Bytes slots{};
  };

  MemoryBill bill(EngineShape shape) const {
    const Bytes scratch = profile_->scratch(backend_shape(model_->h, shape), threads_);
    MemoryBill bill = engine_bill(model_->h, model_->n_vocab, model_->trunk, shape, scratch, experts_);
    bill.base = base_;
    return bill;
  }
  EngineShape least_shape() const { return shaped(first_context_, first_chunk(first_context_)); }

  /// Nothing where not even the least fits.
  std::optional<Bought> spend(Bytes limit) const {
    EngineShape shape = least_shape();
    MemoryBill at = bill(shape);
    if (at.least() > limit) return std::nullopt;
    Bytes bought = at.least_slots;
    for (;;) {
      struct Step {
        EngineShape shape;
        MemoryBill bill;
        Bytes slots;  // that are bought before it
      };
      std::optional<Step> next;
      const auto offer = [&](EngineShape then, auto&& worth) {
        const MemoryBill bill = this->bill(then);
        const Bytes slots = std::max(bought, slots_worth(worth(bill) - bill.fixed()));
        if (!next || slots < next->slots) next = Step{then, bill, slots};
      };
      if (shape.context < last_context_) {
        const std::uint32_t longer = std::min(shape.context * 2, last_context_);
        offer(shaped(longer, wished_chunk_ ? first_chunk(longer) : shape.chunk), [](const MemoryBill& bill) { return bill.kv * 8; });
      }
      if (const std::uint32_t last = std::min(kDefaultChunk, shape.context); !wished_chunk_ && shape.chunk < last)
        offer(shaped(shape.context, std::min(shape.chunk * 2, last)), [](const MemoryBill& bill) { return bill.scratch * 20; });
      if (!next) return Bought{shape, at, slots_for(limit - at.fixed())};
      if (next->bill.fixed() + next->slots > limit) return Bought{shape, at, slots_for(std::min(limit - at.fixed(), next->slots))};
      shape = next->shape, at = next->bill, bought = next->slots;
    }
  }

 private:
  EngineShape shaped(std::uint32_t context, std::uint32_t chunk) const { return {context, chunk, kv_}; }
  std::uint32_t first_chunk(std::uint32_t context) const { return std::clamp(wished_chunk_.value_or(kLeastChunk), 1U, context); }
  /// The prefix of the sequence of slots that a budget buys.
  Bytes slots_for(Bytes budget) const {
    if (experts_.all_slots.value == 0) return {};
    const auto plan = plan_slots(model_->experts, std::max(budget, experts_.least_slots));
    return plan ? plan->bytes : Bytes{};
  }
  /// A prefix of at least that many bytes, or all.
  Bytes slots_worth(Bytes bytes) const {
    Bytes largest{};
    for (const auto& c : model_->experts.classes()) largest = std::max(largest, Bytes{c.slot_bytes});
    return slots_for(bytes + largest);
  }

  const ModelNeeds* model_;
  const PlannedProfile* profile_;
  unsigned threads_;
  ExpertSizes experts_;
  Bytes base_;
  std::uint32_t first_context_ = 0, last_context_ = 0;
  std::optional<std::uint32_t> wished_chunk_;
  KvFormat kv_ = KvFormat::f32;
};

inline double ratio(Bytes part, Bytes whole) { return whole.value == 0 ? 1 : static_cast<double>(part.value) / static_cast<double>(whole.value); }

/// Fills in what a plan's user will see of it: hits, rates, what binds.
inline void predict(Plan& plan, const ModelNeeds& model, const Machine& machine, const ReuseCurve& curve, std::uint32_t prompt_tokens) {
  const CacheGeometry& experts = model.experts;
  const Bytes all = experts.all_bytes();
  const Bytes on_device = plan.device_limit ? plan.slots.bytes : Bytes{};
  plan.share = std::min(1.0, ratio(plan.at_hand + on_device, all));
  plan.resident = plan.share >= 1;
  plan.hit_rate = plan.resident ? 1 : curve.hits_at(plan.share);
  plan.hit_source = plan.resident ? "all experts are held" : curve.source();

  // What a use that isn't at hand costs: a read from disk, or with a card, a copy where this machine holds the expert.
  double at_hand = plan.hit_rate, rate = machine.disk_rate.bytes_per_second;
  if (plan.device_limit) {
    const double nearest = on_device >= all ? 1 : curve.hits_at(ratio(on_device, all));
    at_hand = nearest;
    const double copies = plan.hit_rate - nearest, reads = 1 - plan.hit_rate;
    if (copies + reads > 0) rate = (copies + reads) / (copies / machine.device->link.bytes_per_second + reads / machine.disk_rate.bytes_per_second);
  }
  if (!plan.device_limit) rate = 1 / (1 / rate + kFillTransfers / machine.memory_rate.bytes_per_second);
  const double weights = plan.weight_rate.bytes_per_second;
  const auto seconds = [&](Bytes bytes) { return static_cast<double>(bytes.value) / weights; };
  const std::uint32_t position = std::min(Plan::kDecodePosition, plan.shape.context);
  const Bytes kv_layer{KvShape{1, model.h.n_kv_heads, model.h.head_dim, position, plan.shape.kv}.bytes()};
  plan.token = {seconds(model.head), 0};
  for (std::uint32_t l = 0; l < model.layers.size(); ++l) {
    LayerLoad load{seconds(model.layers[l] + kv_layer) + kLayerSeconds};
    if (experts.has_experts(LayerId{l})) {
      const Bytes expert{experts.classes()[experts.class_of(LayerId{l})].slot_bytes};
      load.expert_seconds = seconds(expert);
      load.expert_bytes = static_cast<double>(expert.value);
    }
    plan.token += expected_layer_time(load, experts.has_experts(LayerId{l}) ? experts.top_k() : 0, at_hand, rate);
  }
  plan.binds = plan.token.wait_seconds > plan.token.compute_seconds                                       ? "disk"
               : plan.weight_rate.bytes_per_second >= 0.75 * machine.memory_rate.bytes_per_second ||
                         plan.device_limit                                                        ? "memory"
                                                                                                  : "compute";

  // From cold caches: the trunk, and the experts that the prompt touches (all of them where all are held) once a pass.
  const double untouched = std::pow(1 - static_cast<double>(experts.top_k()) / std::max(1U, experts.n_experts()), std::min(prompt_tokens, plan.shape.chunk));
  const double passes = std::ceil(static_cast<double>(prompt_tokens) / plan.shape.chunk);
  const double touched = plan.resident ? 1 : std::min((1 - untouched) * passes, std::max(passes, 1.0));
  const double reads = static_cast<double>(model.trunk.value) + touched * static_cast<double>(all.value);
  plan.first_token_seconds = (model.in_memory ? 0 : reads / machine.disk_rate.bytes_per_second) + plan.token.compute_seconds * prompt_tokens;
}

inline PlanRefusal refuse(std::string budget, Bytes limit, Bytes needed, MemoryBill bill, std::vector<std::string> remedies) {
  std::string message = to_text(limit) + " is not enough, " + std::to_string((needed - limit).value) + " bytes short";
  if (needed == bill.least()) message += ": " + bill.items() + ", least expert slots " + to_text(bill.least_slots) + " = " + to_text(needed);
  if (!remedies.empty()) message += "; would work: " + remedies.front();
  for (std::size_t i = 1; i < remedies.size(); ++i) message += ", or " + remedies[i];
  return {budget, limit, needed, bill, std::move(remedies), std::nullopt, {Errc::over_budget, std::move(message), budget}};
}

inline PlanRefusal refuse_wish(std::string wish, std::string why, Errc code = Errc::usage) { return {wish, {}, {}, {}, {}, std::nullopt, {code, std::move(why), wish}}; }

/// Wishes that would let the least fit into `limit`, each by itself.
template <class LeastOf>
std::vector<std::string> remedies_for(const PlanWishes& wishes, const std::string& budget, Bytes limit, LeastOf&& least_of) {
  std::vector<std::string> remedies;
  const auto fits = [&](const PlanWishes& other) { return least_of(other) <= limit; };
  if (wishes.context) {
    PlanWishes other = wishes;
    std::uint32_t good = 0, bad = *wishes.context;  // bisection: a shorter context never needs more
    while (bad - good > 1) {
      other.context = good + (bad - good) / 2;
      (fits(other) ? good : bad) = *other.context;
    }
    if (good > 0) remedies.push_back("--ctx " + std::to_string(good));
  }
  if (PlanWishes other = wishes; wishes.kv == KvFormat::f32 && (other.kv = KvFormat::f16, fits(other))) remedies.push_back("--kv f16");
  if (PlanWishes other = wishes; wishes.chunk && (other.chunk.reset(), fits(other))) remedies.push_back("no --chunk");
  if (PlanWishes other = wishes; wishes.store == StoreKind::memory && (other.store = StoreKind::best, fits(other))) remedies.push_back("--store auto");
  remedies.push_back(budget + " " + std::to_string(least_of(wishes).value));
  return remedies;
}

}  // namespace detail

/// The plan for one model under one profile, or why there is none. `profile.why_not` is not looked at: plans may be made
/// for what isn't here. With a device profile `machine.device` must be set.
inline PlanOutcome plan_run(const ModelNeeds& model, const PlannedProfile& profile, const Machine& machine, const PlanWishes& wishes, const ReuseCurve& curve) {
  const auto with = [&](std::optional<Bytes> PlanWishes::* budget, Bytes bytes) {
    PlanWishes enough = wishes;
    enough.*budget = bytes;
    return plan_run(model, profile, machine, enough, curve).plan;
  };
  const auto no = [](PlanRefusal refusal) { return PlanOutcome{std::nullopt, std::move(refusal)}; };
  if (wishes.context && (*wishes.context == 0 || *wishes.context > model.h.context))
    return no(detail::refuse_wish("--ctx", std::to_string(*wishes.context) + " positions; the model was trained for 1 to " + std::to_string(model.h.context)));
  if ((wishes.kv == KvFormat::f16 && !profile.keeps_f16))
    return no(detail::refuse_wish("--kv", "the profile '" + profile.name + "' keeps no f16 keys and values; it keeps f32", Errc::unavailable));
  if (wishes.disk && model.file > *wishes.disk)
    return no(detail::refuse("--disk", *wishes.disk, model.file, {}, {"--disk " + std::to_string(model.file.value), "a file in a format of fewer bits"}));

  const bool device = profile.processor == Processor::device;
  const unsigned threads = wishes.threads != 0 ? wishes.threads : machine.cpus.cores;
  const bool zero_copy = wishes.store == StoreKind::mmap || (model.in_memory && profile.plain_layout);
  const std::uint64_t block = machine.direct_block;
  const StoreAlignment alignment = model.in_memory ? StoreAlignment{0, 0} : block == 0 ? StoreAlignment{64, 0} : StoreAlignment{static_cast<std::size_t>(block), static_cast<std::size_t>(2 * block)};
  const auto sizes = [&](const PlanWishes& w) {
    ExpertSizes experts = expert_sizes(model.experts, zero_copy, alignment);
    if (w.store == StoreKind::memory) experts.least_slots = experts.all_slots;
    return experts;
  };
  const Bytes base = machine.process.bytes + kEngineSlack;

  Plan plan;
  plan.profile = profile.name;
  plan.model = model.name;
  plan.formats = model.formats;
  plan.threads = threads;
  plan.store = wishes.store;
  plan.file = model.file;
  plan.token_cycle = model.experts.token_cycle();
  plan.disk_rate = machine.disk_rate;
  plan.limit = wishes.memory ? MemoryReading{*wishes.memory, "--memory"} : machine.usable();
  const std::string memory_budget = wishes.memory ? "--memory" : "memory (" + plan.limit.source + ")";

  const detail::Shopper shopper(model, profile, wishes, threads, sizes(wishes), device ? detail::kDeviceBase : base);
  const Bytes limit = device ? wishes.vram.value_or(machine.device->free) : plan.limit.bytes;
  const auto bought = shopper.spend(limit);
  if (!bought) {
    const auto least_of = [&](const PlanWishes& w) {
      const detail::Shopper other(model, profile, w, threads, sizes(w), device ? detail::kDeviceBase : base);
      return other.bill(other.least_shape()).least();
    };
    const std::string budget = device ? "--vram" : memory_budget;
    const MemoryBill bill = shopper.bill(shopper.least_shape());
    PlanRefusal refusal = detail::refuse(budget, limit, bill.least(), bill, detail::remedies_for(wishes, device ? "--vram" : "--memory", limit, least_of));
    refusal.nearest = with(device ? &PlanWishes::vram : &PlanWishes::memory, bill.least());
    return no(std::move(refusal));
  }
  plan.shape = bought->shape;
  if (bought->slots.value != 0)
    if (auto slots = plan_slots(model.experts, bought->slots)) plan.slots = *std::move(slots);
  plan.bill = bought->bill;
  plan.cache = bought->slots;
  plan.weight_rate = {machine.memory_rate.bytes_per_second * profile.memory_share,
                      std::to_string(std::lround(100 * profile.memory_share)) + " % of the memory's read rate"};
  if (const double most = profile.most_core_rate * threads; most < plan.weight_rate.bytes_per_second) plan.weight_rate = {most, "what " + std::to_string(threads) + " cores compute"};
  if (machine.weight_rate) plan.weight_rate = *machine.weight_rate;
  if (device) {
    plan.device_limit = MemoryReading{limit, wishes.vram ? "--vram" : machine.device->source};
    plan.device_bill = bought->bill;
    plan.device_bill.io = Bytes{};
    plan.bill = {};
    plan.bill.base = base;
    plan.bill.io = bought->bill.io;
    if (plan.bill.fixed() > plan.limit.bytes) {
      const MemoryBill bill = plan.bill;
      PlanRefusal refusal = detail::refuse(memory_budget, plan.limit.bytes, bill.least(), bill, {"--memory " + std::to_string(bill.least().value)});
      refusal.nearest = with(&PlanWishes::memory, bill.least());
      return no(std::move(refusal));
    }
    plan.cache = std::min(plan.limit.bytes - plan.bill.fixed(), model.experts.all_bytes() - plan.slots.bytes);
    plan.weight_rate = {machine.device->memory.bytes_per_second, machine.device->memory.source};
  }
  plan.at_hand = plan.cache;
  if (zero_copy) plan.at_hand = wishes.store == StoreKind::mmap ? std::min(plan.limit.bytes - plan.bill.fixed(), model.experts.all_bytes()) : model.experts.all_bytes();
  detail::predict(plan, model, machine, curve, wishes.prompt_tokens);
  return {std::move(plan), std::nullopt};
}

/// Tokens a second that people read at: what makes a plan good enough to care for more precise weights instead.
inline constexpr double kReadingRate = 5;

/// Is `a` the better plan? Of two that are read as fast as they come, the one with more bits a weight; else the faster.
/// Every term grows with memory, so the best of several plans does too.
inline bool is_better(const Plan& a, double a_bits, const Plan& b, double b_bits) {
  const bool a_reads = a.token.rate() >= kReadingRate, b_reads = b.token.rate() >= kReadingRate;
  if (a_reads != b_reads) return a_reads;
  if (a_reads && a_bits != b_bits) return a_bits > b_bits;
  return a.token.rate() > b.token.rate();
}

/// The best plan over several files (or quantisations) of one model and several profiles, the first of equals; where none
/// fits, the refusal that is nearest to fitting. Device profiles are passed over where the machine has no device.
/// Requires at least one model and one profile that could run.
inline PlanOutcome choose_plan(std::span<const ModelNeeds> models, std::span<const PlannedProfile> profiles, const Machine& machine, const PlanWishes& wishes,
                               const ReuseCurve& curve) {
  PlanOutcome best;
  double best_bits = 0;
  for (const ModelNeeds& model : models)
    for (const PlannedProfile& profile : profiles) {
      if (profile.processor == Processor::device && !machine.device) continue;
      PlanOutcome outcome = plan_run(model, profile, machine, wishes, curve);
      if (outcome.plan) {
        if (!best.plan || is_better(*outcome.plan, model.bits_per_weight, *best.plan, best_bits)) {
          best = std::move(outcome);
          best_bits = model.bits_per_weight;
        }
      } else if (!best.plan && (!best.refusal || outcome.refusal->needed - outcome.refusal->limit < best.refusal->needed - best.refusal->limit)) {
        best.refusal = std::move(outcome.refusal);
      }
    }
  if (best.plan) best.refusal.reset();
  return best;
}

}  // namespace coli
