#include "service/controller/core_loop.h"

#include <algorithm>
#include <future>

#include "io/clock.h"
#include "io/files/file.h"
#include "io/log/log.h"
#include "service/controller/rest/redaction.h"

namespace longhaul::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLogRetry = seconds(1);
// A deadline is a time of day, which may be set back: look again after so long.
constexpr Duration kLongestWait = milliseconds(250);
// How long a write of the log may take before the log is reported to hang.
constexpr auto kLogLimit = seconds(10);

}  // namespace

// A deadline that a tick does not move would make the loop spin and fill the log with ticks, so it
// counts as a violation.
Status CheckTickWorked(std::optional<Instant> before, std::optional<Instant> after, Instant now) {
  if (!before.has_value() || before != after || *after > now) return Status();
  return InternalError("the deadline " + std::to_string(ToNanoseconds(*after)) +
                       " stays due after a tick at " + std::to_string(ToNanoseconds(now)));
}

CoreLoop::CoreLoop(const CoreLoopOptions& options, EventLog& log, NotificationFeed& feed)
    : options_(options), log_(log), feed_(feed), core_(options.core) {}

CoreLoop::~CoreLoop() { Stop(); }

Result<std::unique_ptr<CoreLoop>> CoreLoop::Create(const CoreLoopOptions& options, EventLog& log,
                                                   NotificationFeed& feed) {
  std::unique_ptr<CoreLoop> loop(new CoreLoop(options, log, feed));
  RETURN_IF_ERROR(loop->Replay());
  return loop;
}

Status CoreLoop::Replay() {
  RETURN_IF_ERROR(CatchUp());
  // Checked once at the end and not after each event, because each event was checked before it was
  // logged.
  const Status invariants = core_.CheckInvariants();
  return invariants.ok() ? Status() : invariants.WithContext("the replayed state is wrong");
}

Status CoreLoop::CatchUp() {
  const uint64_t all = log_.last_sequence();
  Instant last_report = io::MonotonicNow();
  // The commands and notifications of replayed events are dropped: they were sent, or the agents
  // receive the equivalent when they join again.
  const auto take = [&](uint64_t sequence, Instant now, const proto::Event& event) {
    core_.Step(event, now);
    logged_events_ = sequence;
    if (io::MonotonicNow() - last_report > seconds(1)) {
      last_report = io::MonotonicNow();
      io::LogInfo("controller", "replaying the event log: " + std::to_string(sequence) + " of " +
                                    std::to_string(std::max(all, sequence)) + " events");
    }
    return Status();
  };
  RETURN_IF_ERROR(log_.ReplayAfter(logged_events_, take));
  now_ = log_.last_instant();
  return Status();
}

// The first event of this life. It carries the configuration, so that the log contains everything
// on which the state depends.
void CoreLoop::Start(AgentPort& port) {
  port_ = &port;
  Item started;
  *started.event.mutable_controller_started()->mutable_scheduling() = options_.scheduling;
  started.event.set_at_ns(ToNanoseconds(io::Now()));
  Enqueue(std::move(started));
  thread_ = std::thread([this] { Run(); });
}

// Answers are called without the lock, because they run the code of callers.
void CoreLoop::Stop() {
  std::deque<Item> dropped;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(queue_);
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (Item& item : dropped) {
    if (item.done) item.done(Unavailable("the controller is stopping"));
  }
}

bool CoreLoop::Enqueue(Item item) {
  {
    std::lock_guard lock(mutex_);
    // What the controller itself has seen (a lost connection) can't be sent again by anybody.
    const bool may_be_refused = item.event.sequence() > 0 || item.done;
    if (stopped_ || (may_be_refused && queue_.size() >= kLongestQueue)) return false;
    queue_.push_back(std::move(item));
  }
  wake_.notify_one();
  return true;
}

bool CoreLoop::Push(proto::Event event, std::function<void()> taken) {
  Item item;
  item.event = std::move(event);
  item.taken = std::move(taken);
  return Enqueue(std::move(item));
}

bool CoreLoop::Post(std::function<void(const runtime::Controller&)> look) {
  Item item;
  item.look = std::move(look);
  return Enqueue(std::move(item));
}

