// SPDX-License-Identifier: Apache-2.0
// What holds of every plan, whatever the model and the machine? Random geometries, budgets from nothing to everything.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "coli/plan_report.hpp"

namespace coli::conformance {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % n;
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

ModelNeeds some_model(Random& random) {
  ModelNeeds model;
  Hyperparams& h = model.h;
  h.n_layers = static_cast<std::uint32_t>(1 + random.below(12));
  h.hidden = static_cast<std::uint32_t>(64 * (1 + random.below(40)));
  h.n_kv_heads = static_cast<std::uint32_t>(1 + random.below(4));
  h.n_heads = h.n_kv_heads * static_cast<std::uint32_t>(1 + random.below(8));
  h.head_dim = 64;
  h.context = static_cast<std::uint32_t>(1 + random.below(20000));
  h.n_experts = static_cast<std::uint32_t>(1 + random.below(40));
  h.top_k = static_cast<std::uint32_t>(1 + random.below(h.n_experts));
  h.expert_ffn = static_cast<std::uint32_t>(32 * (1 + random.below(30)));
  model.n_vocab = static_cast<std::uint32_t>(100 + random.below(50000));
  std::vector<std::optional<ExpertBytes>> layers;
  const std::uint64_t sizes[] = {1 + random.below(1 << 20), 1 + random.below(1 << 20), 1 + random.below(1 << 18)};
  for (std::uint32_t l = 0; l < h.n_layers; ++l) {
    model.layers.push_back(Bytes{1 + random.below(1 << 22)});
    const std::uint64_t size = sizes[random.below(3)];
    layers.push_back(random.one_in(6) ? std::nullopt : std::optional(ExpertBytes{{size, size, size}, {size, size, size}}));
  }
  model.head = Bytes{1 + random.below(1 << 24)};
  model.trunk = Bytes{1 + random.below(1 << 28)};
  model.experts = *CacheGeometry::make(h.n_experts, h.top_k, std::move(layers));
  model.file = model.trunk + model.experts.all_bytes();
  model.bits_per_weight = 2 + static_cast<double>(random.below(14));
  return model;
}

PlannedProfile some_profile(Random& random, Processor processor) {
  const std::uint64_t a_token = random.below(4096), a_position = random.below(64), a_thread = random.below(1 << 16);
  return {.name = processor == Processor::device ? "card" : "host",
          .why_not = "",
          .processor = processor,
          .memory_share = 0.8,
          .most_core_rate = 1e12,
          .kv = random.one_in(2) ? KvFormat::f16 : KvFormat::f32,
          .keeps_f16 = true,
          .plain_layout = false,
          .scratch = [=](const BackendShape& s, unsigned threads) { return Bytes{a_token * s.max_tokens + a_position * s.context + a_thread * threads}; }};
}

Machine some_machine(Random& random, bool device) {
  Machine machine;
  machine.memory = {Bytes{random.below(1ULL << 33)}, "test"};
  machine.process = {Bytes{random.below(1 << 26)}, "test"};
  machine.cpus = {static_cast<unsigned>(1 + random.below(64)), "test"};
  machine.memory_rate = {1e9 * static_cast<double>(1 + random.below(200)), "test"};
  machine.disk_rate = {1e7 * static_cast<double>(1 + random.below(1000)), "test"};
  machine.direct_block = random.one_in(3) ? 0 : 512ULL << random.below(4);
  if (device) machine.device = DeviceReading{"card", {}, {1e9 * static_cast<double>(50 + random.below(3000)), "test"}, {1e9 * static_cast<double>(1 + random.below(60)), "test"}, "test"};
  return machine;
}

/// Nothing about `more` is worse than about `less`.
void check_no_worse(const Plan& less, const Plan& more) {
  BOOST_TEST(more.shape.context >= less.shape.context);
  BOOST_TEST(more.shape.chunk >= less.shape.chunk);
  for (std::size_t c = 0; c < less.slots.slots.size(); ++c) BOOST_TEST(more.slots.slots[c] >= less.slots.slots[c]);
  BOOST_TEST(more.share >= less.share);
  BOOST_TEST(more.hit_rate >= less.hit_rate);
  BOOST_TEST(more.token.rate() >= less.token.rate() * (1 - 1e-12));
}

const ReuseCurve kCurve = ReuseCurve::fallback();

BOOST_AUTO_TEST_CASE(more_memory_is_never_worse_and_no_plan_exceeds_its_limit) {
  Random random(1);
  for (int i = 0; i < 120; ++i) {
    const bool device = random.one_in(3);
    const ModelNeeds model = some_model(random);
    const PlannedProfile profile = some_profile(random, device ? Processor::device : Processor::host);
    const Machine machine = some_machine(random, device);
    std::uint64_t budget = 0;
    std::optional<Plan> before;
    const std::uint64_t all = (model.trunk + model.experts.all_bytes()).value;
    PlanWishes wishes;
    wishes.memory = wishes.vram = Bytes{1ULL << 34};
    const bool grow_vram = device && random.one_in(2);
    while (budget < 2 * all + (1U << 30)) {
      (grow_vram ? wishes.vram : wishes.memory) = Bytes{budget};
      const PlanOutcome outcome = plan_run(model, profile, machine, wishes, kCurve);
      BOOST_TEST_REQUIRE((outcome.plan.has_value() != outcome.refusal.has_value()));
      if (outcome.plan) {
        BOOST_TEST((outcome.plan->total() <= *wishes.memory));
        BOOST_TEST((outcome.plan->device_total() <= *wishes.vram));
        if (before) check_no_worse(*before, *outcome.plan);
        before = outcome.plan;
      } else {
        BOOST_TEST(!before, "fitted less, does not fit more");
        BOOST_TEST((outcome.refusal->needed > outcome.refusal->limit));
        BOOST_TEST((outcome.refusal->error.code == Errc::over_budget));
      }
      budget += 1 + random.below(all / 12 + (1U << 22));
    }
    BOOST_TEST_REQUIRE(before.has_value());
    BOOST_TEST(before->resident);
    BOOST_TEST(before->shape.context == std::min(model.h.context, kDefaultContext));
  }
}

BOOST_AUTO_TEST_CASE(the_least_is_exact) {
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    const ModelNeeds model = some_model(random);
    const PlannedProfile profile = some_profile(random, Processor::host);
    const Machine machine = some_machine(random, false);
    PlanWishes wishes;
    wishes.memory = Bytes{0};
    const PlanOutcome none = plan_run(model, profile, machine, wishes, kCurve);
    BOOST_TEST_REQUIRE(none.refusal.has_value());
    wishes.memory = none.refusal->needed;
    const PlanOutcome least = plan_run(model, profile, machine, wishes, kCurve);
    BOOST_TEST_REQUIRE(least.plan.has_value());
    BOOST_TEST((least.plan->total() <= none.refusal->needed));
    BOOST_TEST((least.plan->bill.least() == none.refusal->needed));
    BOOST_TEST(none.refusal->nearest.has_value());
    wishes.memory = none.refusal->needed - Bytes{1};
    BOOST_TEST(plan_run(model, profile, machine, wishes, kCurve).refusal.has_value());
  }
}

