#include "scheduler/share/queue_tree.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::scheduler::share {

// What the queues below the root are guaranteed together.
Status QueueTree::CheckTopGuarantees(const SharedAmounts& capacity) const {
  SharedAmounts sum;
  for (const QueueIndex child : children(kRootQueue)) {
    const Node& queue = at(child);
    sum += queue.guarantee;
    for (size_t r = 0; r < dimensions(); ++r) {
      if (sum[r] <= capacity[r]) continue;
      return InvalidArgument("queue '" + queue.name + "': with its guarantee of " +
                             AmountText(r, queue.guarantee[r]) + " the queues are promised " +
                             AmountText(r, sum[r]) + ", but the cluster has " +
                             AmountText(r, capacity[r]));
    }
  }
  return {};
}

Result<QueueTree> QueueTree::Create(const std::vector<spec::QueueSpec>& queues,
                                    const SharedAmounts& capacity) {
  RETURN_IF_ERROR(spec::CheckQueues(queues));
  QueueTree tree;
  tree.models_ = spec::QuotaModels(queues);
  tree.nodes_.resize(queues.size() + 1);
  Node& root = tree.nodes_[0];
  root.name = "cluster";
  root.limit = spec::kUnlimitedAmounts;
  root.guarantee = capacity;
  for (size_t i = 0; i < queues.size(); ++i) {
    tree.index_[queues[i].name] = static_cast<QueueIndex>(i + 1);
  }
  for (size_t i = 0; i < queues.size(); ++i) {
    const spec::QueueSpec queue = spec::WithModelDimensions(queues[i], tree.models_);
    Node& node = tree.nodes_[i + 1];
    node.name = queue.name;
    node.parent = queue.parent.empty() ? kRootQueue : tree.index_.at(queue.parent);
    node.guarantee = queue.guarantee;
    node.limit = queue.limit;
    for (size_t r = 0; r < spec::kQuotaDimensions; ++r) {
      node.kept[r] = std::max<int64_t>(0, queue.guarantee[r] - queue.lend[r]);
      if (queue.guarantee[r] > 0) tree.guaranteed_[r] = true;
    }
    node.weight = queue.weight;
    node.order = queue.order;
    node.reclaim = queue.reclaim;
    node.per_user = queue.per_user;
    if (queue.max_run_time > Duration(0)) node.max_run_time = queue.max_run_time;
    tree.at(node.parent).children.push_back(static_cast<QueueIndex>(i + 1));
  }
  RETURN_IF_ERROR(tree.CheckTopGuarantees(capacity));
  for (size_t i = 1; i < tree.nodes_.size(); ++i) {
    for (QueueIndex up = tree.nodes_[i].parent; up != kNoQueue; up = tree.at(up).parent) {
      ++tree.nodes_[i].depth;
    }
  }
  for (size_t i = 1; i < tree.nodes_.size(); ++i) {
    std::optional<Duration>& least = tree.nodes_[i].max_run_time;
    for (QueueIndex up = tree.nodes_[i].parent; up != kNoQueue; up = tree.at(up).parent) {
      const std::optional<Duration>& above = tree.at(up).max_run_time;
      if (above) least = least ? std::min(*least, *above) : *above;
    }
  }
  // Deepest first, so that a claim is whole before it is added to the parent's.
  std::vector<QueueIndex> order(tree.nodes_.size() - 1);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<QueueIndex>(i + 1);
  std::stable_sort(order.begin(), order.end(),
                   [&](QueueIndex a, QueueIndex b) { return tree.at(a).depth > tree.at(b).depth; });
  for (const QueueIndex queue : order) {
    const Node& node = tree.at(queue);
    for (size_t r = 0; r < tree.dimensions(); ++r) {
      tree.at(node.parent).children_claims[r] += Claim(node, r);
    }
  }
  return tree;
}

// The claim of a queue on its parent, as the header defines it.
int64_t QueueTree::Claim(const Node& node, size_t resource) {
  return std::max(node.own[resource] + node.children_claims[resource], node.kept[resource]);
}

void QueueTree::SetCapacity(const SharedAmounts& capacity) { nodes_[0].guarantee = capacity; }

QueueIndex QueueTree::Find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? kNoQueue : found->second;
}

bool QueueTree::LimitsUsers(QueueIndex queue) const {
  for (QueueIndex up = queue; up != kNoQueue; up = at(up).parent) {
    if (at(up).per_user.limits_holdings()) return true;
  }
  return false;
}

