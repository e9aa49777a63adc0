// The queues of a controller's configuration: the quotas of a cluster's users.
//
//   queues:
//     - name: research
//       guarantee: {accelerators: 64, cpu: 512, memory: 4TiB}
//     - name: language
//       parent: research           # absent: below the root, which is the whole cluster
//       guarantee: {accelerators: 32, devices: {h100: 16}}
//       limit: {accelerators: 96}  # absent: only the limits of the queues above
//       lend: {accelerators: 16}   # the unused guarantee that others may use; absent: all
//       weight: 2                  # share of the resources that no guarantee covers
//       order: priority            # or first-come
//       reclaim: true              # whether the queue takes back what others borrowed
//       users: [alice, bob]        # who may submit here and below; absent: everybody
//
//       # For each user, in this queue and those below:
//       per_user: {jobs: 100, running: 10, accelerators: 16}
//
//       max_run_time: 24h          # a job here or below is ended when it has run for longer
//
// Amounts are whole numbers in small units, so that sums of quotas are exact. `devices` divides
// accelerators by device model. A guarantee of a model is part of the guaranteed accelerators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::spec {

// The shared resources: accelerators and cores in thousandths, memory in MiB.
enum class SharedResource : uint8_t { kAccelerators, kCpu, kMemory };
constexpr size_t kSharedResources = 3;
constexpr std::array<std::string_view, kSharedResources> kSharedResourceNames = {"accelerators",
                                                                                 "cpu", "memory"};

// Device models for which the queues of one cluster may have quotas.
constexpr size_t kMaxQuotaModels = 5;
constexpr size_t kQuotaDimensions = kSharedResources + kMaxQuotaModels;

// A vector over the shared resources, and over the accelerators of each device model that has
// quotas, in the order of QuotaModels. No amount exceeds kUnlimited, and sums of 2^20 amounts fit.
struct SharedAmounts {
  std::array<int64_t, kQuotaDimensions> of{};

  int64_t& operator[](size_t resource) { return of[resource]; }
  int64_t operator[](size_t resource) const { return of[resource]; }
  SharedAmounts& operator+=(const SharedAmounts& other) {
    for (size_t r = 0; r < kQuotaDimensions; ++r) of[r] += other.of[r];
    return *this;
  }
  SharedAmounts& operator-=(const SharedAmounts& other) {
    for (size_t r = 0; r < kQuotaDimensions; ++r) of[r] -= other.of[r];
    return *this;
  }
  friend SharedAmounts operator+(SharedAmounts a, const SharedAmounts& b) { return a += b; }
  friend SharedAmounts operator-(SharedAmounts a, const SharedAmounts& b) { return a -= b; }
  friend bool operator==(const SharedAmounts&, const SharedAmounts&) = default;
};

constexpr int64_t kUnlimited = int64_t{1} << 42;  // 4 billion accelerators
constexpr SharedAmounts kUnlimitedAmounts = {{kUnlimited, kUnlimited, kUnlimited, kUnlimited,
                                              kUnlimited, kUnlimited, kUnlimited, kUnlimited}};

// "12.5 accelerators", "3 cpu", "512 MiB of memory", "8 accelerators of model h100": one amount for
// messages. `models` names the models of the dimensions from kSharedResources on.
std::string AmountText(size_t resource, int64_t amount,
                       const std::vector<std::string>& models = {});

constexpr uint32_t kUnlimitedJobs = std::numeric_limits<uint32_t>::max();

// What each single user may have in a queue and in the queues below it.
struct UserLimits {
  uint32_t jobs = kUnlimitedJobs;     // waiting and running ones
  uint32_t running = kUnlimitedJobs;  // that have nodes at a time
  SharedAmounts amounts = kUnlimitedAmounts;

  // Whether the scheduler has to count what each user holds.
  bool limits_holdings() const {
    return running != kUnlimitedJobs || !(amounts == kUnlimitedAmounts);
  }
  friend bool operator==(const UserLimits&, const UserLimits&) = default;
};

// A queue's quotas of one device model, in thousandths of accelerators.
struct ModelQuota {
  std::string model;
  int64_t guarantee = 0;
  int64_t limit = kUnlimited;
  int64_t lend = kUnlimited;
  int64_t per_user = kUnlimited;

  friend bool operator==(const ModelQuota&, const ModelQuota&) = default;
};

enum class QueueOrder : uint8_t { kPriority, kFirstCome };

struct QueueSpec {
  std::string name;
  std::string parent;  // empty: below the root
  SharedAmounts guarantee;
  SharedAmounts limit = kUnlimitedAmounts;
  SharedAmounts lend = kUnlimitedAmounts;
  uint32_t weight = 1;
  QueueOrder order = QueueOrder::kPriority;
  bool reclaim = true;
  std::vector<std::string> users;  // who may submit, in the file's order; empty: everybody
  UserLimits per_user;
  std::vector<ModelQuota> models;  // by name; beside the amounts above, which are of all models
  Duration max_run_time{};         // 0: none

  friend bool operator==(const QueueSpec&, const QueueSpec&) = default;
};

constexpr size_t kMaxQueues = 10'000;
constexpr int kMaxQueueDepth = 8;
constexpr size_t kMaxQueueUsers = 1'000;  // named by one queue

// The device models that any of the queues has quotas for, by name.
std::vector<std::string> QuotaModels(const std::vector<QueueSpec>& queues);

// The queue with its quotas of these `models` in the amounts' dimensions; kMaxQuotaModels at most.
QueueSpec WithModelDimensions(const QueueSpec& queue, const std::vector<std::string>& models);

// Rejects queues that no cluster can satisfy: a parent that does not exist, a cycle of parents, two
// of one name, a tree deeper than kMaxQueueDepth, a guarantee above its own limit or that of a
// queue above, guarantees whose sum exceeds their parent's, guarantees of models above that of
// accelerators, quotas for more than kMaxQuotaModels models, users that a queue above does not
// admit. The message names the queue and the numbers.
Status CheckQueues(const std::vector<QueueSpec>& queues);

// The queue named `name` and those above it, the nearest first; empty when there is none. Requires
// that CheckQueues accepts the queues. The pointers are into `queues`.
std::vector<const QueueSpec*> PathOf(const std::vector<QueueSpec>& queues, std::string_view name);

// Reads and checks the list under `queues`. `source` names the text in messages.
Result<std::vector<QueueSpec>> ParseQueues(std::string_view text, std::string_view source);

// The same queues as YAML, which ParseQueues reads back to equal ones.
std::string ToYaml(const std::vector<QueueSpec>& queues);

}  // namespace longhaul::spec
