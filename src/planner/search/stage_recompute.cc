#include "planner/search/stage_recompute.h"

#include <algorithm>
#include <limits>

#include "planner/search/internal/never.h"
#include "planner/stage_layers.h"

namespace longhaul::planner::search {
namespace {

using spec::RecomputeKind;
using spec::RecomputeModules;
using spec::RecomputeRun;

using internal::kNever;
// Whole bytes are cut off part by part: so many may be lost.
constexpr double kCutBytes = 16;

// Layers of one kind cost and free the same: bit 0 is set with experts, bit 1 with a sliding
// window.
uint32_t KindOf(const spec::Model& model, uint32_t layer) {
  const auto& window = model.sliding_window;
  const bool narrow = window && window->every > 0 && layer % window->every == window->every - 1;
  return (model.has_experts(layer) ? 1u : 0u) + (narrow ? 2u : 0u);
}

RecomputeModules Union(RecomputeModules a, const RecomputeModules& b) {
  a.core_attention |= b.core_attention;
  a.layer_norm |= b.layer_norm;
  a.moe_activation |= b.moe_activation;
  a.mla_up_projection |= b.mla_up_projection;
  a.mlp |= b.mlp;
  a.moe |= b.moe;
  return a;
}

}  // namespace

// Flash attention stores no attention scores, so the recompute of core attention frees nothing
// there. Modules that free nothing in this job are left out, since each one doubles the number of
// sets.
std::vector<RecomputeModules> SingleModules(const PlanRequest& job) {
  const spec::Model& model = job.model;
  bool dense = false;
  for (uint32_t i = 0; i < model.layers; ++i) dense = dense || !model.has_experts(i);
  std::vector<RecomputeModules> modules;
  const auto add = [&modules](bool frees, bool RecomputeModules::*member) {
    if (!frees) return;
    modules.emplace_back();
    modules.back().*member = true;
  };
  add(true, &RecomputeModules::layer_norm);
  add(dense, &RecomputeModules::mlp);
  add(!job.base.software.flash_attention, &RecomputeModules::core_attention);
  add(model.multi_latent.has_value(), &RecomputeModules::mla_up_projection);
  add(model.experts.has_value(), &RecomputeModules::moe_activation);
  add(model.experts.has_value(), &RecomputeModules::moe);
  return modules;
}

// kinds_before_ holds prefix sums, so that the number of layers of a kind in any range is one
// subtraction.
RecomputeChooser::RecomputeChooser(const PlanRequest& job)
    : model_(job.model),
      modules_(SingleModules(job)),
      reach_limited_(job.reach != Reach::kEverything) {
  for (uint32_t i = 0; i < model_.layers; ++i) kinds_.push_back(KindOf(model_, i));
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    kinds_before_[kind].assign(model_.layers + 1, 0);
    for (uint32_t i = 0; i < model_.layers; ++i) {
      kinds_before_[kind][i + 1] = kinds_before_[kind][i] + (kinds_[i] == kind ? 1 : 0);
    }
  }
  for (uint32_t bits = 0; bits < (1u << modules_.size()); ++bits) {
    RecomputeModules all;
    for (size_t k = 0; k < modules_.size(); ++k) {
      if ((bits >> k & 1) != 0) all = Union(all, modules_[k]);
    }
    if (!(all.moe && all.moe_activation)) sets_.push_back({bits, false, all.moe});
  }
  // Among those that recompute experts and among the others, which may be all that are allowed.
  for (Set& set : sets_) {
    set.largest = std::none_of(sets_.begin(), sets_.end(), [&set](const Set& other) {
      return other.bits != set.bits && (other.bits & set.bits) == set.bits &&
             other.experts == set.experts;
    });
  }
  sums_.resize(modules_.size() + 1);
}