void QueueTree::ChangeUser(Node& node, const Holding& holding, int64_t sign) {
  auto user = node.users.find(holding.user);
  if (user == node.users.end()) user = node.users.emplace(holding.user, UserUsage()).first;
  UserUsage& usage = user->second;
  for (size_t r = 0; r < spec::kQuotaDimensions; ++r) {
    usage.amounts[r] += sign * holding.amounts[r];
    CHECK(usage.amounts[r] >= 0) << "usage of a user in queue " << node.name << " below zero";
  }
  usage.running += sign * holding.jobs;
  CHECK(usage.running >= 0) << "jobs of a user in queue " << node.name << " below zero";
  if (usage == UserUsage()) node.users.erase(user);
}

// One walk to the root: each node receives the change of its child's claim, which may be smaller
// than the change of usage where the kept part of a guarantee absorbs it.
void QueueTree::Change(const Holding& holding, int64_t sign) {
  const size_t resources = dimensions();
  const QueueIndex queue = holding.queue;
  const SharedAmounts& amounts = holding.amounts;
  SharedAmounts claims_before;
  SharedAmounts claim_change;
  for (QueueIndex up = queue; up != kNoQueue; up = at(up).parent) {
    Node& node = at(up);
    if (node.per_user.limits_holdings()) ChangeUser(node, holding, sign);
    for (size_t r = 0; r < resources; ++r) {
      claims_before[r] = Claim(node, r);
      node.usage[r] += sign * amounts[r];
      CHECK(node.usage[r] >= 0) << "usage of queue " << node.name << " below zero";
      if (up == queue) {
        node.own[r] += sign * amounts[r];
      } else {
        node.children_claims[r] += claim_change[r];
      }
      claim_change[r] = Claim(node, r) - claims_before[r];
    }
  }
}

std::optional<QuotaBlock> QueueTree::CheckUser(const Holding& asked) const {
  const size_t resources = dimensions();
  for (QueueIndex up = asked.queue; up != kNoQueue; up = at(up).parent) {
    const Node& node = at(up);
    if (!node.per_user.limits_holdings()) continue;
    const auto found = node.users.find(asked.user);
    const UserUsage usage = found == node.users.end() ? UserUsage() : found->second;
    for (size_t r = 0; r < resources; ++r) {
      const int64_t bound = node.per_user.amounts[r];
      if (asked.amounts[r] == 0 || usage.amounts[r] + asked.amounts[r] <= bound) continue;
      return QuotaBlock{QuotaBlock::Kind::kUser, up, r, usage.amounts[r], asked.amounts[r], bound,
                        std::string(asked.user)};
    }
    const uint32_t most = node.per_user.running;
    if (asked.jobs == 0 || most == spec::kUnlimitedJobs || usage.running + asked.jobs <= most) {
      continue;
    }
    return QuotaBlock{QuotaBlock::Kind::kUserRunning, up, 0, usage.running, asked.jobs, most,
                      std::string(asked.user)};
  }
  return std::nullopt;
}

// Limits first, on the whole path, then users, then lending: the first bound that fails is the one
// that explanations name. Computes the claims as they would be without changing the tree.
std::optional<QuotaBlock> QueueTree::Check(const Holding& asked) const {
  const size_t resources = dimensions();
  const QueueIndex queue = asked.queue;
  const SharedAmounts& amounts = asked.amounts;
  for (QueueIndex up = queue; up != kNoQueue; up = at(up).parent) {
    const Node& node = at(up);
    for (size_t r = 0; r < resources; ++r) {
      if (amounts[r] == 0 || node.usage[r] + amounts[r] <= node.limit[r]) continue;
      return QuotaBlock{QuotaBlock::Kind::kLimit, up, r, node.usage[r], amounts[r], node.limit[r]};
    }
  }
  if (auto block = CheckUser(asked)) return block;
  for (size_t r = 0; r < resources; ++r) {
    if (amounts[r] == 0) continue;
    int64_t change = amounts[r];
    for (QueueIndex up = queue;; up = at(up).parent) {
      const Node& node = at(up);
      const int64_t claim = Claim(node, r);
      const int64_t own = up == queue ? node.own[r] + amounts[r] + node.children_claims[r]
                                      : node.own[r] + node.children_claims[r] + change;
      // Within this node's guarantee nothing is borrowed from above, so the nodes above admit it.
      if (own <= node.guarantee[r]) break;
      if (up == kRootQueue) {
        return QuotaBlock{QuotaBlock::Kind::kLending, kRootQueue, r, claim, amounts[r],
                          node.guarantee[r]};
      }
      change = std::max(own, node.kept[r]) - claim;
    }
  }
  return std::nullopt;
}

