// Decides which node each pod with our schedulerName is bound to, whole gangs at once.
//
// The scheduler of the product (scheduler/scheduler.h) decides; this class translates. Pods become
// jobs: a single pod is a job of one task, and the pods of a PodGroup are one job that starts when
// at least so many of them exist as the group demands. Bound pods of other schedulers are what
// others use of their nodes. Decisions become actions, and what the API server reports becomes
// events.
//
// Everything is known from the API alone: after a restart, bound pods are adopted where they are.
// So nothing is lost by a crash at any point, and what is observed always has the last word:
//   - a bind whose reply was lost is looked up by reading the pod;
//   - a pod that is bound elsewhere than planned is adopted there;
//   - a gang that cannot be completed within a time is removed again, so that no gang stays partly
//     bound. Its pods are made anew by what owns them.
//
// Pure: time is an argument, there is no input or output, and equal calls give equal actions. Left
// out: pod affinity, topology spread and resource claims, which are refused by name; priorities of
// nodes (PreferNoSchedule, preferred affinity) are refused or not considered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/objects/pod_group.h"
#include "engines/kubernetes/scheduling/cluster_model.h"
#include "engines/kubernetes/scheduling/due_times.h"
#include "engines/kubernetes/scheduling/pod_actions.h"
#include "engines/kubernetes/scheduling/pod_binds.h"
#include "engines/kubernetes/scheduling/pod_events.h"
#include "engines/kubernetes/scheduling/pod_names.h"
#include "engines/kubernetes/scheduling/pod_record.h"
#include "engines/kubernetes/scheduling/pod_requests.h"
#include "engines/kubernetes/scheduling/pod_table.h"
#include "engines/kubernetes/scheduling/pod_volumes.h"
#include "scheduler/scheduler.h"

namespace longhaul::engines::kubernetes {

enum class PodGroupApi : uint8_t { kPlugins, kKubernetes };

struct PodSchedulerSettings {
  std::string scheduler_name = "longhaul";
  ClusterModelSettings cluster;
  // A gang that starts but misses pods that do not exist any more is undone after this time.
  Duration incomplete_patience = std::chrono::seconds(30);
  // A gang that lost pods keeps the others so long while the new ones find no node.
  Duration lost_patience = std::chrono::minutes(5);
  // Waiting is reported after the first time, and then not more often than by the second. The
  // events of one reason are repeated after the second time, and then after times that double.
  Duration report_after = std::chrono::seconds(1);
  Duration report_period = std::chrono::minutes(1);
  PodBindSettings binds;
  Duration read_period = std::chrono::seconds(2);
  Duration remove_period = std::chrono::seconds(10);
  // With so many different needs of pods, those that are gone are forgotten.
  uint32_t many_shapes = scheduler::kMaxShapes / 4 * 3;
};

class PodScheduler {
 public:
  explicit PodScheduler(PodSchedulerSettings settings);
  ~PodScheduler();
  PodScheduler(const PodScheduler&) = delete;
  PodScheduler& operator=(const PodScheduler&) = delete;

  // --- What is observed.
  void OnNode(Node node);
  void OnNodeGone(const std::string& name);
  void OnPod(const Pod& pod);
  // The same, from a read that began after the last bind of the pod was answered.
  void OnRead(const Pod& pod);
  void OnPodGone(const PodName& pod);
  void OnPodGroup(PodGroupApi api, const PodGroup& group);
  void OnPodGroupGone(PodGroupApi api, const std::string& key);

  // Takes claims, volumes and storage classes.
  PodVolumes& volumes() { return volumes_; }

  // --- Replies to actions.
  void OnBind(const PodName& pod, BindResult result, const std::string& why, Instant now);
  // A claim that has the node now is observed like any other. `why`: it does not, or nobody knows.
  void OnSelectNode(const SelectNode& select, const Status& why, Instant now);
  void OnRemove(const PodName& pod, bool accepted, Instant now);
  void OnEventLost(const RecordPodEvent& event) { events_.OnLost(event); }

  // Decides, and returns what is to be done; at most so many reports. Call it first when all nodes,
  // pods and groups that exist have been reported, and then after each change and at NextDeadline.
  std::vector<PodAction> Advance(Instant now, size_t most_reports);
  std::optional<Instant> NextDeadline() const;