// The measures depend on the layout only through the fields compared here, so they are computed
// once for many ZeRO stages, splits and chunk counts. There is one entry for each evaluator,
// because the exact one and the one for bounds have different figures for the same layout.
void RecomputeChooser::Find(Evaluator& evaluator, MemoryModel& memory, const spec::Training& bare) {
  const auto found =
      std::find_if(measured_.begin(), measured_.end(),
                   [&evaluator](const Measured& each) { return each.evaluator == &evaluator; });
  const bool fresh = found == measured_.end();
  if (fresh) measured_.emplace_back();
  now_ = fresh ? &measured_.back() : &*found;
  const spec::Layout& a = bare.layout;
  const spec::Layout& b = now_->layout;
  const bool same =
      a.tensor == b.tensor && a.context == b.context && a.pipeline == b.pipeline &&
      a.data == b.data && a.expert == b.expert && a.expert_tensor == b.expert_tensor &&
      a.order == b.order && a.context_kind == b.context_kind && bare.batch == now_->batch &&
      a.schedule == b.schedule && bare.software.overlap_expert == now_->overlap_expert &&
      a.sequence_parallel == b.sequence_parallel;
  if (!fresh && same) return;
  now_->evaluator = &evaluator;
  now_->layout = a;
  now_->batch = bare.batch;
  now_->overlap_expert = bare.software.overlap_expert;
  Measure(evaluator, memory, bare);
}

// Measures each module alone, on the first layer of each kind. The freed bytes of several modules
// are added up, as they hold different tensors; the live bytes of a rebuilt layer are not additive,
// so they are measured for each set.
void RecomputeChooser::Measure(Evaluator& evaluator, MemoryModel& memory,
                               const spec::Training& bare) {
  with_ = bare;
  uint32_t example[kKinds];
  std::fill(std::begin(example), std::end(example), model_.layers);
  for (uint32_t i = model_.layers; i-- > 0;) example[kinds_[i]] = i;
  const double bare_saved[2] = {memory.LayerOf(bare, false).saved,
                                memory.LayerOf(bare, true).saved};
  now_->worths.assign((modules_.size() + 1) * kKinds, Worth{});
  for (size_t k = 0; k <= modules_.size(); ++k) {
    with_.recompute = {};
    const bool whole = k == modules_.size();
    with_.recompute.kind = whole ? RecomputeKind::kFull : RecomputeKind::kSelective;
    if (!whole) with_.recompute.modules = modules_[k];
    for (uint32_t kind = 0; kind < kKinds; ++kind) {
      if (example[kind] == model_.layers) continue;
      const bool experts = (kind & 1) != 0;
      const LayerBytes bytes = memory.LayerOf(with_, experts);
      if (whole) now_->live_full[experts] = bytes.live;
      Worth& worth = now_->worths[k * kKinds + kind];
      worth.saved = std::max(0.0, bare_saved[experts] - bytes.saved);
      if (worth.saved > 0) worth.time = evaluator.RecomputedOf(with_, example[kind]);
    }
  }
  now_->live_dense.clear();
  now_->live_experts.clear();
  for (const Set& set : sets_) {
    with_.recompute = {};
    for (size_t k = 0; k < modules_.size(); ++k) {
      if ((set.bits >> k & 1) == 0) continue;
      with_.recompute.kind = RecomputeKind::kSelective;
      with_.recompute.modules = Union(with_.recompute.modules, modules_[k]);
    }
    now_->live_dense.push_back(memory.LayerOf(with_, false).live);
    now_->live_experts.push_back(model_.experts ? memory.LayerOf(with_, true).live : 0);
  }
  AddHulls();
}

// The hull of a kind bounds every mix of choices over its layers from below. It uses device seconds
// only: launch seconds can be hidden behind them, so to leave them out keeps the bound valid.
void RecomputeChooser::AddHulls() {
  std::vector<LayerChoice> choices;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    choices.clear();
    const auto worth = [&](size_t k) -> const Worth& { return now_->worths[k * kKinds + kind]; };
    for (const Set& set : sets_) {
      if (!Allows(set)) continue;
      LayerChoice choice;
      for (size_t k = 0; k < modules_.size(); ++k) {
        if ((set.bits >> k & 1) == 0) continue;
        choice.device_s += worth(k).time.device_s;
        choice.bytes += worth(k).saved;
      }
      choices.push_back(choice);
    }
    const Worth& whole = worth(modules_.size());
    if (!keeps_experts_) choices.push_back({whole.time.device_s, whole.saved});
    now_->hulls[kind] = HullOf(choices);
  }
}