BOOST_AUTO_TEST_CASE(wishes_are_kept_or_refused) {
  Random random(3);
  int kept = 0;
  for (int i = 0; i < 300; ++i) {
    const ModelNeeds model = some_model(random);
    const PlannedProfile profile = some_profile(random, Processor::host);
    PlanWishes wishes;
    wishes.memory = Bytes{random.below(1 << 30)};
    if (random.one_in(2)) wishes.context = static_cast<std::uint32_t>(random.below(25000));
    if (random.one_in(2)) wishes.chunk = static_cast<std::uint32_t>(1 + random.below(2000));
    if (random.one_in(2)) wishes.kv = random.one_in(2) ? KvFormat::f16 : KvFormat::f32;
    if (random.one_in(2)) wishes.threads = static_cast<unsigned>(1 + random.below(9));
    if (random.one_in(4)) wishes.store = StoreKind::memory;
    const PlanOutcome outcome = plan_run(model, profile, some_machine(random, false), wishes, kCurve);
    if (!outcome.plan) continue;
    ++kept;
    const Plan& plan = *outcome.plan;
    if (wishes.context) BOOST_TEST(plan.shape.context == *wishes.context);
    if (wishes.chunk) BOOST_TEST(plan.shape.chunk == std::min(*wishes.chunk, plan.shape.context));
    if (wishes.kv) BOOST_TEST((plan.shape.kv == *wishes.kv));
    if (wishes.threads != 0) BOOST_TEST(plan.threads == wishes.threads);
    if (wishes.store == StoreKind::memory) BOOST_TEST(plan.resident);
    BOOST_TEST((plan.total() <= *wishes.memory));
  }
  BOOST_TEST(kept > 50);
}

