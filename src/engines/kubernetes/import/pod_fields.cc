#include "engines/kubernetes/import/pod_fields.h"

#include <array>

#include "engines/kubernetes/import/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr auto kKeptPodFields = std::to_array<std::string_view>({"affinity",
                                                                 "automountServiceAccountToken",
                                                                 "dnsConfig",
                                                                 "dnsPolicy",
                                                                 "enableServiceLinks",
                                                                 "hostAliases",
                                                                 "hostIPC",
                                                                 "hostNetwork",
                                                                 "hostPID",
                                                                 "hostUsers",
                                                                 "hostname",
                                                                 "hostnameOverride",
                                                                 "imagePullSecrets",
                                                                 "nodeSelector",
                                                                 "os",
                                                                 "overhead",
                                                                 "preemptionPolicy",
                                                                 "priorityClassName",
                                                                 "readinessGates",
                                                                 "resourceClaims",
                                                                 "resources",
                                                                 "runtimeClassName",
                                                                 "securityContext",
                                                                 "serviceAccount",
                                                                 "serviceAccountName",
                                                                 "setHostnameAsFQDN",
                                                                 "shareProcessNamespace",
                                                                 "subdomain",
                                                                 "terminationGracePeriodSeconds",
                                                                 "tolerations",
                                                                 "topologySpreadConstraints"});

constexpr auto kContainerFields = std::to_array<std::string_view>({"name",
                                                                   "image",
                                                                   "imagePullPolicy",
                                                                   "command",
                                                                   "args",
                                                                   "env",
                                                                   "envFrom",
                                                                   "lifecycle",
                                                                   "livenessProbe",
                                                                   "ports",
                                                                   "readinessProbe",
                                                                   "resizePolicy",
                                                                   "resources",
                                                                   "restartPolicy",
                                                                   "restartPolicyRules",
                                                                   "securityContext",
                                                                   "startupProbe",
                                                                   "stdin",
                                                                   "stdinOnce",
                                                                   "terminationMessagePath",
                                                                   "terminationMessagePolicy",
                                                                   "tty",
                                                                   "volumeDevices",
                                                                   "volumeMounts",
                                                                   "workingDir"});

}  // namespace

std::span<const std::string_view> KeptPodFields() { return kKeptPodFields; }
std::span<const std::string_view> ContainerFields() { return kContainerFields; }

JobJson TextMap(const JobJson& map, const std::string& path, Translation& translation) {
  JobJson texts = JobJson::object();
  if (!map.is_object()) return texts;
  for (const auto& [name, value] : map.items()) {
    if (value.is_string()) {
      texts[name] = value;
    } else if (!value.is_null()) {
      translation.Fail(PathJoin(path, name),
                       "is " + ShowValue(value) + ", expected a text in quotes");
    }
  }
  return texts;
}

}  // namespace longhaul::engines::kubernetes
