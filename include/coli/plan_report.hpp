// SPDX-License-Identifier: Apache-2.0
// How is a plan, or a refusal, told? One JSON object for machines, one screen for people, one line for a run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "coli/core/bytes.hpp"
#include "coli/plan/machine.hpp"
#include "coli/planner.hpp"

namespace coli {

using PlanJson = nlohmann::ordered_json;

namespace detail {

inline std::string printed(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}
inline std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}
/// "  trunk                          0.93 GiB  (998244352)"
inline std::string bill_line(std::string_view item, Bytes bytes) {
  std::string amount = to_text(bytes);
  amount.insert(0, amount.size() < 12 ? 12 - amount.size() : 0, ' ');
  return "  " + padded(std::string(item), 30) + amount + "  " + std::to_string(bytes.value) + "\n";
}
inline constexpr std::array kBillItems{std::pair{"base", &MemoryBill::base},       std::pair{"vocabulary", &MemoryBill::vocabulary}, std::pair{"trunk", &MemoryBill::trunk},
                                       std::pair{"kv", &MemoryBill::kv},           std::pair{"scratch", &MemoryBill::scratch},       std::pair{"io", &MemoryBill::io}};

inline std::string bill_text(const MemoryBill& bill) {
  std::string text;
  for (const auto& [name, item] : kBillItems)
    if ((bill.*item).value != 0) text += bill_line(name, bill.*item);
  return text;
}
inline PlanJson bill_json(const MemoryBill& bill) {
  PlanJson json = PlanJson::object();
  for (const auto& [name, item] : kBillItems) json[name] = (bill.*item).value;
  json["least_slots"] = bill.least_slots.value;
  return json;
}
inline PlanJson rate_json(const RateReading& rate) { return {{"bytes_per_second", rate.bytes_per_second}, {"source", rate.source}}; }

}  // namespace detail

inline PlanJson machine_json(const Machine& machine) {
  PlanJson json{{"memory", {{"available_bytes", machine.memory.bytes.value}, {"source", machine.memory.source}}},
                {"process_bytes", machine.process.bytes.value},
                {"cores", {{"count", machine.cpus.cores}, {"source", machine.cpus.source}}},
                {"memory_rate", detail::rate_json(machine.memory_rate)},
                {"disk_rate", detail::rate_json(machine.disk_rate)},
                {"device", nullptr}};
  if (machine.device)
    json["device"] = {{"name", machine.device->name},
                      {"free_bytes", machine.device->free.value},
                      {"source", machine.device->source},
                      {"memory_rate", detail::rate_json(machine.device->memory)},
                      {"link_rate", detail::rate_json(machine.device->link)}};
  return json;
}

inline PlanJson plan_json(const Plan& plan) {
  PlanJson json{{"verdict", "runs"},
                {"profile", plan.profile},
                {"model", plan.model},
                {"formats", plan.formats},
                {"context", plan.shape.context},
                {"kv", name_of(plan.shape.kv)},
                {"chunk", plan.shape.chunk},
                {"threads", plan.threads},
                {"store", name_of(plan.store)},
                {"file_bytes", plan.file.value},
                {"limit", {{"bytes", plan.limit.bytes.value}, {"source", plan.limit.source}}},
                {"memory", detail::bill_json(plan.bill)},
                {"cache_bytes", plan.cache.value},
                {"slots", plan.slots.slots},
                {"total_bytes", plan.total().value},
                {"least_bytes", (plan.device_limit ? plan.bill.fixed() : plan.bill.least()).value},
                {"device", nullptr},
                {"token_cycle_bytes", plan.token_cycle.value},
                {"resident", plan.resident},
                {"share_of_experts", plan.share},
                {"hit_rate", {{"value", plan.hit_rate}, {"source", plan.hit_source}}},
                {"decode",
                 {{"tokens_per_second", plan.token.rate()},
                  {"compute_seconds", plan.token.compute_seconds},
                  {"wait_seconds", plan.token.wait_seconds},
                  {"binds", plan.binds}}},
                {"first_token_seconds", plan.first_token_seconds},
                {"weight_rate", detail::rate_json(plan.weight_rate)},
                {"disk_rate", detail::rate_json(plan.disk_rate)}};
  if (plan.device_limit)
    json["device"] = {{"limit", {{"bytes", plan.device_limit->bytes.value}, {"source", plan.device_limit->source}}},
                      {"memory", detail::bill_json(plan.device_bill)},
                      {"cache_bytes", plan.slots.bytes.value},
                      {"total_bytes", plan.device_total().value},
                      {"least_bytes", plan.device_bill.least().value}};
  return json;
}