// A fractional relaxation: each layer takes any part of any step of its kind's hull. A layer that
// holds `held` micro-batches frees so many times the bytes at the cost of one recompute, hence the
// rate is divided by it. The result is lowered by the rounding of the sums, so that it stays a
// bound.
double RecomputeChooser::LeastOf(uint32_t stage, const StageRoom& room, double most) {
  if (room.beside + room.at_step > most) return kNever;
  const double needed =
      room.beside + room.kept + std::max(room.at_loss, room.live + room.gathered) - most;
  if (needed <= 0) return 0;
  steps_.clear();
  const auto stages = static_cast<uint32_t>(rooms_.size());
  uint32_t first = 0;
  for (uint32_t c = 0; c < chunks_.size(); first += chunks_[c++]) {
    if (c % stages != stage) continue;
    const double held = room.held[c / stages];
    if (!(held > 0)) continue;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const uint32_t layers = kinds_before_[kind][first + chunks_[c]] - kinds_before_[kind][first];
      if (layers == 0) continue;
      for (const FreedAtRate& step : now_->hulls[kind]) {
        steps_.push_back({step.rate / held, step.bytes * held * layers});
      }
    }
  }
  constexpr double kRounding = 1 - 1e-9;
  return kRounding * LeastSeconds(steps_, needed);
}

// Splits the step without recompute into the compute of the slowest stage and a rest that recompute
// does not shorten. Straggling nodes and exposed offload are left out, so the sum is a lower bound.
RecomputeChooser::StepRule RecomputeChooser::RuleOf(Evaluator& evaluator) {
  const StepBreakdown& parts = evaluator.Parts(bare_);
  evaluator.Stages(bare_, stages_);
  const spec::Layout& layout = bare_.layout;
  StepRule rule;
  rule.micro_batches = evaluator.micro_batches();
  if (layout.pipeline == 1) {
    const double sequences = double(bare_.batch.global) / layout.data;
    rule.micro_batches = std::min(rule.micro_batches, sequences / std::max(1u, bare_.batch.micro));
  }
  double slowest = 0;
  for (const auto& [forward_s, backward] : stages_) {
    slowest = std::max(slowest, forward_s + std::max(backward.device_s, backward.launch_s));
  }
  rule.rest_s = (parts.total() - parts.straggle - parts.offload_exposed).count() -
                rule.micro_batches * slowest;
  // The bubble of this schedule may shrink where its passes become more alike.
  if (layout.schedule == spec::PipelineSchedule::kZeroBubbleV) rule.rest_s -= parts.bubble.count();
  if (layout.zero_stage >= 3) rule.share = evaluator.least_lengthening();
  if (layout.schedule == spec::PipelineSchedule::kDualPipe) rule.share *= 0.5;
  return rule;
}