/// What a person would type.
PlanWishes follow(PlanWishes wishes, const std::string& remedy) {
  const std::string value = remedy.substr(remedy.rfind(' ') + 1);
  if (remedy.starts_with("--ctx ")) wishes.context = static_cast<std::uint32_t>(std::stoul(value));
  else if (remedy == "--kv f16") wishes.kv = KvFormat::f16;
  else if (remedy == "no --chunk") wishes.chunk.reset();
  else if (remedy == "--store auto") wishes.store = StoreKind::best;
  else if (remedy.starts_with("--memory ")) wishes.memory = Bytes{std::stoull(value)};
  else BOOST_ERROR("an unknown remedy: " + remedy);
  return wishes;
}

BOOST_AUTO_TEST_CASE(every_remedy_works_and_the_longest_context_is_named) {
  Random random(4);
  std::size_t followed = 0;
  for (int i = 0; i < 400; ++i) {
    const ModelNeeds model = some_model(random);
    const PlannedProfile profile = some_profile(random, Processor::host);
    const Machine machine = some_machine(random, false);
    PlanWishes wishes;
    wishes.memory = model.trunk + Bytes{random.below(1 << 28)};
    wishes.context = model.h.context;
    if (random.one_in(2)) wishes.kv = KvFormat::f32;
    if (random.one_in(2)) wishes.chunk = 1024;
    if (random.one_in(3)) wishes.store = StoreKind::memory;
    const PlanOutcome outcome = plan_run(model, profile, machine, wishes, kCurve);
    if (!outcome.refusal) continue;
    BOOST_TEST_REQUIRE(!outcome.refusal->remedies.empty());
    for (const std::string& remedy : outcome.refusal->remedies) {
      ++followed;
      BOOST_TEST(plan_run(model, profile, machine, follow(wishes, remedy), kCurve).plan.has_value(), remedy);
      if (!remedy.starts_with("--ctx ")) continue;
      PlanWishes longer = follow(wishes, remedy);
      ++*longer.context;
      BOOST_TEST(plan_run(model, profile, machine, longer, kCurve).refusal.has_value(), "longer than " << remedy << " fits too");
    }
  }
  BOOST_TEST(followed > 200U);
}

