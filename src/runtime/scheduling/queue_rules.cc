#include "runtime/scheduling/queue_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"
#include "base/time.h"

namespace longhaul::runtime::scheduling {

namespace {

// In units that are `unit` times smaller; -1 is no bound.
int64_t WholeAmount(double amount, double unit) {
  return amount < 0 ? spec::kUnlimited : static_cast<int64_t>(std::llround(amount * unit));
}

bool IsLimit(double amount) {
  // Written so that a NaN is refused too.
  return amount == -1.0 || (amount >= 0 && amount <= 1e9);
}

}  // namespace

// A limit below the guarantee would promise what it forbids.
Status CheckNewLimit(const spec::ControllerSpec& configuration, const std::string& name,
                     const proto::Amounts& limit) {
  const auto queue = std::find_if(configuration.queues.begin(), configuration.queues.end(),
                                  [&](const auto& each) { return each.name == name; });
  if (queue == configuration.queues.end()) {
    return NotFound("there is no queue '" + Printable(name, 63) +
                    "' with a limit (longhaul queues shows those there are)");
  }
  const std::vector<std::string> models = spec::QuotaModels(configuration.queues);
  bool sound = IsLimit(limit.accelerators()) && IsLimit(limit.cpu()) && IsLimit(limit.memory_gib());
  for (const proto::DeviceAmount& device : limit.devices()) {
    sound = sound && IsLimit(device.accelerators());
    if (std::find(models.begin(), models.end(), device.model()) != models.end()) continue;
    return NotFound("no queue has a quota of device model '" + Printable(device.model(), 63) +
                    "': give one 'devices: {" + Printable(device.model(), 63) +
                    ": N}' in the controller's file first");
  }
  if (!sound) {
    return InvalidArgument("a limit is an amount of up to 1,000,000,000, or -1 for none");
  }
  spec::QueueSpec limited = *queue;
  ApplyLimit(limit, limited);
  limited = spec::WithModelDimensions(limited, models);
  for (size_t r = 0; r < spec::kSharedResources + models.size(); ++r) {
    if (limited.limit[r] >= limited.guarantee[r]) continue;
    return FailedPrecondition(
        "queue '" + name + "' is guaranteed " + spec::AmountText(r, limited.guarantee[r], models) +
        "; its limit cannot be " + spec::AmountText(r, limited.limit[r], models));
  }
  return {};
}

void ApplyLimit(const proto::Amounts& limit, spec::QueueSpec& queue) {
  queue.limit[0] = WholeAmount(limit.accelerators(), 1000);
  queue.limit[1] = WholeAmount(limit.cpu(), 1000);
  queue.limit[2] = WholeAmount(limit.memory_gib(), 1024);
  for (const proto::DeviceAmount& device : limit.devices()) {
    auto at = std::lower_bound(
        queue.models.begin(), queue.models.end(), device.model(),
        [](const spec::ModelQuota& each, const std::string& name) { return each.model < name; });
    if (at == queue.models.end() || at->model != device.model()) {
      at = queue.models.insert(at, spec::ModelQuota());
      at->model = device.model();
    }
    at->limit = WholeAmount(device.accelerators(), 1000);
  }
}

std::vector<const spec::QueueSpec*> QueuesOf(const spec::ControllerSpec& configuration,
                                             const proto::Job& job) {
  const std::string& name = job.scheduling().queue();
  return spec::PathOf(configuration.queues, name.empty() ? configuration.default_queue : name);
}

// The strictest limit on the path to the root applies.
const spec::QueueSpec* RunTimeQueueOf(const spec::ControllerSpec& configuration,
                                      const proto::Job& job) {
  const spec::QueueSpec* least = nullptr;
  for (const spec::QueueSpec* queue : QueuesOf(configuration, job)) {
    if (queue->max_run_time <= Duration(0)) continue;
    if (least == nullptr || queue->max_run_time < least->max_run_time) least = queue;
  }
  return least;
}

// Each queue on the path to the root may restrict who submits.
Status CheckRights(const spec::ControllerSpec& configuration, const proto::Job& job) {
  const std::string& user = job.scheduling().owner();
  for (const spec::QueueSpec* queue : QueuesOf(configuration, job)) {
    const std::vector<std::string>& users = queue->users;
    if (users.empty() || std::find(users.begin(), users.end(), user) != users.end()) continue;
    return PermissionDenied(
        (user.empty() ? std::string("a submission that names no user")
                      : "user '" + Printable(user, 64) + "'") +
        " may not submit to queue '" + queue->name +
        "': use another queue (longhaul queues), or add the user to the queue's 'users' in the "
        "controller's file");
  }
  const spec::QueueSpec* queue = RunTimeQueueOf(configuration, job);
  if (queue == nullptr || Duration(job.scheduling().expected_ns()) <= queue->max_run_time) {
    return {};
  }
  return FailedPrecondition("its expected duration is " +
                            ToString(Duration(job.scheduling().expected_ns())) + ", but queue '" +
                            queue->name + "' ends jobs that have run for " +
                            ToString(queue->max_run_time) +
                            ": use another queue, or resume from the last checkpoint later");
}

// Compares the smallest size of the job: an elastic job may run below its largest one.
Status CheckLimits(const std::vector<spec::QueueSpec>& queues,
                   const scheduler::JobRequest& request) {
  const spec::SharedAmounts amounts = scheduler::MinimumAmounts(request);
  std::string name = request.queue;
  for (size_t depth = 0; !name.empty() && depth <= spec::kMaxQueueDepth; ++depth) {
    const auto queue = std::find_if(queues.begin(), queues.end(),
                                    [&](const auto& each) { return each.name == name; });
    if (queue == queues.end()) return {};
    for (size_t r = 0; r < spec::kSharedResources; ++r) {
      if (amounts[r] <= queue->limit[r]) continue;
      return FailedPrecondition("it needs " + spec::AmountText(r, amounts[r]) + ", but queue '" +
                                name + "' is limited to " + spec::AmountText(r, queue->limit[r]));
    }
    for (size_t r = 0; r < spec::kSharedResources; ++r) {
      const int64_t most = queue->per_user.amounts[r];
      if (amounts[r] <= most) continue;
      return FailedPrecondition("it needs " + spec::AmountText(r, amounts[r]) + ", but queue '" +
                                name + "' allows each user " + spec::AmountText(r, most));
    }
    name = queue->parent;
  }
  return {};
}

}  // namespace longhaul::runtime::scheduling