bool QueueTree::WithinGuarantee(QueueIndex queue, const SharedAmounts& amounts) const {
  const size_t resources = dimensions();
  if (std::none_of(guaranteed_.begin(), guaranteed_.end(), [](bool any) { return any; })) {
    return false;
  }
  const Node& node = at(queue);
  for (size_t r = 0; r < resources; ++r) {
    if (!guaranteed_[r] || amounts[r] == 0) continue;
    if (node.usage[r] + amounts[r] > node.guarantee[r]) return false;
  }
  return true;
}

bool QueueTree::MayReclaim(QueueIndex claimant, const SharedAmounts& asked, QueueIndex victim,
                           const SharedAmounts& held) const {
  const size_t resources = dimensions();
  if (claimant == kRootQueue || victim == kRootQueue || claimant == victim) return false;
  // The branches below the first queue above both.
  // Both paths are brought to the same depth and then followed upwards together.
  QueueIndex claim_branch = claimant;
  QueueIndex victim_branch = victim;
  while (at(claim_branch).depth > at(victim_branch).depth) claim_branch = at(claim_branch).parent;
  while (at(victim_branch).depth > at(claim_branch).depth) victim_branch = at(victim_branch).parent;
  if (claim_branch == victim_branch) return false;  // one lies above the other
  while (at(claim_branch).parent != at(victim_branch).parent) {
    claim_branch = at(claim_branch).parent;
    victim_branch = at(victim_branch).parent;
  }
  if (!WithinGuarantee(claim_branch, asked)) return false;
  for (QueueIndex up = victim;; up = at(up).parent) {
    const Node& node = at(up);
    for (size_t r = 0; r < resources; ++r) {
      if (!guaranteed_[r] || asked[r] == 0 || held[r] == 0) continue;
      if (node.usage[r] - held[r] < node.guarantee[r]) return false;
    }
    if (up == victim_branch) return true;
  }
}

bool QueueTree::PassesUserLimits(QueueIndex queue, std::string_view user) const {
  const Node& node = at(queue);
  const auto found = node.users.find(user);
  if (found == node.users.end()) return false;
  for (size_t r = 0; r < dimensions(); ++r) {
    if (found->second.amounts[r] > node.per_user.amounts[r]) return true;
  }
  return found->second.running > int64_t{node.per_user.running};
}

int64_t QueueTree::ExcessShare(QueueIndex queue) const {
  const Node& node = at(queue);
  int64_t most = 0;
  for (size_t r = 0; r < dimensions(); ++r) {
    const int64_t total = capacity()[r];
    if (total > 0) most = std::max(most, (node.usage[r] - node.guarantee[r]) * 1000 / total);
  }
  return most;
}

Status QueueTree::CheckInvariants() const {
  for (const Node& node : nodes_) {
    SharedAmounts usage = node.own;
    SharedAmounts claims;
    for (const QueueIndex child : node.children) {
      usage += at(child).usage;
      for (size_t r = 0; r < dimensions(); ++r) claims[r] += Claim(at(child), r);
    }
    for (size_t r = 0; r < dimensions(); ++r) {
      if (usage[r] != node.usage[r] || node.own[r] < 0) {
        return InternalError("queue " + node.name + " uses " + AmountText(r, node.usage[r]) +
                             ", its parts add up to " + AmountText(r, usage[r]));
      }
      if (claims[r] != node.children_claims[r]) {
        return InternalError("queue " + node.name + ": the children's claims don't add up");
      }
    }
  }
  return CheckUsers();
}

// What users hold adds up to what the queue uses.
Status QueueTree::CheckUsers() const {
  for (const Node& node : nodes_) {
    SharedAmounts sum;
    for (const auto& [name, usage] : node.users) {
      sum += usage.amounts;
      if (usage.running < 0 || usage == UserUsage()) {
        return InternalError("queue " + node.name + " counts nothing of user " + name);
      }
    }
    if (!node.per_user.limits_holdings() || sum == node.usage) continue;
    return InternalError("queue " + node.name + ": what its users hold is not what it uses");
  }
  return {};
}

std::string UserText(std::string_view user) {
  return "user '" + (user.empty() ? std::string("unknown") : std::string(user)) + "'";
}

std::string TooMuchForUserText(const QueueTree& queues, const QuotaBlock& block) {
  return "needs " + queues.AmountText(block.resource, block.asked) + ", but queue '" +
         queues.name(block.queue) + "' allows each user " +
         queues.AmountText(block.resource, block.bound);
}

}  // namespace longhaul::scheduler::share
