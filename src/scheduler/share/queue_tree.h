// The tree of queues at work: what each uses, what it may still borrow, what can be taken back.
//
// The root is the whole cluster. Every queue's usage is the sum of its children's and of what was
// started in itself. A node's *claim* on its parent is what it uses, or the part of its guarantee
// that it doesn't lend, whichever is more; an inner node claims the sum of its children's claims at
// least. A request is admitted when no queue above passes its limit and, going up, a node is found
// whose claim stays within its guarantee: what lies above a queue's guarantee is then lent by that
// node. (The cohort trees of Kueue lend in the same sense; the formulation by claims is our own.)
// A guarantee that others have borrowed still admits: making room is the reclaim's business. A
// resource of which nobody is guaranteed anything decides nothing about guarantees.
//
// A queue may also limit what each user holds in it and in the queues below it. Usage is counted by
// user only in queues that declare such limits, and a request is admitted only if no queue above it
// passes the limits of its user.
//
// Amounts have a dimension for each device model that has quotas, beside those of all accelerators;
// the rules are the same for all dimensions.
//
// Leaves out order (fair_order.h) and time (decayed_usage.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "spec/queue/queue.h"

namespace longhaul::scheduler::share {

using spec::SharedAmounts;

// A queue's index: 0 is the root, the others follow in the order of their specs.
using QueueIndex = int32_t;
constexpr QueueIndex kRootQueue = 0;
constexpr QueueIndex kNoQueue = -1;

// What a job holds or requests, and whose usage it counts as. Amounts that a running job requests
// in addition count no job.
struct Holding {
  QueueIndex queue = kRootQueue;
  SharedAmounts amounts;
  std::string_view user{};  // refers to the job's request
  int64_t jobs = 0;         // 1: a whole job
};

// What a user holds in a queue and in the queues below it.
struct UserUsage {
  SharedAmounts amounts;
  int64_t running = 0;  // jobs

  friend bool operator==(const UserUsage&, const UserUsage&) = default;
};

// The first bound that a request fails, for explanations.
struct QuotaBlock {
  enum class Kind : uint8_t {
    kLimit,
    kLending,
    kUser,         // the amount that one user may hold
    kUserRunning,  // the number of jobs that one user may run; `resource` has no meaning
  };

  Kind kind = Kind::kLimit;
  QueueIndex queue = kRootQueue;  // whose bound it is
  size_t resource = 0;
  int64_t used = 0;    // kLending: claimed of it
  int64_t asked = 0;   // by the request
  int64_t bound = 0;   // limit, or what the node may hand out
  std::string user{};  // kUser, kUserRunning

  bool of_user() const { return kind == Kind::kUser || kind == Kind::kUserRunning; }
  friend bool operator==(const QuotaBlock&, const QuotaBlock&) = default;
};

class QueueTree {
 public:
  // Checks as spec::CheckQueues does, and that the top guarantees fit into `capacity` together,
  // which has the dimensions of spec::QuotaModels.
  static Result<QueueTree> Create(const std::vector<spec::QueueSpec>& queues,
                                  const SharedAmounts& capacity);

  size_t size() const { return nodes_.size(); }
  // The device models that have quotas, in the order of their dimensions.
  const std::vector<std::string>& models() const { return models_; }
  // The number of dimensions that amounts have here.
  size_t dimensions() const { return spec::kSharedResources + models_.size(); }
  // One amount for messages.
  std::string AmountText(size_t resource, int64_t amount) const {
    return spec::AmountText(resource, amount, models_);
  }
  const SharedAmounts& capacity() const { return nodes_[0].guarantee; }
  // What the cluster has now; guarantees stay promised when it falls below them.
  void SetCapacity(const SharedAmounts& capacity);

  QueueIndex Find(std::string_view name) const;  // kNoQueue when there is none
  const std::string& name(QueueIndex queue) const { return at(queue).name; }
  QueueIndex parent(QueueIndex queue) const { return at(queue).parent; }
  const std::vector<QueueIndex>& children(QueueIndex queue) const { return at(queue).children; }
  const SharedAmounts& guarantee(QueueIndex queue) const { return at(queue).guarantee; }
  const SharedAmounts& limit(QueueIndex queue) const { return at(queue).limit; }
  const SharedAmounts& usage(QueueIndex queue) const { return at(queue).usage; }
  uint32_t weight(QueueIndex queue) const { return at(queue).weight; }
  spec::QueueOrder order(QueueIndex queue) const { return at(queue).order; }
  bool reclaims(QueueIndex queue) const { return at(queue).reclaim; }

