// The live jobs of users in queues that limit what each user has (per_user).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class UserJobs {
 public:
  explicit UserJobs(const ControllerContext& context) : context_(context) {}

  // Returns kResourceExhausted if one of their users would have more live jobs than a queue allows
  // once all of these are submitted. An array counts as many jobs as it has elements.
  Status Check(const std::vector<const proto::Job*>& submitted) const;
  // Adds the number of live jobs of each user to the queues that limit users.
  void AddTo(std::vector<proto::QueueStatus>& queues) const;

 private:
  using QueueAndUser = std::pair<std::string, std::string>;

  // The live jobs of each user, by queue, in queues that limit users, and in those below them.
  std::map<QueueAndUser, uint64_t> Count() const;

  const ControllerContext& context_;
};

}  // namespace longhaul::runtime::controller
