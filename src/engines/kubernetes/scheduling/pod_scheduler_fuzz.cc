// Nodes, pods and groups of any content, in any order, with any replies.
//
// The bytes choose what is observed. Whatever that is, the invariants hold, and no turn asks for
// another one for ever.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <variant>

#include "base/check.h"
#include "engines/kubernetes/scheduling/pod_scheduler.h"

namespace longhaul::engines::kubernetes {
namespace {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint8_t Next() { return at_ < size_ ? data_[at_++] : uint8_t{0}; }
  uint8_t Below(uint8_t most) { return static_cast<uint8_t>(Next() % most); }

  std::string Text() {
    const char* const kTexts[] = {"a", "b", "", "nvidia.com/gpu", "pods", "c:1", "\xff"};
    return kTexts[Below(7)];
  }
  Quantity Amount() {
    const char* const kAmounts[] = {"0", "1", "8", "17", "500m", "1Gi", "9E", "-1", "1n"};
    return *Quantity::Parse(kAmounts[Below(9)]);
  }
  ResourceList Resources() {
    const char* const kNames[] = {"cpu",         "memory", "pods",          "nvidia.com/gpu",
                                  "amd.com/gpu", "x.io/a", "hugepages-2Mi", "x.io/b"};
    ResourceList list;
    for (uint8_t i = Below(4); i > 0; --i) list[kNames[Below(8)]] = Amount();
    return list;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

Node AnyNode(Bytes& bytes) {
  Node node;
  node.meta.name = "n" + std::to_string(bytes.Below(4));
  node.meta.labels[bytes.Text()] = bytes.Text();
  node.meta.labels["network.topology.nvidia.com/leaf"] = bytes.Text();
  node.capacity = bytes.Resources();
  if (bytes.Below(4) != 0) {
    node.capacity["pods"] = Quantity::FromUnits(9);
    node.capacity["nvidia.com/gpu"] = Quantity::FromUnits(8);
  }
  node.allocatable = bytes.Below(2) == 0 ? node.capacity : bytes.Resources();
  if (bytes.Below(4) != 0) node.conditions.push_back({"Ready", "True", ""});
  if (bytes.Below(4) == 0) node.taints.push_back({bytes.Text(), bytes.Text(), "NoSchedule"});
  node.unschedulable = bytes.Below(8) == 0;
  return node;
}

Pod AnyPod(Bytes& bytes) {
  Pod pod;
  pod.meta.namespace_name = "ns";
  pod.meta.name = "p" + std::to_string(bytes.Below(8));
  pod.meta.uid = std::to_string(bytes.Below(3));
  pod.scheduler_name = bytes.Below(4) == 0 ? "other" : "longhaul";
  if (bytes.Below(3) == 0) pod.requests = bytes.Resources();
  pod.requests["nvidia.com/gpu"] = Quantity::FromUnits(bytes.Below(6));
  pod.priority = static_cast<int32_t>(bytes.Next() * 0x01010101u);
  pod.preempts_never = bytes.Below(4) == 0;
  if (bytes.Below(2) == 0) pod.pod_group = bytes.Text();
  if (bytes.Below(4) == 0) pod.meta.annotations["longhaul.dev/min-member"] = "99999999999";
  if (bytes.Below(4) == 0) pod.node_selector[bytes.Text()] = bytes.Text();
  if (bytes.Below(3) == 0) pod.node_name = "n" + std::to_string(bytes.Below(6));
  if (bytes.Below(8) == 0) pod.scheduling_gates.emplace_back("gate");
  if (bytes.Below(16) == 0) pod.required_node_terms.emplace();
  if (bytes.Below(4) == 0) pod.volume_claims = {"c0", "c" + std::to_string(bytes.Below(3))};
  if (bytes.Below(8) == 0) pod.ephemeral_claims.emplace_back("c1");
  const PodPhase kPhases[] = {PodPhase::kPending, PodPhase::kRunning, PodPhase::kSucceeded,
                              PodPhase::kUnknown};
  pod.phase = kPhases[bytes.Below(4)];
  pod.meta.being_deleted = bytes.Below(8) == 0;
  return pod;
}

void ObserveStorage(Bytes& bytes, PodVolumes& volumes) {
  const std::string number = std::to_string(bytes.Below(3));
  switch (bytes.Below(6)) {
    case 0: {
      VolumeClaim claim;
      claim.meta.namespace_name = "ns";
      claim.meta.name = "c" + number;
      claim.meta.being_deleted = bytes.Below(8) == 0;
      if (bytes.Below(2) == 0) claim.meta.controller = Owner{"v1", "Pod", "p", number};
      claim.volume = bytes.Below(4) == 0 ? bytes.Text() : "v" + std::to_string(bytes.Below(3));
      claim.storage_class = bytes.Text();
      claim.phase = bytes.Below(4) == 0 ? bytes.Text() : "Bound";
      claim.one_pod = bytes.Below(2) == 0;
      return volumes.SetClaim(claim);
    }
    case 1:
      return volumes.RemoveClaim("ns/c" + number);
    case 2: {
      Volume volume;
      volume.meta.name = "v" + number;
      if (bytes.Below(2) == 0) {
        const char* const kComparisons[] = {"In", "Exists", "Gt", ""};
        NodeRequirement requirement{bytes.Text(), kComparisons[bytes.Below(4)], {bytes.Text()}};
        volume.node_terms.emplace().emplace_back().match_labels.push_back(requirement);
      }
      return volumes.SetVolume(volume);
    }
    case 3:
      return volumes.RemoveVolume("v" + number);
    case 4: {
      StorageClass storage;
      storage.meta.name = bytes.Text();
      storage.waits_for_consumer = bytes.Below(2) == 0;
      return volumes.SetClass(storage);
    }
    default:
      return volumes.RemoveClass(bytes.Text());
  }
}

void Answer(Bytes& bytes, const PodAction& action, Instant now, PodScheduler& scheduler) {
  if (const auto* bind = std::get_if<BindPod>(&action)) {
    const uint8_t luck = bytes.Below(4);
    if (luck == 3) return;  // it never comes
    scheduler.OnBind(bind->pod, static_cast<BindResult>(luck), "why", now);
  } else if (const auto* event = std::get_if<RecordPodEvent>(&action)) {
    if (bytes.Below(4) == 0) scheduler.OnEventLost(*event);
  } else if (const auto* remove = std::get_if<RemovePod>(&action)) {
    scheduler.OnRemove(remove->pod, bytes.Below(2) == 0, now);
    if (bytes.Below(2) == 0) scheduler.OnPodGone(remove->pod);
  }
}

void Observe(Bytes& bytes, PodScheduler& scheduler) {
  switch (bytes.Below(10)) {
    case 8:
    case 9:
      return ObserveStorage(bytes, scheduler.volumes());
    case 0:
      return scheduler.OnNode(AnyNode(bytes));
    case 1:
      return scheduler.OnNodeGone("n" + std::to_string(bytes.Below(4)));
    case 2: {
      PodGroup group;
      group.meta.namespace_name = "ns";
      group.meta.name = bytes.Text();
      group.least_pods = static_cast<int8_t>(bytes.Next());
      group.topology_key = bytes.Below(2) == 0 ? "" : "network.topology.nvidia.com/leaf";
      return scheduler.OnPodGroup(static_cast<PodGroupApi>(bytes.Below(2)), group);
    }
    case 3:
      return scheduler.OnPodGone(
          {"ns", "p" + std::to_string(bytes.Below(8)), std::to_string(bytes.Below(3))});
    case 4:
      return scheduler.OnRead(AnyPod(bytes));
    default:
      return scheduler.OnPod(AnyPod(bytes));
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::engines::kubernetes;
  Bytes bytes(data, size);
  PodScheduler scheduler({});
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  while (!bytes.empty()) {
    Observe(bytes, scheduler);
    if (bytes.Below(3) == 0) continue;
    now += std::chrono::seconds(bytes.Below(2) == 0 ? 1 : bytes.Next() * 10);
    for (int turn = 0; turn < 8; ++turn) {
      for (const PodAction& action : scheduler.Advance(now, 4)) {
        Answer(bytes, action, now, scheduler);
      }
      const Status holds = scheduler.CheckInvariants();
      CHECK(holds.ok()) << holds;
    }
  }
  return 0;
}
