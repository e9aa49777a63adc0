#include "service/notify/notifier.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "io/clock.h"

namespace longhaul::service {
namespace {

std::set<spec::HookEvent> EventsOf(const std::vector<spec::HookSpec>& hooks) {
  std::set<spec::HookEvent> events;
  for (const spec::HookSpec& hook : hooks) events.insert(hook.events.begin(), hook.events.end());
  return events;
}

}  // namespace

Notifier::Notifier(const std::vector<spec::HookSpec>& hooks, NotifierOptions options)
    : options_(std::move(options)), messages_(options_.run_directory, EventsOf(hooks)) {
  for (const spec::HookSpec& hook : hooks) {
    workers_.push_back(std::make_unique<Worker>(hook, options_.queue_limit));
    workers_.back()->result.name = NameOf(hook);
  }
  for (const auto& worker : workers_) {
    worker->thread = std::thread([this, &each = *worker] { Deliver(each); });
  }
}

Notifier::~Notifier() { (void)Finish(Duration::zero()); }

void Notifier::Take(const proto::Notification& notification) {
  {
    const std::lock_guard lock(mutex_);
    if (finishing_) return;
    for (const HookMessage& message : messages_.Take(notification)) {
      for (const auto& worker : workers_) {
        const auto& events = worker->hook.events;
        if (std::find(events.begin(), events.end(), message.event) != events.end()) {
          worker->queue.Push(message);
        }
      }
    }
  }
  changed_.notify_all();
}

std::vector<HookResult> Notifier::Finish(Duration limit) {
  {
    const std::lock_guard lock(mutex_);
    if (!finishing_) deadline_.MoveTo(io::MonotonicNow() + limit);
    finishing_ = true;
  }
  changed_.notify_all();
  std::vector<HookResult> results;
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
    worker->queue.Abandon();
    worker->result.dropped = worker->queue.dropped();
    results.push_back(worker->result);
  }
  return results;
}

void Notifier::Deliver(Worker& worker) {
  while (true) {
    std::optional<HookMessage> message;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return finishing_ || !worker.queue.empty(); });
      if (finishing_ && io::MonotonicNow() >= deadline_.at()) return;
      message = worker.queue.Pop();
      if (!message.has_value()) return;  // finishing, and all is sent
    }
    const HookOutcome outcome = Send(worker, *message);
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      if (outcome.status.ok()) {
        ++worker.result.delivered;
        continue;
      }
      is_first = worker.result.failed++ == 0;
      worker.result.last_error = outcome.status.message();
    }
    if (is_first && options_.on_first_failure) {
      options_.on_first_failure("the hook '" + worker.result.name +
                                "' failed: " + outcome.status.message() +
                                "; nothing waits for it, and further failures are only counted");
    }
  }
}

HookOutcome Notifier::Send(const Worker& worker, const HookMessage& message) {
  if (!worker.hook.command.empty()) {
    return RunHookCommand(worker.hook, message, options_.run_directory, deadline_, processes_);
  }
  HookOutcome outcome = PostToWebhook(worker.hook, message, deadline_);
  for (const Duration pause : {options_.retry_pause, 2 * options_.retry_pause}) {
    if (outcome.status.ok() || !outcome.worth_a_retry || !Pause(pause)) break;
    outcome = PostToWebhook(worker.hook, message, deadline_);
  }
  return outcome;
}

bool Notifier::Pause(Duration length) {
  const Instant until = io::MonotonicNow() + length;
  std::unique_lock lock(mutex_);
  while (true) {
    const Instant now = io::MonotonicNow();
    if (now >= deadline_.at()) return false;
    if (now >= until) return true;
    changed_.wait_for(lock, std::min(until, deadline_.at()) - now);
  }
}

}  // namespace longhaul::service
