// Binds pods that have been placed: has their volumes made first, and interprets the replies.
//
// The pods of a unit are bound together, when the volumes of all have been made. A bind that the
// server did not take now holds the pod's place and is sent again; after one that it refused, and
// after a volume that could not be made, the pod has no place any more and is placed anew after a
// while.
//
// Pure: time is an argument.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/time.h"
#include "engines/kubernetes/scheduling/cluster_model.h"
#include "engines/kubernetes/scheduling/pod_actions.h"
#include "engines/kubernetes/scheduling/pod_record.h"
#include "engines/kubernetes/scheduling/pod_table.h"
#include "engines/kubernetes/scheduling/pod_volumes.h"

namespace longhaul::engines::kubernetes {

enum class BindResult : uint8_t {
  kBound,
  kUnknown,  // no reply, or one that does not tell: the pod has to be read
  kBusy,     // the server did not take it now: the same bind is sent again
  kRefused,  // it would refuse the same bind again
};

struct PodBindSettings {
  Duration first_retry = std::chrono::seconds(1);  // after a refusal; then doubled
  Duration longest_retry = std::chrono::minutes(5);
  // A pod whose volume has not been made by then loses its place. As long as kube-scheduler waits.
  Duration volume_patience = std::chrono::minutes(10);

  // The time until the next attempt after so many failures in a row.
  Duration Backoff(int failures) const;
};

class PodBinds {
 public:
  // Requires that all but the settings outlive this.
  PodBinds(const PodBindSettings& settings, const ClusterModel& model, PodTable& pods,
           PodVolumes& volumes)
      : settings_(settings), model_(model), pods_(pods), volumes_(volumes) {}

  // What is due of the placed unit: nodes for claims, or binds. Returns whether one of its pods has
  // lost its place.
  bool Send(const PodUnit& unit, Instant now, std::vector<PodAction>& actions);
  // When Send has to be called again, whatever is observed; nothing: then only.
  std::optional<Instant> NextDeadline(const PodRecord& record) const;

  // The reply to the pod's bind, which was sent. `placed`: its unit has its nodes still.
  void OnReply(PodRecord& record, bool placed, BindResult result, const std::string& why,
               Instant now);
  // The pod loses its place.
  void Refuse(PodRecord& record, const std::string& why, Instant now);
  // The plan is given up, for no fault of the pod's.
  void Drop(PodRecord& record);

 private:
  std::string HasLostPlaceBecause(const PodRecord& record) const;
  std::string LosesPlaceBecause(PodRecord& record, const PodVolumes::Progress& progress,
                                Instant now) const;
  bool Hold(PodRecord& record, Instant now);

  const PodBindSettings settings_;
  const ClusterModel& model_;
  PodTable& pods_;
  PodVolumes& volumes_;
};

}  // namespace longhaul::engines::kubernetes
