// What the operator has to know of Kueue's set-up: which nodes a ResourceFlavor stands for, and the
// values of the priority classes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "engines/kubernetes/jobs/kueue/workload.h"
#include "engines/kubernetes/jobs/pod_templates.h"

namespace longhaul::engines::kubernetes {

enum class PriorityKind : uint8_t {
  kWorkload,  // kueue.x-k8s.io/v1beta2 WorkloadPriorityClass
  kPod,       // scheduling.k8s.io/v1 PriorityClass
};

struct PriorityClass {
  PriorityKind kind = PriorityKind::kWorkload;
  std::string name;
  int32_t value = 0;
  bool is_default = false;  // of pods without a class
};
Result<PriorityClass> ReadPriorityClass(PriorityKind kind, const JobJson& object);

struct ResourceFlavor {
  std::string name;
  PodPlacement placement;
};
Result<ResourceFlavor> ReadResourceFlavor(const JobJson& object);

class QueueObjects {
 public:
  // Whether the API server has Kueue's resources. Not known at first.
  void SetServed(bool served) { served_ = served; }
  bool served() const { return served_; }

  void SetFlavor(ResourceFlavor flavor) { flavors_[flavor.name] = std::move(flavor.placement); }
  void RemoveFlavor(const std::string& name) { flavors_.erase(name); }
  void SetPriority(const PriorityClass& priority) {
    priorities_[{priority.kind, priority.name}] = priority;
  }
  void RemovePriority(PriorityKind kind, const std::string& name) {
    priorities_.erase({kind, name});
  }

  // Where the pods of an assignment may be. kNotFound, with the flavor's name, for a flavor that is
  // not known.
  Result<PodPlacement> PlacementOf(const PodSetAssignment& assignment) const;
  // The priority of the job in its queue: that of its WorkloadPriorityClass, else that of the
  // PriorityClass of its pods, else none. kNotFound, with the name, for a class that does not
  // exist.
  Result<std::optional<PriorityClass>> PriorityOf(const LonghaulJob& job) const;

 private:
  bool served_ = false;
  std::map<std::string, PodPlacement> flavors_;
  std::map<std::pair<PriorityKind, std::string>, PriorityClass> priorities_;
};

}  // namespace longhaul::engines::kubernetes
