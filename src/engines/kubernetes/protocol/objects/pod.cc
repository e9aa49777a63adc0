#include "engines/kubernetes/protocol/objects/pod.h"

#include <utility>

#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

// The resources of the containers, in the order of the list.
struct Container {
  ResourceList requests;
  bool restarts_always = false;  // of an init container: a sidecar
};

struct Containers {
  std::vector<Container> init;
  std::vector<Container> main;
  ResourceList overhead;
};

// The sum that KEP-753 defines: a sidecar runs beside everything that starts after it.
ResourceList Occupied(const Containers& containers) {
  ResourceList total;
  for (const Container& container : containers.main) Add(container.requests, &total);
  ResourceList sidecars;
  ResourceList largest;
  for (const Container& container : containers.init) {
    if (container.restarts_always) {
      Add(container.requests, &sidecars);
      RaiseTo(sidecars, &largest);
      continue;
    }
    ResourceList during = container.requests;
    Add(sidecars, &during);
    RaiseTo(during, &largest);
  }
  Add(sidecars, &total);
  RaiseTo(largest, &total);
  Add(containers.overhead, &total);
  return total;
}

Status ReadPort(JsonValue value, const JsonPlace& place, Pod* pod) {
  HostPort port;
  RETURN_IF_ERROR(ForEachField(
      value, place, [&port](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "hostPort") return ReadInt32(field, at, &port.port);
        if (key == "protocol") return ReadString(field, at, &port.protocol);
        if (key == "hostIP") return ReadString(field, at, &port.host_ip);
        return Status();
      }));
  // A port of the container alone restricts no node.
  if (port.port != 0) pod->host_ports.push_back(std::move(port));
  return Status();
}

Status ReadContainer(JsonValue value, const JsonPlace& place, Pod* pod, Container* container) {
  return ForEachField(
      value, place, [&](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "resources") {
          return ForEachField(
              field, at, [&](std::string_view name, JsonValue list, const JsonPlace& list_at) {
                return name == "requests" ? ReadResourceList(list, list_at, &container->requests)
                                          : Status();
              });
        }
        if (key == "ports") {
          return ForEachElement(field, at, [pod](JsonValue port, const JsonPlace& port_at) {
            return ReadPort(port, port_at, pod);
          });
        }
        if (key == "restartPolicy") {
          ASSIGN_OR_RETURN(const std::string_view policy, TextOf(field, at));
          container->restarts_always = policy == "Always";
        }
        return Status();
      });
}

Status ReadContainers(JsonValue value, const JsonPlace& place, Pod* pod,
                      std::vector<Container>* containers) {
  return ForEachElement(value, place, [&](JsonValue element, const JsonPlace& at) {
    return ReadContainer(element, at, pod, &containers->emplace_back());
  });
}

Status ReadToleration(JsonValue value, const JsonPlace& place, Pod* pod) {
  Toleration& toleration = pod->tolerations.emplace_back();
  return ForEachField(
      value, place,
      [&toleration](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "key") return ReadString(field, at, &toleration.key);
        if (key == "value") return ReadString(field, at, &toleration.value);
        if (key == "effect") return ReadString(field, at, &toleration.effect);
        if (key == "tolerationSeconds") return ReadInt64(field, at, &toleration.seconds.emplace());
        // Equal is the default, and the only other value.
        if (key == "operator") {
          ASSIGN_OR_RETURN(const std::string_view comparison, TextOf(field, at));
          toleration.exists = comparison == "Exists";
        }
        return Status();
      });
}

Status ReadNodeAffinity(std::string_view key, JsonValue value, const JsonPlace& place, Pod* pod) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return Status();
  if (key != "requiredDuringSchedulingIgnoredDuringExecution") {
    pod->uninterpreted.push_back(place.Text());
    return Status();
  }
  // No terms at all match no node, which differs from an absent field.
  return ReadNodeSelector(value, place, &pod->required_node_terms.emplace());
}

Status ReadAffinity(std::string_view key, JsonValue value, const JsonPlace& place, Pod* pod) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return Status();
  if (key != "nodeAffinity") {
    pod->uninterpreted.push_back(place.Text());
    return Status();
  }
  return ForEachField(value, place,
                      [pod](std::string_view name, JsonValue field, const JsonPlace& at) {
                        return ReadNodeAffinity(name, field, at, pod);
                      });
}

