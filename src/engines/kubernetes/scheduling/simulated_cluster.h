// For tests: the scheduler of pods against the double of the API server, in virtual time.
//
// The plant around them is that of a cluster: owners that make their pods anew when these are
// deleted, kubelets that run what is bound and refuse what does not fit, a collector of pods whose
// node is gone, a provisioner of volumes. Requests and replies take time and get lost, watches
// break and expire, nodes come and go, and the scheduler is replaced by another one that knows
// nothing but what the API tells; what the old one had sent may still arrive.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "engines/kubernetes/double/api_double.h"
#include "engines/kubernetes/protocol/watch_state.h"
#include "engines/kubernetes/scheduling/pod_scheduler.h"
#include "engines/kubernetes/scheduling/simulated_provisioner.h"

namespace longhaul::engines::kubernetes {

struct SimulatedFaults {
  bool lost_messages = false;  // requests and replies
  bool refusals = false;       // 409, 429, 500
  bool watches = false;        // breaks and expired versions
  bool nodes = false;          // vanish and come back
  bool leaders = false;        // the scheduler is replaced
  bool deletions = false;      // pods are deleted by their users
  bool provisioning = false;   // the provisioner of volumes gives up
};

// Pods that run together: all of them, or the single one.
struct SimulatedGang {
  std::string name;
  int size = 1;
  bool gang = true;  // with a PodGroup; else `size` single pods
  int devices = 1;   // of each pod
  int priority = 0;
  Duration runs = std::chrono::seconds(60);
  bool late_volumes = false;  // each pod has a volume that is made for its node
};

class SimulatedCluster {
 public:
  SimulatedCluster(uint64_t seed, const SimulatedFaults& faults);
  ~SimulatedCluster();

  // The class of volumes that are made late.
  void AddStorageClass() { provisioner_.AddClass(); }
  void AddNode(const std::string& name, const std::string& leaf, int devices);
  void AddGang(const SimulatedGang& gang);
  // A pod of another scheduler that has its node already.
  void AddForeignPod(const std::string& name, const std::string& node, int devices);
  // Faults happen until then.
  void FaultsUntil(Duration after) { faults_end_ = now_ + after; }

  // Runs for so long, or until `done`. Returns what does not hold.
  Status Run(
      Duration time, const std::function<bool()>& done = [] { return false; });

  bool AllFinished() const;
  int Bound(const std::string& gang) const;
  std::string NodeOf(const std::string& pod) const;
  std::string MessageOf(const std::string& pod) const;  // of its condition PodScheduled
  std::string PhaseOf(const std::string& pod) const;
  // In the order of their names.
  std::vector<Json> EventsOf(const std::string& reason) const;
  int Rejected() const { return rejected_; }              // by kubelets
  int Removed() const { return removed_; }                // bound pods, by the scheduler
  int Volumes() const { return provisioner_.volumes(); }  // made late
  PodScheduler& scheduler() { return *scheduler_; }
  ApiDouble& api() { return api_; }
  ApiResponse Do(const std::string& method, const std::string& path, const Json& body,
                 const std::string& type = "application/json");
  PodSchedulerSettings& settings() { return settings_; }
  void ReplaceScheduler();
  Instant now() const { return now_; }
  const std::string& log() const { return log_; }

 private:
  struct View;
  struct Owner {
    SimulatedGang gang;
    std::optional<Instant> whole_since;    // all its pods run
    std::optional<Instant> partial_since;  // some are bound, and too few
    bool finished = false;
  };

  void At(Instant when, std::function<void()> what);
  void After(Duration delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }
  Duration Delay();
  bool Fault(bool kind, uint64_t one_in);
  void Pump(View& view);
  void Advance();
  void Carry(const PodAction& action);
  void Execute(const PodAction& action, uint64_t leader);
  void Reply(const PodAction& action, const ApiResponse& response, bool answered);
  void DisturbLater();
  void Disturb();
  void Tend();
  void TendOwner(Owner& owner);
  void TendNodes();
  void MakePod(const SimulatedGang& gang, int index);
  void SetPhase(const Json& pod, const std::string& phase);
  Status Check();
  static std::string PodName(const SimulatedGang& gang, int index) {
    return gang.name + "-" + std::to_string(index);
  }
  const Json* Pod(const std::string& name) const {
    return api_.Find("pods", ObjectName{"ns", name});
  }
  void Log(const std::string& line);

  Random rng_;
  const SimulatedFaults faults_;
  PodSchedulerSettings settings_;
  Instant now_ = InstantFromNanoseconds(1'769'846'400'000'000'000);
  Instant faults_end_ = now_;
  ApiDouble api_;
  SimulatedProvisioner provisioner_;
  std::multimap<Instant, std::function<void()>> agenda_;
  uint64_t leader_ = 0;
  std::unique_ptr<PodScheduler> scheduler_;
  std::vector<std::unique_ptr<View>> views_;
  std::optional<Instant> advance_at_;
  std::map<std::string, Owner> owners_;
  std::map<std::string, Json> nodes_;  // all that ever were
  std::map<std::string, Instant> bound_at_;
  std::map<std::string, int> made_;  // pods, by name
  int turns_ = 0;                    // in a row after which another one is due at once
  int rejected_ = 0;
  int removed_ = 0;
  Status broken_;
  std::string log_;
};

}  // namespace longhaul::engines::kubernetes
