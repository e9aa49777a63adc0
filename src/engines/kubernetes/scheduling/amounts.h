// Amounts of resources as the scheduler counts them: whole thousandths of cores, MiB and units.
//
// Needs are rounded up and what a node has is rounded down, so that a rounded sum never promises
// what is not there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/objects/resource_list.h"

namespace longhaul::engines::kubernetes {

enum class ResourceId : uint16_t {};

// Gives each resource other than cpu and memory a number. A port of a node's address is one, of
// which each node has one. Its address is not distinguished: a pod that takes the port of one
// address takes those of all.
class ResourceNames {
 public:
  ResourceNames();
  ResourceId Of(std::string_view name);
  ResourceId OfHostPort(const HostPort& port);
  bool IsHostPort(ResourceId id) const;
  const std::string& name(ResourceId id) const { return names_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::string> names_;
};

inline constexpr ResourceId kPodsResource{0};  // "pods": how many pods a node takes

struct Amounts {
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  std::vector<std::pair<ResourceId, int64_t>> others;  // none of 0, by number

  int64_t Of(ResourceId resource) const;
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

// What one pod needs, itself included ("pods").
Amounts NeedsOf(const ResourceList& requests, ResourceNames& names);
void AddHostPorts(const std::vector<HostPort>& ports, ResourceNames& names, Amounts& needs);
// What a node has.
Amounts SupplyOf(const ResourceList& allocatable, ResourceNames& names);

// total += factor x added.
void AddTimes(const Amounts& added, int64_t factor, Amounts& total);

}  // namespace longhaul::engines::kubernetes