Status ReadPodVolume(JsonValue value, const JsonPlace& place, Pod* pod) {
  std::string volume;
  bool ephemeral = false;
  RETURN_IF_ERROR(ForEachField(
      value, place, [&](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "name") return ReadString(field, at, &volume);
        if (key == "ephemeral") {
          ASSIGN_OR_RETURN(const bool null, IsNull(field, at));
          ephemeral = !null;
          return Status();
        }
        if (key != "persistentVolumeClaim") return Status();
        return ForEachField(
            field, at, [pod](std::string_view name, JsonValue claim, const JsonPlace& claim_at) {
              return name == "claimName"
                         ? ReadString(claim, claim_at, &pod->volume_claims.emplace_back())
                         : Status();
            });
      }));
  // The pod's own name may come later in the text.
  if (ephemeral) pod->ephemeral_claims.push_back("-" + volume);
  return Status();
}

// The lists of the specification. Returns false in `known` for another key.
Status ReadSpecList(std::string_view key, JsonValue value, const JsonPlace& place, Pod* pod,
                    bool* known) {
  *known = true;
  if (key == "tolerations") {
    return ForEachElement(value, place, [pod](JsonValue element, const JsonPlace& at) {
      return ReadToleration(element, at, pod);
    });
  }
  if (key == "volumes") {
    return ForEachElement(value, place, [pod](JsonValue element, const JsonPlace& at) {
      return ReadPodVolume(element, at, pod);
    });
  }
  if (key == "schedulingGates") {
    return ForEachElement(value, place, [pod](JsonValue element, const JsonPlace& at) {
      std::string& gate = pod->scheduling_gates.emplace_back();
      return ForEachField(
          element, at, [&gate](std::string_view name, JsonValue field, const JsonPlace& field_at) {
            return name == "name" ? ReadString(field, field_at, &gate) : Status();
          });
    });
  }
  if (key == "resourceClaims") {
    return ForEachElement(value, place, [pod](JsonValue, const JsonPlace&) {
      ++pod->resource_claims;
      return Status();
    });
  }
  if (key == "topologySpreadConstraints") {
    bool any = false;
    RETURN_IF_ERROR(ForEachElement(value, place, [&any](JsonValue, const JsonPlace&) {
      any = true;
      return Status();
    }));
    if (any) pod->uninterpreted.push_back(place.Text());
    return Status();
  }
  *known = false;
  return Status();
}

Status ReadSpecField(std::string_view key, JsonValue value, const JsonPlace& place, Pod* pod,
                     Containers* containers) {
  if (key == "containers") return ReadContainers(value, place, pod, &containers->main);
  if (key == "initContainers") return ReadContainers(value, place, pod, &containers->init);
  if (key == "overhead") return ReadResourceList(value, place, &containers->overhead);
  if (key == "nodeName") return ReadString(value, place, &pod->node_name);
  if (key == "schedulerName") return ReadString(value, place, &pod->scheduler_name);
  if (key == "priority") return ReadInt32(value, place, &pod->priority);
  if (key == "nodeSelector") return ReadStrings(value, place, "", &pod->node_selector);
  if (key == "terminationGracePeriodSeconds") {
    return ReadInt64(value, place, &pod->termination_grace_seconds);
  }
  if (key == "preemptionPolicy") {
    ASSIGN_OR_RETURN(const std::string_view policy, TextOf(value, place));
    pod->preempts_never = policy == "Never";
    return Status();
  }
  if (key == "schedulingGroup") {
    return ForEachField(
        value, place, [pod](std::string_view name, JsonValue field, const JsonPlace& at) {
          return name == "podGroupName" ? ReadString(field, at, &pod->pod_group) : Status();
        });
  }
  if (key == "affinity") {
    return ForEachField(value, place,
                        [pod](std::string_view name, JsonValue field, const JsonPlace& at) {
                          return ReadAffinity(name, field, at, pod);
                        });
  }
  bool known = false;
  return ReadSpecList(key, value, place, pod, &known);
}

Status ReadPhase(JsonValue value, const JsonPlace& place, Pod* pod) {
  constexpr std::pair<std::string_view, PodPhase> kPhases[] = {
      {"Pending", PodPhase::kPending},     {"Running", PodPhase::kRunning},
      {"Succeeded", PodPhase::kSucceeded}, {"Failed", PodPhase::kFailed},
      {"Unknown", PodPhase::kUnknown},     {"", PodPhase::kPending}};
  ASSIGN_OR_RETURN(const std::string_view text, TextOf(value, place));
  // A phase of a later release must not count as finished.
  pod->phase = PodPhase::kUnknown;
  for (const auto& [name, phase] : kPhases) {
    if (name == text) pod->phase = phase;
  }
  return Status();
}

