// What a run's notifications say about its past, in bounded memory: the curves of the run view,
// where the time went, which ranks are slow, and the newest snapshot of each tier. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/status.pb.h"
#include "service/controller/view/rank_map.h"
#include "service/controller/view/series.h"
#include "service/controller/view/spent_time.h"

namespace longhaul::service {

class RunHistory {
 public:
  // The newest snapshot of a tier, and how many there were.
  struct Tier {
    uint64_t step = 0;
    int64_t at_ms = 0;
    double seconds = 0;
    uint64_t bytes = 0;
    uint64_t count = 0;
  };
  static constexpr size_t kMostTiers = 8;  // tiers are named by controllers, not by users

  // Requires each of the run's notifications once, in order.
  void Take(const proto::Notification& notification);

  int64_t from_ms() const { return from_ms_; }  // when the series begin; 0: nothing was taken
  int64_t last_step_at_ms() const { return last_step_at_ms_; }  // 0: no step yet
  uint64_t total_steps() const { return total_steps_; }         // 0: unknown
  const Series& loss() const { return loss_; }
  const Series& validation_loss() const { return validation_loss_; }
  const Series& tokens_per_second() const { return tokens_per_second_; }
  const Series& flops_per_second() const { return flops_per_second_; }
  const Series& goodput() const { return goodput_; }
  const SpentTime& spent_time() const { return spent_time_; }  // empty in older logs
  const RankMap& rank_map() const { return rank_map_; }        // empty if ranks do not report
  const std::map<std::string, Tier>& tiers() const { return tiers_; }

 private:
  void TakeStep(const proto::StepNotification& step, int64_t at_ms);

  int64_t from_ms_ = 0;
  int64_t last_step_at_ms_ = 0;
  uint64_t total_steps_ = 0;
  Series loss_;
  Series validation_loss_;
  Series tokens_per_second_;
  Series flops_per_second_;
  Series goodput_;
  SpentTime spent_time_;
  RankMap rank_map_;
  std::map<std::string, Tier> tiers_;
};

}  // namespace longhaul::service