BOOST_AUTO_TEST_CASE(of_several_quantisations_the_best_that_reads_well_and_never_a_worse_one_with_more_memory) {
  Random random(5);
  for (int i = 0; i < 40; ++i) {
    // One model at 2, 4 and 8 bits: sizes double.
    ModelNeeds small = some_model(random);
    std::vector<ModelNeeds> models;
    for (const std::uint64_t times : {1, 2, 4}) {
      ModelNeeds model = small;
      model.bits_per_weight = static_cast<double>(2 * times);
      model.trunk = model.trunk * times;
      std::vector<std::optional<ExpertBytes>> layers(small.experts.n_layers());
      for (std::uint32_t l = 0; l < layers.size(); ++l)
        if (small.experts.has_experts(LayerId{l})) {
          const std::uint64_t bytes = times * small.experts.raw_bytes(LayerId{l}, Part::gate);
          layers[l] = ExpertBytes{{bytes, bytes, bytes}, {bytes, bytes, bytes}};
        }
      model.experts = *CacheGeometry::make(small.h.n_experts, small.h.top_k, std::move(layers));
      models.push_back(std::move(model));
    }
    const std::array profiles{some_profile(random, Processor::host)};
    const Machine machine = some_machine(random, false);
    const auto bits_of = [&](const Plan& plan) {
      for (const ModelNeeds& model : models)
        if (model.experts.token_cycle() == plan.token_cycle) return model.bits_per_weight;
      return 0.0;
    };
    std::optional<Plan> before;
    for (std::uint64_t budget = 0; budget < (1ULL << 33); budget += 1 + random.below(1 << 28)) {
      PlanWishes wishes;
      wishes.memory = Bytes{budget};
      PlanOutcome outcome = choose_plan(models, profiles, machine, wishes, kCurve);
      if (!outcome.plan) {
        BOOST_TEST(!before);
        continue;
      }
      if (before) BOOST_TEST(!is_better(*before, bits_of(*before), *outcome.plan, bits_of(*outcome.plan)));
      before = std::move(outcome.plan);
    }
    if (before && before->token.rate() >= kReadingRate) {
      PlanWishes wishes;
      wishes.memory = Bytes{1ULL << 33};
      for (const ModelNeeds& model : models)
        if (const auto other = plan_run(model, profiles[0], machine, wishes, kCurve).plan; other && other->token.rate() >= kReadingRate) BOOST_TEST(bits_of(*before) >= model.bits_per_weight);
    }
  }
}

BOOST_AUTO_TEST_CASE(wishes_that_cannot_be_are_named) {
  Random random(6);
  const ModelNeeds model = some_model(random);
  PlannedProfile profile = some_profile(random, Processor::host);
  profile.keeps_f16 = false, profile.kv = KvFormat::f32;
  const Machine machine = some_machine(random, false);
  for (const std::uint32_t context : {0U, model.h.context + 1}) {
    const PlanOutcome outcome = plan_run(model, profile, machine, {.context = context}, kCurve);
    BOOST_TEST_REQUIRE(outcome.refusal.has_value());
    BOOST_TEST((outcome.refusal->error.code == Errc::usage && outcome.refusal->error.subject == "--ctx"));
  }
  const PlanOutcome kv = plan_run(model, profile, machine, {.kv = KvFormat::f16}, kCurve);
  BOOST_TEST_REQUIRE(kv.refusal.has_value());
  BOOST_TEST((kv.refusal->error.code == Errc::unavailable && kv.refusal->error.subject == "--kv"));
}

BOOST_AUTO_TEST_CASE(reuse_curves) {
  const auto curve = ReuseCurve::make({{0.5, 0.8}, {0.25, 0.6}}, "test");
  BOOST_TEST_REQUIRE(curve.has_value());
  for (const auto& [share, hits] : {std::pair{0.0, 0.0}, {0.125, 0.3}, {0.25, 0.6}, {0.375, 0.7}, {0.5, 0.8}, {0.75, 0.9}, {1.0, 1.0}, {-1.0, 0.0}, {2.0, 1.0}})
    BOOST_TEST(std::abs(curve->hits_at(share) - hits) < 1e-12);
  BOOST_TEST(!ReuseCurve::make({{0.5, 0.8}, {0.6, 0.7}}, "falls").has_value());
  BOOST_TEST(!ReuseCurve::make({{0.5, 1.1}}, "above one").has_value());
  BOOST_TEST(!ReuseCurve::make({{std::nan(""), 0.5}}, "not a number").has_value());
}

}  // namespace
}  // namespace coli::conformance
