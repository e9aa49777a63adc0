// The controller's notifications of a run, sorted into the data that the report needs.
//
// Bounded by the run's length: one entry per step report, snapshot, attempt, state and message.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/status.pb.h"

namespace longhaul::frontend {

struct StepPoint {
  uint64_t step = 0;
  uint64_t attempt = 0;
  int64_t at_ns = 0;
  double loss = 0;  // not a number: none was reported
  std::optional<double> validation_loss;
  double gradient_norm = 0;
  double tokens_per_second = 0;
  double step_seconds = 0;
};

struct AttemptPoint {
  int64_t at_ns = 0;
  proto::AttemptNotification notification;
};

struct SnapshotPoint {
  int64_t at_ns = 0;
  proto::SnapshotNotification notification;
};

struct StatePoint {
  int64_t at_ns = 0;
  proto::JobState state = proto::JOB_STATE_UNSPECIFIED;
};

struct NodePoint {
  int64_t at_ns = 0;
  std::string name;
  bool connected = false;
};

struct RunHistory {
  std::vector<StepPoint> steps;  // by arrival; a step that ran again after a rollback appears twice
  std::vector<AttemptPoint> attempts;
  std::vector<SnapshotPoint> snapshots;
  std::vector<StatePoint> states;
  std::vector<NodePoint> nodes;
  std::map<uint32_t, proto::Fault> faults;  // by number, as last reported
  std::vector<proto::Notification> messages;

  void Take(const proto::Notification& notification);

  // The last execution of each step, by step.
  std::vector<StepPoint> LastOfEachStep() const;
};

}  // namespace longhaul::frontend
