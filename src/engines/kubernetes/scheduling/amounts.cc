#include "engines/kubernetes/scheduling/amounts.h"

#include <algorithm>

namespace longhaul::engines::kubernetes {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
// Sums of a cluster's pods stay within 64 bits.
constexpr int64_t kMostOfOne = int64_t{1} << 40;
// Names beyond these share one number; no node has enough for them.
constexpr size_t kMostNames = 4'096;
constexpr ResourceId kFurther{1};
// With a space, which names of resources cannot have.
constexpr std::string_view kHostPort = "host port ";

// Resources that are counted in bytes; the others are few enough to be counted by the piece.
bool IsBytes(std::string_view name) {
  return name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-");
}

int64_t MebibytesUp(int64_t bytes) { return bytes / kMebibyte + (bytes % kMebibyte > 0 ? 1 : 0); }

void Put(ResourceId resource, int64_t amount, Amounts& amounts) {
  auto& others = amounts.others;
  const auto at =
      std::lower_bound(others.begin(), others.end(), resource,
                       [](const auto& entry, ResourceId wanted) { return entry.first < wanted; });
  if (at != others.end() && at->first == resource) {
    at->second += amount;
    if (at->second == 0) others.erase(at);
  } else if (amount != 0) {
    others.insert(at, {resource, amount});
  }
}

Amounts Convert(const ResourceList& list, ResourceNames& names, bool up) {
  Amounts amounts;
  for (const auto& [name, quantity] : list) {
    if (name == "cpu") {
      amounts.cpu_milli = std::clamp<int64_t>(quantity.RoundedUpMilliUnits(), 0, kMostOfOne);
      continue;
    }
    int64_t amount = std::max<int64_t>(0, quantity.RoundedUpUnits());
    if (IsBytes(name)) amount = up ? MebibytesUp(amount) : amount / kMebibyte;
    amount = std::min(amount, kMostOfOne);
    if (name == "memory") {
      amounts.memory_mib = amount;
    } else {
      Put(names.Of(name), amount, amounts);
    }
  }
  return amounts;
}

}  // namespace

ResourceNames::ResourceNames() : names_{"pods", "(further resources)"} {}

// Few names occur in a cluster.
ResourceId ResourceNames::Of(std::string_view name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<ResourceId>(found - names_.begin());
  if (names_.size() >= kMostNames) return kFurther;
  names_.emplace_back(name);
  return static_cast<ResourceId>(names_.size() - 1);
}

ResourceId ResourceNames::OfHostPort(const HostPort& port) {
  return Of(std::string(kHostPort) + std::to_string(port.port) + "/" +
            (port.protocol.empty() ? "TCP" : port.protocol));
}

bool ResourceNames::IsHostPort(ResourceId id) const { return name(id).starts_with(kHostPort); }

int64_t Amounts::Of(ResourceId resource) const {
  for (const auto& [id, amount] : others) {
    if (id == resource) return amount;
  }
  return 0;
}

Amounts NeedsOf(const ResourceList& requests, ResourceNames& names) {
  Amounts needs = Convert(requests, names, true);
  Put(kPodsResource, 1, needs);
  return needs;
}

void AddHostPorts(const std::vector<HostPort>& ports, ResourceNames& names, Amounts& needs) {
  for (const HostPort& port : ports) {
    const ResourceId resource = names.OfHostPort(port);
    // A pod may name the port of several addresses.
    if (needs.Of(resource) == 0) Put(resource, 1, needs);
  }
}

Amounts SupplyOf(const ResourceList& allocatable, ResourceNames& names) {
  return Convert(allocatable, names, false);
}

void AddTimes(const Amounts& added, int64_t factor, Amounts& total) {
  total.cpu_milli += factor * added.cpu_milli;
  total.memory_mib += factor * added.memory_mib;
  for (const auto& [resource, amount] : added.others) Put(resource, factor * amount, total);
}

}  // namespace longhaul::engines::kubernetes