  // For what-if questions: the same tree with another limit.
  void SetLimit(QueueIndex queue, const SharedAmounts& limit) { at(queue).limit = limit; }

  const spec::UserLimits& per_user(QueueIndex queue) const { return at(queue).per_user; }
  // By user, without those that hold nothing; empty where the queue declares no limits of users.
  const std::map<std::string, UserUsage, std::less<>>& users(QueueIndex queue) const {
    return at(queue).users;
  }
  // Whether this queue or one above limits what each user holds.
  bool LimitsUsers(QueueIndex queue) const;
  // The least max_run_time of the queue and those above it; absent: none.
  std::optional<Duration> max_run_time(QueueIndex queue) const { return at(queue).max_run_time; }

  // Changes usage along the path to the root. Remove requires that no usage falls below zero.
  void Add(const Holding& holding) { Change(holding, 1); }
  void Remove(const Holding& holding) { Change(holding, -1); }

  // Absent: the request may start as far as quotas go.
  std::optional<QuotaBlock> Check(const Holding& asked) const;
  // The same for the limits of users alone.
  std::optional<QuotaBlock> CheckUser(const Holding& asked) const;

  // Whether `queue` stays within its guarantee with `amounts` more, in what is asked for.
  bool WithinGuarantee(QueueIndex queue, const SharedAmounts& amounts) const;

  // Whether a request of `claimant` may take `held` back from `victim`: at the first queue above
  // both, the claimant's branch stays within its guarantee, and no queue from the victim up to
  // there falls below its own, in what is asked for.
  bool MayReclaim(QueueIndex claimant, const SharedAmounts& asked, QueueIndex victim,
                  const SharedAmounts& held) const;

  // Whether the user holds more in the queue and those below it than the queue allows each user.
  bool PassesUserLimits(QueueIndex queue, std::string_view user) const;

  // What a queue uses beyond its guarantee, in thousandths of the cluster, of the resource where
  // that is the most: the order in which queues give back.
  int64_t ExcessShare(QueueIndex queue) const;

  // The first thing that doesn't hold: usage = sum of the children's and its own, nothing negative.
  Status CheckInvariants() const;

 private:
  struct Node {
    std::string name;
    QueueIndex parent = kNoQueue;
    std::vector<QueueIndex> children;
    int depth = 0;
    SharedAmounts guarantee;
    SharedAmounts limit;
    SharedAmounts kept;  // of the guarantee, never lent
    uint32_t weight = 1;
    spec::QueueOrder order = spec::QueueOrder::kPriority;
    bool reclaim = true;
    SharedAmounts usage;
    SharedAmounts own;              // started in this queue itself
    SharedAmounts children_claims;  // sum
    spec::UserLimits per_user;
    std::map<std::string, UserUsage, std::less<>> users;  // if per_user limits what they hold
    std::optional<Duration> max_run_time;                 // the least of this and those above
  };

  QueueTree() = default;
  Node& at(QueueIndex queue) { return nodes_[static_cast<size_t>(queue)]; }
  const Node& at(QueueIndex queue) const { return nodes_[static_cast<size_t>(queue)]; }
  Status CheckTopGuarantees(const SharedAmounts& capacity) const;
  static int64_t Claim(const Node& node, size_t resource);
  void Change(const Holding& holding, int64_t sign);
  Status CheckUsers() const;
  static void ChangeUser(Node& node, const Holding& holding, int64_t sign);

  std::vector<Node> nodes_;
  std::vector<std::string> models_;
  std::array<bool, spec::kQuotaDimensions> guaranteed_{};  // to anybody
  std::unordered_map<std::string, QueueIndex> index_;
};

// The user's name for messages; jobs that name none count as one user.
std::string UserText(std::string_view user);

// "needs 8 accelerators, but queue 'lab' allows each user 4 accelerators". Requires that the block
// is of a user.
std::string TooMuchForUserText(const QueueTree& queues, const QuotaBlock& block);

}  // namespace longhaul::scheduler::share
