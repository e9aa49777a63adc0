// Names of labels and annotations that the scheduler reads and writes.
#pragma once

#include <string_view>

namespace longhaul::engines::kubernetes {

// The label and the annotation by which a pod names its group and, where no PodGroup exists, the
// number of pods that start together.
inline constexpr std::string_view kPodGroupLabel = "scheduling.x-k8s.io/pod-group";
inline constexpr std::string_view kMinMemberAnnotation = "longhaul.dev/min-member";
inline constexpr std::string_view kRankAnnotation = "longhaul.dev/rank";

}  // namespace longhaul::engines::kubernetes