Status ReadCondition(JsonValue value, const JsonPlace& place, Pod* pod) {
  PodCondition condition;
  RETURN_IF_ERROR(ForEachField(
      value, place,
      [&condition](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "type") return ReadString(field, at, &condition.type);
        if (key == "reason") return ReadString(field, at, &condition.reason);
        if (key == "message") return ReadString(field, at, &condition.message);
        if (key == "status") {
          ASSIGN_OR_RETURN(const std::string_view status, TextOf(field, at));
          condition.is_true = status == "True";
        }
        return Status();
      }));
  if (condition.type == "PodScheduled" || condition.type == "DisruptionTarget") {
    pod->conditions.push_back(std::move(condition));
  }
  return Status();
}

// status.containerStatuses[].allocatedResourcesStatus[]: {name, resources: [{resourceID, health}]}
Status ReadAllocated(JsonValue value, const JsonPlace& place, std::vector<DeviceHealth>* devices) {
  const size_t first = devices->size();
  std::string resource;
  RETURN_IF_ERROR(ForEachField(
      value, place, [&](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "name") return ReadString(field, at, &resource);
        if (key != "resources") return Status();
        return ForEachElement(field, at, [&](JsonValue element, const JsonPlace& element_at) {
          DeviceHealth& device = devices->emplace_back();
          return ForEachField(
              element, element_at,
              [&device](std::string_view name, JsonValue text, const JsonPlace& text_at) -> Status {
                if (name == "resourceID") return ReadString(text, text_at, &device.device_id);
                if (name == "health") return ReadString(text, text_at, &device.health);
                return Status();
              });
        });
      }));
  // The name may come after the list.
  for (size_t i = first; i < devices->size(); ++i) (*devices)[i].resource = resource;
  return Status();
}

Status ReadContainerStatus(JsonValue value, const JsonPlace& place, Pod* pod) {
  const size_t first = pod->device_health.size();
  std::string name;
  RETURN_IF_ERROR(ForEachField(
      value, place, [&](std::string_view key, JsonValue field, const JsonPlace& at) -> Status {
        if (key == "name") return ReadString(field, at, &name);
        if (key != "allocatedResourcesStatus") return Status();
        return ForEachElement(field, at, [pod](JsonValue element, const JsonPlace& element_at) {
          return ReadAllocated(element, element_at, &pod->device_health);
        });
      }));
  for (size_t i = first; i < pod->device_health.size(); ++i) {
    pod->device_health[i].container = name;
  }
  return Status();
}

Status ReadStatusField(std::string_view key, JsonValue value, const JsonPlace& place, Pod* pod) {
  if (key == "phase") return ReadPhase(value, place, pod);
  if (key == "reason") return ReadString(value, place, &pod->reason);
  if (key == "conditions") {
    return ForEachElement(value, place, [pod](JsonValue element, const JsonPlace& at) {
      return ReadCondition(element, at, pod);
    });
  }
  if (key == "containerStatuses") {
    return ForEachElement(value, place, [pod](JsonValue element, const JsonPlace& at) {
      return ReadContainerStatus(element, at, pod);
    });
  }
  return Status();
}

}  // namespace

Result<Pod> ReadPod(JsonParser& parser, PaddedText json) {
  return ReadPodWithMeta(parser, json, {});
}

Result<Pod> ReadPodWithMeta(JsonParser& parser, PaddedText json, ObjectMeta meta) {
  const JsonPlace place{nullptr, "pod"};
  Pod pod;
  pod.meta = std::move(meta);
  const bool has_meta = !pod.meta.name.empty();  // an object without a name is refused
  Containers containers;
  const auto spec = [&](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadSpecField(key, value, at, &pod, &containers);
  };
  const auto status = [&](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadStatusField(key, value, at, &pod);
  };
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata" && !has_meta) return ReadMetaField(value, at, &pod.meta);
                   if (key == "spec") return ForEachField(value, at, spec);
                   if (key == "status") return ForEachField(value, at, status);
                   return Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(pod.meta, place));
  if (pod.meta.namespace_name.empty()) return InvalidArgument("pod has no metadata.namespace");
  for (std::string& claim : pod.ephemeral_claims) claim = pod.meta.name + claim;
  pod.requests = Occupied(containers);
  return pod;
}

}  // namespace longhaul::engines::kubernetes