inline PlanJson refusal_json(const PlanRefusal& refusal) {
  return {{"verdict", "refused"},
          {"budget", refusal.error.subject},
          {"error", refusal.error.line()},
          {"limit_bytes", refusal.limit.value},
          {"needed_bytes", refusal.needed.value},
          {"short_bytes", (refusal.needed - refusal.limit).value},
          {"memory", detail::bill_json(refusal.bill)},
          {"would_work", refusal.remedies},
          {"nearest", refusal.nearest ? plan_json(*refusal.nearest) : PlanJson(nullptr)}};
}

/// One screen.
inline std::string plan_text(const Plan& plan) {
  using detail::printed;
  std::string text = plan.model + ": experts in " + (plan.formats.empty() ? "no format (a dense model)" : plan.formats) + ", " + to_text(plan.file) + " on disk\n";
  text += "profile " + plan.profile + ", context " + std::to_string(plan.shape.context) + ", " + std::string(name_of(plan.shape.kv)) + " keys and values, prefill " +
          std::to_string(plan.shape.chunk) + " at a time, " + std::to_string(plan.threads) + " threads\n";
  if (plan.device_limit) {
    text += "\nof the card's " + to_text(plan.device_limit->bytes) + " (" + plan.device_limit->source + "):\n" + detail::bill_text(plan.device_bill) +
            detail::bill_line("experts", plan.slots.bytes) + detail::bill_line("in all", plan.device_total());
  }
  text += "\nof " + to_text(plan.limit.bytes) + " of memory (" + plan.limit.source + "):\n" + detail::bill_text(plan.bill);
  if (plan.cache.value != 0 || !plan.device_limit) text += detail::bill_line(plan.device_limit ? "experts" : "experts, " + std::to_string(plan.slots.total()) + " slots", plan.cache);
  text += detail::bill_line("in all", plan.total());
  text += "\nexperts held      " + printed("%.1f %%", 100 * plan.share) + (plan.resident ? ": nothing is read once it runs\n" : " (one token uses " + to_text(plan.token_cycle) + " of them)\n");
  if (!plan.resident) text += "expected hits     " + printed("%.1f %%", 100 * plan.hit_rate) + " (" + plan.hit_source + ")\n";
  text += "expected decode   " + printed("%.2f", plan.token.rate()) + " tokens a second; " + std::string(plan.binds) + " binds: " + printed("%.1f", 1e3 * plan.token.compute_seconds) +
          " ms computing, " + printed("%.1f", 1e3 * plan.token.wait_seconds) + " ms waiting for the disk\n";
  text += "first token       " + printed("%.1f", plan.first_token_seconds) + " s after a cold start\n";
  text += "weights at        " + printed("%.2f", plan.weight_rate.bytes_per_second / 1e9) + " GB/s (" + plan.weight_rate.source + ")\n";
  text += "disk at           " + printed("%.2f", plan.disk_rate.bytes_per_second / 1e9) + " GB/s (" + plan.disk_rate.source + ")\n";
  return text;
}

/// One screen: the bill, what is short, what would work.
inline std::string refusal_text(const PlanRefusal& refusal) {
  std::string text = "does not fit: " + refusal.error.subject + "\n\n";
  if (refusal.needed == refusal.bill.least()) {
    text += "the least that runs:\n" + detail::bill_text(refusal.bill);
    if (refusal.bill.least_slots.value != 0) text += detail::bill_line("experts, the least", refusal.bill.least_slots);
  }
  text += detail::bill_line("needed", refusal.needed) + detail::bill_line("allowed", refusal.limit) + detail::bill_line("short by", refusal.needed - refusal.limit);
  text += "\nwould work:";
  for (const std::string& remedy : refusal.remedies) text += "  " + remedy + "\n           ";
  while (text.ends_with(' ')) text.pop_back();
  if (refusal.nearest)
    text += "\nwith exactly what is needed: context " + std::to_string(refusal.nearest->shape.context) + ", " + detail::printed("%.1f %%", 100 * refusal.nearest->share) +
            " of the experts held, about " + detail::printed("%.2f", refusal.nearest->token.rate()) + " tokens a second\n";
  return text;
}

/// What a run says first.
inline std::string plan_line(const Plan& plan, std::string_view how_chosen = {}) {
  std::string text = "profile " + plan.profile + std::string(how_chosen) + ", context " + std::to_string(plan.shape.context) + ", " + to_text(plan.total()) + " of " + to_text(plan.limit.bytes) + " (" + plan.limit.source + "), ";
  if (plan.resident) {
    text += "all experts resident";
  } else {
    text += detail::printed("%.0f %%", 100 * plan.share) + " of the experts held, the rest streamed";
    text += "; " + std::string(plan.binds) + " binds, about " + detail::printed("%.1f", plan.token.rate()) + " tokens a second at rates that were " +
            (plan.disk_rate.source.starts_with("default") ? "assumed" : "given");
  }
  return text;
}

}  // namespace coli