// Fills sums_[module][n]: the cost and the freed bytes of the module in the first n layers of the
// stage, in the order in which the stage's chunks hold them. The last entry of sums_ is the whole
// layer.
void RecomputeChooser::SumLayers(const spec::Training& bare, uint32_t stage,
                                 const StageRoom& room) {
  const spec::Layout& layout = bare.layout;
  for (Sums& sums : sums_) {
    for (std::vector<double>* of : {&sums.device_s, &sums.launch_s, &sums.bytes}) of->assign(1, 0);
  }
  dense_here_ = experts_here_ = false;
  uint32_t first = 0;
  for (uint32_t c = 0; c < chunks_.size(); first += chunks_[c++]) {
    if (c % layout.pipeline != stage) continue;
    const double held = room.held[c / layout.pipeline];
    for (uint32_t layer = first; layer < first + chunks_[c]; ++layer) {
      const uint32_t kind = kinds_[layer];
      ((kind & 1) != 0 ? experts_here_ : dense_here_) = true;
      for (size_t k = 0; k < sums_.size(); ++k) {
        const Worth& worth = now_->worths[k * kKinds + kind];
        Sums& sums = sums_[k];
        sums.device_s.push_back(sums.device_s.back() + worth.time.device_s);
        sums.launch_s.push_back(sums.launch_s.back() + worth.time.launch_s);
        sums.bytes.push_back(sums.bytes.back() + held * worth.saved);
      }
    }
  }
  for (Sums& sums : sums_) sums.least_rate = LeastRate(sums.device_s, sums.bytes);
}

// Converts the number of first layers of each module into consecutive runs with a constant set of
// modules: a new run begins where the next module ends. Whole layers come first.
void RecomputeChooser::AddRuns(uint32_t stage, const Best& best,
                               std::vector<RecomputeRun>& runs) const {
  uint32_t begin = 0;
  if (best.full > 0) {
    runs.push_back({stage, best.full, RecomputeKind::kFull, {}});
    begin = best.full;
  }
  while (true) {
    // The modules that reach beyond `begin`, and the first of their ends.
    uint32_t end = std::numeric_limits<uint32_t>::max();
    RecomputeModules modules;
    for (size_t i = 0; i < best.items.size(); ++i) {
      if (best.plan.layers[i] <= begin) continue;
      end = std::min(end, best.plan.layers[i]);
      modules = Union(modules, modules_[best.items[i]]);
    }
    if (!modules.any()) return;
    runs.push_back({stage, end - begin, RecomputeKind::kSelective, modules});
    begin = end;
  }
}

// Tries each set of modules without whole layers, then 1, 2, ... whole layers with the largest sets
// for the rest. What must be freed depends on the set, because the tensors of one rebuilt layer
// need room too: that is why the sets are enumerated, and why the knapsack solves each one alone.
// With whole layers the live bytes are those of a whole layer for every set, so subsets of a set
// add nothing. `below` is the best time so far and prunes all later calls.
double RecomputeChooser::ChooseStage(uint32_t stage, const StageRoom& room, double most,
                                     RecomputeTime without, double enough_s,
                                     std::vector<RecomputeRun>& runs) {
  if (room.beside + room.at_step > most) return kNever;
  const auto needed = [&](double live_dense, double live_experts) {
    double live = room.live;
    if (dense_here_) live = std::max(live, live_dense);
    if (experts_here_) live = std::max(live, live_experts);
    return room.beside + room.kept + std::max(room.at_loss, live + room.gathered) - most +
           kCutBytes;
  };
  std::optional<Best> best;
  RecomputeTime below{enough_s, enough_s};
  std::vector<RecomputeItem> items;
  std::vector<size_t> numbers;
  const auto choose = [&](const Set& set, double bytes, RecomputeTime start, uint32_t full) {
    items.clear();
    numbers.clear();
    for (size_t k = 0; k < modules_.size(); ++k) {
      if ((set.bits >> k & 1) == 0) continue;
      const Sums& sums = sums_[k];
      items.push_back({sums.device_s, sums.launch_s, sums.bytes, sums.least_rate});
      numbers.push_back(k);
    }
    const auto plan = ChooseRecompute(items, bytes, start, below, full, &effort_);
    if (!plan) return;
    below = plan->time;
    best = Best{*plan, full, numbers};
  };
  double least_rate = kNever;
  for (size_t k = 0; k < modules_.size(); ++k) {
    least_rate = std::min(least_rate, sums_[k].least_rate);
  }
  for (size_t i = 0; i < sets_.size(); ++i) {
    if (!Allows(sets_[i])) continue;
    const double bytes = needed(now_->live_dense[i], now_->live_experts[i]);
    choose(sets_[i], bytes, without, 0);
    if (bytes <= 0) break;  // the first set is empty
  }
  const Sums& whole = sums_.back();
  const double bytes = needed(now_->live_full[0], now_->live_full[1]);
  const size_t most_full = keeps_experts_ ? 1 : whole.bytes.size();
  for (uint32_t full = 1; full < most_full; ++full) {
    const RecomputeTime start{without.device_s + whole.device_s[full],
                              without.launch_s + whole.launch_s[full]};
    // Each further whole layer only adds time, so no later number can be better.
    if (!(start < below)) break;
    const double rest = bytes - whole.bytes[full];
    RecomputeTime least = start;
    if (rest > 0 && least_rate < kNever) least.device_s += (1 - 1e-12) * rest * least_rate;
    if (!(least < below)) continue;
    for (const Set& set : sets_) {
      if (set.largest && Allows(set)) choose(set, rest, start, full);
    }
  }
  if (!best) return kNever;
  AddRuns(stage, *best, runs);
  return best->plan.time.total();
}

