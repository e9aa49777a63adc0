#include "runtime/scheduling/queue_report.h"

#include <algorithm>
#include <cstdint>

namespace longhaul::runtime::scheduling {

namespace {

// The limits of users and of run times, and what each user holds.
void DescribeUsers(const scheduler::QueueView& view, const spec::QueueSpec& declared,
                   const std::vector<std::string>& models, proto::QueueStatus& queue) {
  queue.mutable_users()->Add(declared.users.begin(), declared.users.end());
  queue.set_max_run_ns(declared.max_run_time.count());
  const spec::UserLimits per_user = spec::WithModelDimensions(declared, models).per_user;
  if (per_user == spec::UserLimits()) return;
  const auto count = [](uint32_t jobs) {
    return jobs == spec::kUnlimitedJobs ? int64_t{-1} : int64_t{jobs};
  };
  proto::UserLimits& limits = *queue.mutable_per_user();
  limits.set_jobs(count(per_user.jobs));
  limits.set_running(count(per_user.running));
  *limits.mutable_amounts() = AmountsOf(per_user.amounts, models);
  for (const scheduler::UserView& user : view.users) {
    proto::UserHolding& held = *queue.add_held();
    held.set_user(user.user);
    held.set_running(user.running);
    *held.mutable_amounts() = AmountsOf(user.amounts, models);
  }
}

}  // namespace

proto::Amounts AmountsOf(const spec::SharedAmounts& amounts,
                         const std::vector<std::string>& models) {
  const auto in = [](int64_t amount, double unit) {
    return amount >= spec::kUnlimited ? -1.0 : static_cast<double>(amount) / unit;
  };
  proto::Amounts all;
  all.set_accelerators(in(amounts[0], 1000));
  all.set_cpu(in(amounts[1], 1000));
  all.set_memory_gib(in(amounts[2], 1024));
  for (size_t i = 0; i < models.size(); ++i) {
    proto::DeviceAmount& of_model = *all.add_devices();
    of_model.set_model(models[i]);
    of_model.set_accelerators(in(amounts[spec::kSharedResources + i], 1000));
  }
  return all;
}

proto::QueueStatus DescribeQueue(const scheduler::QueueView& view,
                                 const QueueReportContext& context,
                                 const spec::QueueSpec* declared) {
  const spec::SharedAmounts& whole = context.whole;
  const std::vector<std::string>& models = context.models;
  proto::QueueStatus queue;
  queue.set_name(view.name);
  queue.set_parent(view.parent);
  *queue.mutable_guarantee() = AmountsOf(view.guarantee, models);
  *queue.mutable_limit() = AmountsOf(view.limit, models);
  *queue.mutable_usage() = AmountsOf(view.usage, models);
  spec::SharedAmounts borrowed;
  double share = 0;
  for (size_t r = 0; r < spec::kSharedResources + models.size(); ++r) {
    borrowed[r] = std::max<int64_t>(0, view.usage[r] - view.guarantee[r]);
    if (whole[r] <= 0) continue;
    share = std::max(share, static_cast<double>(view.usage[r]) / static_cast<double>(whole[r]));
  }
  *queue.mutable_borrowed() = AmountsOf(borrowed, models);
  queue.set_share(share);
  queue.set_running(view.running);
  queue.set_waiting(view.waiting);
  if (declared != nullptr) DescribeUsers(view, *declared, models, queue);
  return queue;
}

}  // namespace longhaul::runtime::scheduling