Status CoreLoop::Apply(proto::Event event, Condition condition) {
  const Status health = Health();
  if (!health.ok()) return Unavailable("the controller accepts no change now: " + health.message());
  // Shared with the loop: the answer may come after we have given up waiting.
  auto answer = std::make_shared<std::promise<Status>>();
  std::future<Status> future = answer->get_future();
  Item item;
  item.event = std::move(event);
  item.condition = std::move(condition);
  item.event.set_at_ns(ToNanoseconds(io::Now()));
  item.done = [answer](const Status& status) { answer->set_value(status); };
  if (!Enqueue(std::move(item))) return Unavailable("the controller is overloaded or stopping");
  if (future.wait_for(kLogLimit) != std::future_status::ready) {
    return Unavailable(
        "the event log is slow; the request may still be accepted: check the list of jobs");
  }
  return future.get();
}

Status CoreLoop::Health() const {
  std::lock_guard lock(mutex_);
  return health_;
}

uint64_t CoreLoop::logged_events() const {
  std::lock_guard lock(mutex_);
  return logged_events_;
}

void CoreLoop::Run() {
  while (true) {
    bool tick_due = false;
    std::deque<Item> items = TakeBatch(tick_due);
    if (items.empty() && !tick_due) return;
    Process(std::move(items), tick_due);
  }
}

// Waits for something to do. Nothing and no tick: stopped. A look comes alone, so that it sees a
// core whose every event is logged.
std::deque<CoreLoop::Item> CoreLoop::TakeBatch(bool& tick_due) {
  std::unique_lock lock(mutex_);
  // Only this thread changes the core, so it reads the core without core_mutex_.
  const std::optional<Instant> deadline = core_.NextDeadline();
  while (!stopped_ && queue_.empty()) {
    Duration wait = kLongestWait;
    if (deadline.has_value()) {
      const Duration left = *deadline - std::max(now_, io::Now());
      if (left <= Duration(0)) break;
      wait = std::min(wait, left);
    }
    wake_.wait_for(lock, wait);
  }
  std::deque<Item> items;
  if (stopped_) return items;
  tick_due = deadline.has_value() && *deadline <= std::max(now_, io::Now());
  while (!queue_.empty() && items.size() < kLargestBatch) {
    const bool is_look = queue_.front().look != nullptr;
    if (is_look && !items.empty()) break;
    items.push_back(std::move(queue_.front()));
    queue_.pop_front();
    if (is_look) break;
  }
  if (items.empty()) tick_due = true;
  return items;
}

void CoreLoop::Process(std::deque<Item> items, bool tick_due) {
  // The batch is the look alone, and everything before it is in the log. The caller therefore never
  // reports a state that a crash could undo.
  if (!items.empty() && items.front().look) {
    items.front().look(core_);
    if (!tick_due) return;
    items.clear();
  }
  Outcome outcome;
  {
    std::lock_guard lock(core_mutex_);
    for (Item& item : items) {
      StepOne(item, outcome);
      if (!outcome.violation.ok()) break;
    }
    if (tick_due && outcome.violation.ok()) Tick(outcome);
  }
  // Nothing of the batch is released before it is in the log: a command that an agent has carried
  // out, or an answer that a user has read, must not be forgotten by a restart.
  if (!outcome.violation.ok()) ReportViolation(outcome);
  const uint64_t first_sequence = log_.last_sequence() + 1;
  if (!outcome.violation.ok() || !Write(outcome)) {
    for (const auto& answer : outcome.answers) answer(Unavailable("the controller has stopped"));
    return;
  }
  Release(outcome, first_sequence);
  if (outcome.kill_controller && options_.kill_controller) options_.kill_controller();
}

// What the core refuses is not logged.
Status CoreLoop::RefusalOf(const Item& item) const {
  const proto::Event& event = item.event;
  if (item.condition) RETURN_IF_ERROR(item.condition(core_));
  if (event.has_job_submitted()) return core_.CheckSubmission(event.job_submitted().job());
  if (event.has_jobs_submitted()) return core_.CheckSubmission(event.jobs_submitted());
  if (event.has_changes_asked()) return core_.CheckChanges(event.changes_asked());
  return {};
}

void CoreLoop::StepOne(Item& item, Outcome& outcome) {
  proto::Event& event = item.event;
  const NodeId node(event.node());
  // What an agent sent again is acknowledged again, but not logged again.
  const bool repeated = event.sequence() > 0 &&
                        event.sequence() <= core_.AcknowledgedSequence(node, event.incarnation());
  const Status refused = RefusalOf(item);
  if (refused.ok() && !repeated) Record(event, outcome);
  if (event.sequence() > 0) {
    outcome.acknowledged[node] = {event.incarnation(),
                                  core_.AcknowledgedSequence(node, event.incarnation())};
  }
  if (item.taken) {
    outcome.answers.push_back([taken = std::move(item.taken)](const Status&) { taken(); });
  }
  if (item.done) {
    outcome.answers.push_back([done = std::move(item.done), refused](const Status& written) {
      done(written.ok() ? refused : written);
    });
  }
}

