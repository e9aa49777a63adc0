#include "scheduler/placement.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "scheduler/natural_order.h"

namespace longhaul::scheduler {

namespace {

// A message names this many of the nodes that don't qualify.
constexpr size_t kNamedNodes = 8;

using Candidates = std::vector<const NodeView*>;

bool Qualifies(const NodeView& node, uint32_t slots) {
  return node.usable && node.free_slots >= slots;
}

bool ByName(const NodeView* a, const NodeView* b) {
  return NaturalLess(a->name.value(), b->name.value());
}

// Less free is a better fit, as all take the same number of slots.
bool ByFit(const NodeView* a, const NodeView* b) {
  return a->free_slots != b->free_slots ? a->free_slots < b->free_slots : ByName(a, b);
}

std::string Count(uint64_t number, const std::string& noun) {
  return WithThousands(static_cast<int64_t>(number)) + " " + noun + (number == 1 ? "" : "s");
}

std::string WhyNot(const NodeView& node) {
  const std::string& name = node.name.value();
  if (!node.usable) {
    return name + " is " + (node.why_unusable.empty() ? "unusable" : node.why_unusable);
  }
  return name + " has " + std::to_string(node.free_slots) +
         (node.slots ? " of " + std::to_string(*node.slots) : "") + " free";
}

// " (node-3 is disconnected, node-4 has 1 of 2 free and 9 more)"; empty when all qualify.
std::string WhyOthersDoNot(std::span<const NodeView> nodes, uint32_t slots) {
  Candidates others;
  for (const NodeView& node : nodes) {
    if (!Qualifies(node, slots)) others.push_back(&node);
  }
  if (others.empty()) return "";
  const size_t named = std::min(others.size(), kNamedNodes);
  std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(named),
                    others.end(), ByName);
  std::vector<std::string> reasons;
  for (size_t i = 0; i < named; ++i) reasons.push_back(WhyNot(*others[i]));
  const size_t more = others.size() - named;
  return " (" + Join(reasons, ", ") + (more == 0 ? "" : " and " + std::to_string(more) + " more") +
         ")";
}

Status DoesNotFit(std::span<const NodeView> nodes, size_t qualifying, uint32_t count,
                  uint32_t slots) {
  const std::string need = "needs " + Count(count, "node") + " with " + Count(slots, "free slot");
  const auto large =
      static_cast<uint64_t>(std::count_if(nodes.begin(), nodes.end(), [&](const NodeView& node) {
        return node.slots.value_or(slots) >= slots;
      }));
  if (large < count) {
    return FailedPrecondition(need + "; even with nothing running the cluster of " +
                              Count(nodes.size(), "node") + " has " + std::to_string(large) +
                              " that large");
  }
  return ResourceExhausted(need + "; " + Count(qualifying, "usable node") +
                           (qualifying == 1 ? " qualifies" : " qualify") +
                           WhyOthersDoNot(nodes, slots));
}

// The candidates of the fullest domain that holds `count`; all of them when none does.
Candidates InOneDomain(const Candidates& candidates, uint32_t count) {
  std::map<std::string_view, Candidates> domains;
  for (const NodeView* node : candidates) domains[node->domain].push_back(node);
  const Candidates* best = &candidates;
  for (const auto& [domain, members] : domains) {
    const bool fits = members.size() >= count;
    if (fits && (best == &candidates || members.size() < best->size())) best = &members;
  }
  return *best;
}

}  // namespace

Result<std::vector<NodeId>> PlaceGang(std::span<const NodeView> nodes, uint32_t count,
                                      uint32_t slots_per_node) {
  CHECK(count >= 1) << "a gang needs a node";
  CHECK(slots_per_node >= 1) << "a gang needs a slot on each node";
  Candidates candidates;
  for (const NodeView& node : nodes) {
    if (Qualifies(node, slots_per_node)) candidates.push_back(&node);
  }
  if (candidates.size() < count) {
    return DoesNotFit(nodes, candidates.size(), count, slots_per_node);
  }
  Candidates chosen = InOneDomain(candidates, count);
  if (chosen.size() > count) {
    std::nth_element(chosen.begin(), chosen.begin() + count, chosen.end(), ByFit);
    chosen.resize(count);
  }
  std::sort(chosen.begin(), chosen.end(), ByName);
  std::vector<NodeId> gang;
  gang.reserve(count);
  for (const NodeView* node : chosen) gang.push_back(node->name);
  return gang;
}

Result<NodeId> ReplaceNode(std::span<const NodeView> nodes, std::span<const NodeId> gang,
                           const NodeId& lost, uint32_t slots) {
  CHECK(slots >= 1) << "a gang needs a slot on each node";
  CHECK(std::find(gang.begin(), gang.end(), lost) != gang.end()) << lost << " is not in the gang";
  std::vector<NodeId> rest(gang.begin(), gang.end());
  std::erase(rest, lost);
  std::sort(rest.begin(), rest.end());
  const auto gone = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const NodeView& node) { return node.name == lost; });
  const std::string_view near = gone == nodes.end() ? std::string_view() : gone->domain;
  const auto better = [&](const NodeView& a, const NodeView& b) {
    if ((a.domain == near) != (b.domain == near)) return a.domain == near;
    return ByFit(&a, &b);
  };
  const auto in_rest = [&](const NodeView& node) {
    return std::binary_search(rest.begin(), rest.end(), node.name);
  };
  const NodeView* best = nullptr;
  for (const NodeView& node : nodes) {
    if (!Qualifies(node, slots) || in_rest(node)) continue;
    if (best == nullptr || better(node, *best)) best = &node;
  }
  if (best == nullptr) {
    std::vector<NodeView> outside;
    std::remove_copy_if(nodes.begin(), nodes.end(), std::back_inserter(outside), in_rest);
    return DoesNotFit(outside, 0, 1, slots).WithContext("no replacement for " + lost.value());
  }
  return best->name;
}

}  // namespace longhaul::scheduler