  // Why a pod of ours is not bound, in words; empty when it is, or is not known.
  std::string WhyNotBound(const std::string& pod_key) const;
  // Why the cluster cannot be described to the scheduler; empty when it can.
  const std::string& trouble() const { return trouble_; }

  struct Counts {
    uint64_t pods = 0;       // of ours, not finished
    uint64_t bound = 0;      // of these
    uint64_t evictions = 0;  // decided since the start
    uint64_t rebuilds = 0;
  };
  Counts counts() const;
  // Checks what must hold between two calls; the error names what does not.
  Status CheckInvariants() const;

 private:
  using Stage = PodUnit::Stage;
  struct Lists;  // the pods of a unit by what can be done with them

  // --- Observations (pod_scheduler.cc).
  PodRecord& Record(const Pod& pod);
  void Observe(const Pod& pod, bool fresh);
  void AssignUnit(PodRecord& record, const Pod& pod);
  void Forget(const std::string& key);
  void LeaveUnit(PodRecord& record);
  void OnBindReply(PodRecord& record, BindResult result, const std::string& why);
  void UpdateVolumes();
  bool HasManyShapes();
  void RebuildCluster();
  void ShareNodes();
  void Report(Instant now, size_t most, std::vector<PodAction>& actions);
  void Apply(const scheduler::Event& event);

  // --- Units (pod_units.cc).
  void MarkDirty(PodUnit& unit);
  void MarkDirty(const std::string& unit);  // does nothing for one that does not exist
  std::vector<PodUnit*> TakeDirtyUnits();   // in the order in which they are looked at
  void SyncDirtyUnits(Instant now, std::vector<PodAction>& actions);
  void Sync(PodUnit& unit, Instant now, std::vector<PodAction>& actions);
  Lists ListsOf(const PodUnit& unit, Instant now);
  void SyncPods(PodUnit& unit, Instant now, std::vector<PodAction>& actions);
  void SetWake(PodUnit& unit, Instant now);
  bool SyncLeaving(PodUnit& unit, Instant now, std::vector<PodAction>& actions);
  void SyncIdle(PodUnit& unit, const Lists& lists, Instant now);
  void SyncWaiting(PodUnit& unit, const Lists& lists, Instant now);
  void SyncPlaced(PodUnit& unit, const Lists& lists, Instant now, std::vector<PodAction>& actions);
  bool IsComplete(const PodUnit& unit, const Lists& lists) const;
  bool MembersAreAsPlanned(const PodUnit& unit, const Lists& lists);
  void UndoIncomplete(PodUnit& unit, const Lists& lists, Instant now,
                      std::vector<PodAction>& actions);
  void Submit(PodUnit& unit, const Lists& lists, Instant now);
  void Adopt(PodUnit& unit, const Lists& lists, Instant now);
  void StayUnmanaged(PodUnit& unit, const Lists& lists, Instant now);
  void EndJob(PodUnit& unit, bool observed);
  void BeginLeaving(PodUnit& unit, bool evict, Instant now);
  void Stopped(PodUnit& unit);

  // --- Decisions (pod_scheduler.cc).
  bool Decide(Instant now);
  void Carry(const scheduler::Decision& decision, Instant now);
  void Place(PodUnit& unit, const scheduler::Decision& decision);

  const PodSchedulerSettings settings_;
  ClusterModel model_;
  std::optional<scheduler::Scheduler> scheduler_;
  std::string trouble_;
  Instant now_{};
  bool due_ = false;          // a round is due, because something has changed
  uint64_t epoch_ = 0;        // of the topology
  uint32_t shapes_kept_ = 0;  // by the last rebuild
  uint64_t last_job_ = 0;     // distinguishes jobs of one unit
  Counts counts_;

  PodTable pods_;
  // Walked only where the order has no effect.
  std::unordered_map<std::string, PodUnit> units_;
  std::unordered_map<std::string, std::string> unit_of_job_;
  std::map<std::string, std::set<std::string>> waiting_for_;  // job -> units in whose `after` it is
  std::map<std::string, PodGroup> groups_;                    // by group key
  PodRequests requests_;
  PodEvents events_;
  PodVolumes volumes_;
  PodBinds binds_;

  std::vector<PodUnit*> dirty_;
  std::set<std::string> broken_nodes_;  // whose facts have changed, or that are gone
  DueTimes wakes_;                      // when units are looked at without a cause
  DueTimes reports_;                    // of units whose pods wait
};

}  // namespace longhaul::engines::kubernetes