void CoreLoop::Tick(Outcome& outcome) {
  const std::optional<Instant> due = core_.NextDeadline();
  proto::Event tick;
  tick.mutable_tick();
  tick.set_at_ns(ToNanoseconds(io::Now()));
  Record(tick, outcome);
  if (outcome.violation.ok()) outcome.violation = CheckTickWorked(due, core_.NextDeadline(), now_);
}

void CoreLoop::Record(const proto::Event& event, Outcome& outcome) {
  // The log's instants never go back, whatever the clock does. A replay steps the core with the
  // logged instant, so it takes the same decisions.
  now_ = std::max(now_, io::Now());
  runtime::Actions actions = core_.Step(event, now_);
  outcome.violation = core_.CheckInvariants();
  outcome.entries.push_back({now_, event, std::move(actions.notifications)});
  std::move(actions.commands.begin(), actions.commands.end(), std::back_inserter(outcome.commands));
  std::move(actions.checks.begin(), actions.checks.end(), std::back_inserter(outcome.checks));
  outcome.kill_controller = outcome.kill_controller || actions.kill_controller;
}

// The core has taken the events already, so giving up would leave the state ahead of the log. The
// write is repeated until it succeeds or the loop stops; meanwhile Health() reports the reason and
// Apply refuses new requests.
bool CoreLoop::Write(const Outcome& outcome) {
  while (true) {
    const Status status = log_.Append(outcome.entries);
    std::unique_lock lock(mutex_);
    const bool changed = status.ok() != health_.ok();
    health_ = status;
    if (changed && status.ok()) io::LogInfo("controller", "the event log can be written again");
    if (status.ok()) {
      logged_events_ += outcome.entries.size();
      return true;
    }
    if (changed) {
      io::LogError("controller",
                   status.message() + "; nothing is decided or accepted until it can be written");
    }
    if (status.code() == Code::kAborted) {
      stopped_ = true;
      lock.unlock();
      if (options_.on_lost) options_.on_lost(status);
      return false;
    }
    if (wake_.wait_for(lock, kLogRetry, [this] { return stopped_; })) return false;
  }
}

// Commands before acknowledgements before answers: an agent that receives the acknowledgement of an
// event has the commands that follow from it on the same stream already.
void CoreLoop::Release(Outcome& outcome, uint64_t first_sequence) {
  for (const auto& [node, command] : outcome.commands) port_->Deliver(node, command);
  if (options_.check_nodes) {
    for (const runtime::NodeCheckOrder& order : outcome.checks) options_.check_nodes(order);
  }
  for (const auto& [node, life] : outcome.acknowledged) {
    port_->Acknowledge(node, life.first, life.second);
  }
  std::vector<LoggedNotification> notifications;
  for (size_t i = 0; i < outcome.entries.size(); ++i) {
    auto& written = outcome.entries[i].notifications;
    const size_t kept = std::min<size_t>(written.size(), kNotificationsPerEvent);
    for (size_t n = 0; n < kept; ++n) {
      // The id of a notification follows from the event's number, so a client that reconnects after
      // a restart continues at the same place.
      notifications.push_back(
          {(first_sequence + i) * kNotificationsPerEvent + n, std::move(written[n])});
    }
  }
  if (options_.notify) {
    for (const LoggedNotification& each : notifications) options_.notify(each.notification);
  }
  feed_.Publish(notifications);
  for (const auto& answer : outcome.answers) answer(Status());
}

// The events of the batch go to a file instead of the log, so that a restart doesn't run into the
// same state again and a desk can replay log and file.
void CoreLoop::ReportViolation(const Outcome& outcome) {
  std::string text = "broken invariant: " + outcome.violation.message() + "\nafter event " +
                     std::to_string(log_.last_sequence()) + " of the log and then:\n";
  for (const LogEntry& entry : outcome.entries) {
    proto::Event event = entry.event;
    RedactJobs(event);
    text +=
        "now_ns: " + std::to_string(ToNanoseconds(entry.now)) + "\n" + event.DebugString() + "\n";
  }
  const Status written =
      io::WriteTextAtomically(io::PosixFileSystem(), options_.violation_path, text);
  io::LogError("controller", text);
  if (!written.ok()) io::LogError("controller", written.message());
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    health_ = outcome.violation;
  }
  if (options_.on_violation) options_.on_violation(outcome.violation);
}

}  // namespace longhaul::service
