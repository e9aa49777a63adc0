// Runs the pure core: one thread that takes events in order, logs them, and only then lets out what
// the core answered.
//
//   push -> queue -> batch: { Step each, check invariants } -> one transaction -> commands,
//                                                              acknowledgements, notifications
//
// Whatever arrives while a batch is being written goes into the next one (group commit). While the
// log can't be written (a full disk) the batch is tried again and again, nothing leaves and nothing
// is lost: agents keep their events until they are acknowledged, workers train on.
//
// Thread-safe, but Start and Stop belong to the owner.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"
#include "runtime/controller/controller.h"
#include "service/controller/log/event_log.h"
#include "service/controller/log/notification_feed.h"

namespace longhaul::service {

// Where commands and acknowledgements go: the agents' streams. Called on the loop's thread.
class AgentPort {
 public:
  virtual ~AgentPort() = default;
  // Drops it when the node has no stream: the core tells a node again once it is back.
  virtual void Deliver(const NodeId& node, const proto::Command& command) = 0;
  virtual void Acknowledge(const NodeId& node, uint64_t incarnation, uint64_t sequence) = 0;
};

struct CoreLoopOptions {
  runtime::ControllerOptions core;
  proto::SchedulingConfiguration scheduling;  // in force from this start on
  // Where a broken invariant is dumped; the log's path with ".violation" is a good one.
  std::string violation_path;
  // The core said so (chaos), and all is logged. Real: SIGKILL to ourselves.
  std::function<void()> kill_controller;
  // A broken invariant: the controller must not act any more. Real: end the process.
  std::function<void(const Status&)> on_violation;
};

// One tick is enough for a deadline: a core that has the same one, still due, after a tick at `now`
// would be given tick after tick and fill the log. kInternal then.
Status CheckTickWorked(std::optional<Instant> before, std::optional<Instant> after, Instant now);

class CoreLoop {
 public:
  static constexpr size_t kLongestQueue = 1 << 18;  // beyond, events are refused
  static constexpr size_t kLargestBatch = 1024;

  // Brings the core to where the log ends. Requires that `log` and `feed` outlive this.
  static Result<std::unique_ptr<CoreLoop>> Create(const CoreLoopOptions& options, EventLog& log,
                                                  NotificationFeed& feed);
  ~CoreLoop();
  CoreLoop(const CoreLoop&) = delete;
  CoreLoop& operator=(const CoreLoop&) = delete;

  // Requires that `port` outlives the loop's running.
  void Start(AgentPort& port);
  void Stop();  // What isn't logged yet is dropped: its senders have had no answer.

  // An agent's event. Calls `taken` once it is logged or dropped, on the loop's thread. Returns
  // false, and calls nothing, when the queue is full or the loop has stopped.
  bool Push(proto::Event event, std::function<void()> taken);

  // Takes an event of the controller itself; returns once it is logged. A submission or a change
  // that the core refuses leaves no trace.
  Status Apply(proto::Event event);

  // Runs `look` on the loop's thread when everything the core knows is logged.
  bool Post(std::function<void(const runtime::Controller&)> look);

  // Calls `look` with the core, at once, on this thread. It may be ahead of the log by one batch.
  template <typename Look>
  auto Read(Look look) const {
    std::lock_guard lock(core_mutex_);
    return look(static_cast<const runtime::Controller&>(core_));
  }

  // Why the log can't be written at present; ok when it can.
  Status Health() const;
  uint64_t logged_events() const;

 private:
  struct Item {
    proto::Event event;
    std::function<void()> taken;
    std::function<void(const Status&)> done;
    std::function<void(const runtime::Controller&)> look;
  };
  // One batch on its way from the core to the outside.
  struct Outcome {
    std::vector<LogEntry> entries;
    std::vector<std::pair<NodeId, proto::Command>> commands;
    std::map<NodeId, std::pair<uint64_t, uint64_t>> acknowledged;  // incarnation, sequence
    std::vector<std::function<void(const Status& written)>> answers;
    bool kill_controller = false;
    Status violation;
  };

  CoreLoop(const CoreLoopOptions& options, EventLog& log, NotificationFeed& feed);
  Status Replay();
  void Run();
  bool Enqueue(Item item);
  std::deque<Item> TakeBatch(bool& tick_due);
  void Process(std::deque<Item> items, bool tick_due);
  void StepOne(Item& item, Outcome& outcome);
  void Tick(Outcome& outcome);
  void Record(const proto::Event& event, Outcome& outcome);
  bool Write(const Outcome& outcome);  // false when stopped before it could
  void Release(Outcome& outcome, uint64_t first_sequence);
  void ReportViolation(const Outcome& outcome);

  const CoreLoopOptions options_;
  EventLog& log_;
  NotificationFeed& feed_;
  AgentPort* port_ = nullptr;
  std::thread thread_;

  mutable std::mutex core_mutex_;  // guards core_; only the loop's thread changes it
  runtime::Controller core_;
  Instant now_;  // the loop's thread only: the last event's time

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::deque<Item> queue_;
  bool stopped_ = false;
  Status health_;
  uint64_t logged_events_ = 0;
};

}  // namespace longhaul::service
