#include "engines/kubernetes/jobs/kueue/topology_assignment.h"

#include <optional>

#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

// A list of at most this many elements, or null.
const JobJson* ListAt(const JobJson& object, const char* name, size_t least, size_t most) {
  const JobJson& list = MemberOf(object, name);
  return list.is_array() && list.size() >= least && list.size() <= most ? &list : nullptr;
}

// One part of an assignment: `domains` places, each with some of the pods. What all places have in
// common is stated once ("universal").
class Slice {
 public:
  // `left`: pods that have no place yet.
  Slice(const JobJson& object, size_t levels, uint32_t left)
      : counts_(MemberOf(object, "podCounts")) {
    const JobJson& domains = MemberOf(object, "domainCount");
    if (!domains.is_number_unsigned() || domains < 1u || domains > left) return;
    domains_ = domains.get<uint32_t>();
    const JobJson* values = ListAt(object, "valuesPerLevel", levels, levels);
    if (values == nullptr) return;
    values_ = values;
    ok_ = HasAll(ListAt(counts_, "individual", domains_, domains_), counts_);
    for (const JobJson& level : *values) {
      ok_ =
          ok_ && HasAll(ListAt(MemberOf(level, "individual"), "roots", domains_, domains_), level);
    }
  }

  bool ok() const { return ok_; }
  uint32_t domains() const { return domains_; }
  // How many pods are in a place; nothing for a value that is no count.
  std::optional<uint32_t> PodsIn(uint32_t domain) const {
    const JobJson& all = MemberOf(counts_, "universal");
    const JobJson& count = all.is_null() ? counts_["individual"][domain] : all;
    if (!count.is_number_unsigned() || count < 1u || count > UINT32_MAX) return std::nullopt;
    return count.get<uint32_t>();
  }
  // The label's value of a place.
  std::optional<std::string> ValueOf(size_t level, uint32_t domain) const {
    const JobJson& value = (*values_)[level];
    const JobJson& all = MemberOf(value, "universal");
    if (all.is_string()) return all.get<std::string>();
    const JobJson& each = MemberOf(value, "individual");
    if (!all.is_null() || !each["roots"][domain].is_string()) return std::nullopt;
    return TextAt(each, "prefix") + each["roots"][domain].get<std::string>() +
           TextAt(each, "suffix");
  }

 private:
  // A value for all places, or a list with one for each.
  static bool HasAll(const JobJson* each, const JobJson& object) {
    return !MemberOf(object, "universal").is_null() || each != nullptr;
  }

  const JobJson& counts_;
  const JobJson* values_ = nullptr;
  uint32_t domains_ = 0;
  bool ok_ = false;
};

}  // namespace

Result<std::vector<NodeLabels>> ReadTopologyAssignment(const JobJson& object, uint32_t count) {
  constexpr size_t kMostLevels = 16;  // as in Kueue's definition
  constexpr size_t kMostSlices = 1'000;
  const JobJson* levels = ListAt(object, "levels", 1, kMostLevels);
  if (levels == nullptr) return InvalidArgument("levels: expected a list of 1 to 16 labels");
  for (const JobJson& level : *levels) {
    if (!level.is_string()) return InvalidArgument("levels: expected labels");
  }
  const JobJson* slices = ListAt(object, "slices", 0, kMostSlices);
  if (slices == nullptr) return InvalidArgument("slices: expected a list of at most 1000");
  std::vector<NodeLabels> pods;
  for (const JobJson& each : *slices) {
    const Slice slice(each, levels->size(), count - static_cast<uint32_t>(pods.size()));
    if (!slice.ok()) return InvalidArgument("slices: the lengths of a slice contradict each other");
    for (uint32_t domain = 0; domain < slice.domains(); ++domain) {
      NodeLabels labels;
      for (size_t level = 0; level < levels->size(); ++level) {
        const std::optional<std::string> value = slice.ValueOf(level, domain);
        if (!value) return InvalidArgument("slices.valuesPerLevel: expected texts");
        labels[(*levels)[level].get<std::string>()] = *value;
      }
      const std::optional<uint32_t> here = slice.PodsIn(domain);
      if (!here || *here > count - pods.size()) {
        return InvalidArgument("slices.podCounts: expected " + std::to_string(count) + " pods");
      }
      pods.insert(pods.end(), *here, labels);
    }
  }
  if (pods.size() != count) {
    return InvalidArgument("slices: expected " + std::to_string(count) + " pods, got " +
                           std::to_string(pods.size()));
  }
  return pods;
}

}  // namespace longhaul::engines::kubernetes