double RecomputeChooser::Choose(Evaluator& evaluator, MemoryModel& memory, int64_t limit,
                                spec::Training& training, double enough) {
  training.recompute = {};
  training.recompute.kind = RecomputeKind::kByStage;
  training.stage_recompute.clear();
  // Recompute by stage is not combined with offload of activations (see the README).
  if (training.offload == spec::Offload::kActivations) return kNever;
  bare_ = training;
  bare_.recompute = {};
  const spec::Layout& layout = training.layout;
  chunks_.resize(size_t{layout.pipeline} * layout.virtual_pipeline);
  StageLayers(model_.layers, layout, chunks_, model_.multi_token_prediction_layers);
  keeps_experts_ = reach_limited_ && bare_.software.overlap_expert;
  Find(evaluator, memory, bare_);
  memory.Rooms(bare_, rooms_);
  const auto most = static_cast<double>(memory.MostAllocated(bare_, Bytes(limit), rooms_).count());
  // What fits nowhere is seen without the step's time.
  least_s_.clear();
  for (uint32_t i = 0; i < layout.pipeline; ++i) {
    least_s_.push_back(LeastOf(i, rooms_[i], most));
    if (least_s_.back() == kNever) return kNever;
  }
  // The bound of the step: the slowest stage with its least recompute, in all micro-batches, and
  // the rest. Only a layout whose bound is below `enough` gets an exact choice.
  const StepRule rule = RuleOf(evaluator);
  double slowest = 0;
  for (uint32_t i = 0; i < layout.pipeline; ++i) {
    const auto& [forward_s, backward] = stages_[i];
    const double device_s = backward.device_s + rule.share * least_s_[i];
    slowest = std::max(slowest, forward_s + std::max(device_s, backward.launch_s));
  }
  constexpr double kRounding = 1 - 1e-9;
  const double bound = kRounding * (rule.rest_s + rule.micro_batches * slowest);
  if (bound >= enough) return bound;
  // The longest that a stage may take.
  const double longest = (enough / kRounding - rule.rest_s) / rule.micro_batches;
  for (uint32_t i = 0; i < layout.pipeline; ++i) {
    SumLayers(bare_, i, rooms_[i]);
    const auto& [forward_s, backward] = stages_[i];
    // Where recompute lengthens its stage only by a share, the stage may recompute for longer
    // before it exceeds the longest time.
    const double spare = std::max(0.0, longest - forward_s - backward.device_s) / rule.share;
    const double enough_s = std::max(backward.device_s + spare, longest - forward_s);
    const RecomputeTime without{backward.device_s, backward.launch_s};
    const double backward_s =
        ChooseStage(i, rooms_[i], most, without, enough_s, training.stage_recompute);
    if (backward_s == kNever) {
      training.stage_recompute.clear();
      return enough;
    }
  }
  return 0;
}

}  // namespace longhaul::planner::search
