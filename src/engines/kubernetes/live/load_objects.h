// The objects that kubernetes_load creates in a cluster: nodes, pods and groups of pods.
//
// Every node is alike: 64 CPUs, 512 GiB, 8 GPUs and a Ready condition. Its labels name a network
// with 16 nodes on a leaf switch and 8 leaves on a spine switch. Every pod requires one GPU, as the
// pods of kubernetes_bind_rate do. Bodies are JSON for protocol/call.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/protocol/call.h"

namespace longhaul::engines::kubernetes {

// How the pods of a gang are grouped. A scheduler must bind all pods of a gang or none.
enum class GangKind {
  kNone,
  kCoscheduling,  // a label and a PodGroup of scheduling.x-k8s.io/v1alpha1
  kKubernetes,    // spec.schedulingGroup and a PodGroup of scheduling.k8s.io/v1beta1
};
// "none", "coscheduling" or "kubernetes".
Result<GangKind> ParseGangKind(std::string_view text);

struct LoadSettings {
  int pods = 1;
  std::string prefix = "load";  // of the names of pods and groups; different for each load
  std::string scheduler_name = "default-scheduler";
  GangKind gangs = GangKind::kNone;
  int gang_size = 8;  // pods in a gang; at least 1

  // Gangs that hold all pods: the last one may have fewer pods, and requires only those.
  int gang_count() const {
    return gangs == GangKind::kNone ? 0 : (pods + gang_size - 1) / gang_size;
  }
};

// "n17", as kubernetes_bind_rate names its nodes.
std::string NodeName(int index);
std::string NodeBody(int index);
// A merge patch of the status subresource, the same for every node.
std::string NodeStatusPatch();

// "PREFIX-17"
std::string LoadPodName(const LoadSettings& settings, int index);
// The index in a name that LoadPodName has made with these settings; nothing for another name.
std::optional<int> LoadPodIndex(const LoadSettings& settings, std::string_view name);
std::string LoadPodBody(const LoadSettings& settings, int index);

// Where the groups of pods are created. Requires that `kind` is not kNone.
Resource GangResource(GangKind kind);
std::string GangName(const LoadSettings& settings, int gang);
std::string GangBody(const LoadSettings& settings, int gang);

}  // namespace longhaul::engines::kubernetes
