// Runs the pure core: one thread takes events in order, logs them, and only then carries out the
// core's answers.
//
//   push -> queue -> batch: { Step each, check invariants } -> one transaction -> commands,
//                                                              acknowledgements, notifications
//
// Events that arrive while a batch is written are in the next one (group commit). While the log
// can't be written (a full disk), the batch is retried and nothing is sent. Nothing is lost: agents
// keep their events until they are acknowledged, and workers continue to train.
//
// Thread-safe, except Start and Stop, which only the owner calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
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

// The agents' streams, to which commands and acknowledgements are sent. Called on the loop's
// thread.
class AgentPort {
 public:
  virtual ~AgentPort() = default;
  // Drops the command when the node has no stream: the core sends it again once the node is back.
  virtual void Deliver(const NodeId& node, const proto::Command& command) = 0;
  virtual void Acknowledge(const NodeId& node, uint64_t incarnation, uint64_t sequence) = 0;
};

struct CoreLoopOptions {
  runtime::ControllerOptions core;
  proto::SchedulingConfiguration scheduling;  // in force from this start on
  // The file for the state at a violated invariant, such as the log's path with ".violation".
  std::string violation_path;
  // Called after the core injects this fault, once all is logged. In production: SIGKILL to itself.
  std::function<void()> kill_controller;
  // Called with each node check that the core orders, once the order is logged; must not block. The
  // answer is an event. May be empty: the core's limit for checks then ends each.
  std::function<void(const runtime::NodeCheckOrder&)> check_nodes;
  // Called when an invariant is violated; the controller must stop. In production: end the process.
  std::function<void(const Status&)> on_violation;
  // Called when the log reports that another controller leads (EventLog::Append); nothing of the
  // batch is sent. In production: end the process.
  std::function<void(const Status&)> on_lost;
  // Called with each notification once it is logged; must not block. May be empty.
  std::function<void(const proto::Notification&)> notify;
};

// Returns kInternal if a deadline is still the same, and due, after a tick at `now`. Such a core
// would receive tick after tick and fill the log.
Status CheckTickWorked(std::optional<Instant> before, std::optional<Instant> after, Instant now);

class CoreLoop {
 public:
  static constexpr size_t kLongestQueue = 1 << 18;  // beyond, events are refused
  static constexpr size_t kLargestBatch = 1024;
  static constexpr Duration kLongestRead = std::chrono::seconds(10);

  // Replays the log into the core. Requires that `log` and `feed` outlive this.
  static Result<std::unique_ptr<CoreLoop>> Create(const CoreLoopOptions& options, EventLog& log,
                                                  NotificationFeed& feed);
  ~CoreLoop();
  CoreLoop(const CoreLoop&) = delete;
  CoreLoop& operator=(const CoreLoop&) = delete;

  // Takes the events that another controller has appended since the last call. Call it before Start
  // only, on one thread.
  Status CatchUp();

  // Requires that `port` outlives the running loop.
  void Start(AgentPort& port);
  void Stop();  // Drops events that are not logged; their senders have had no answer.

  // Queues an agent's event. Calls `taken` on the loop's thread once the event is logged or
  // dropped. Returns false, and calls nothing, when the queue is full or the loop has stopped.
  bool Push(proto::Event event, std::function<void()> taken);

  // Called with the core on the loop's thread right before an event is handled.
  using Condition = std::function<Status(const runtime::Controller&)>;

  // Handles an event of the controller itself; returns once it is logged. A submission or a change
  // that the core refuses is not logged, and neither is an event whose condition returns an error,
  // which is returned. An empty condition holds.
  Status Apply(proto::Event event, Condition condition = {});

  // Runs `look` on the loop's thread once the core's whole state is logged.
  bool Post(std::function<void(const runtime::Controller&)> look);

  // Returns what `look` returns for a core whose every event is logged and in the feed. `look` is
  // called on the loop's thread, perhaps after this has returned kUnavailable: it must own what it
  // uses.
  template <typename Look>
  auto ReadLogged(Look look) -> Result<std::invoke_result_t<Look, const runtime::Controller&>> {
    using Answer = std::invoke_result_t<Look, const runtime::Controller&>;
    auto answer = std::make_shared<std::promise<Answer>>();
    std::future<Answer> future = answer->get_future();
    const bool taken =
        Post([answer, look](const runtime::Controller& core) { answer->set_value(look(core)); });
    if (!taken || future.wait_for(kLongestRead) != std::future_status::ready) {
      return Unavailable("the controller is overloaded or stopping: try again");
    }
    return future.get();
  }

  // Calls `look` with the core at once, on this thread. The core may be one batch ahead of the log.
  template <typename Look>
  auto Read(Look look) const {
    std::lock_guard lock(core_mutex_);
    return look(static_cast<const runtime::Controller&>(core_));
  }

  // Returns why the log can't be written at present; OK when it can.
  Status Health() const;
  uint64_t logged_events() const;

 private:
  struct Item {
    proto::Event event;
    Condition condition;
    std::function<void()> taken;
    std::function<void(const Status&)> done;
    std::function<void(const runtime::Controller&)> look;
  };
  // The results of one batch.
  struct Outcome {
    std::vector<LogEntry> entries;
    std::vector<std::pair<NodeId, proto::Command>> commands;
    std::map<NodeId, std::pair<uint64_t, uint64_t>> acknowledged;  // incarnation, sequence
    std::vector<runtime::NodeCheckOrder> checks;
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
  Status RefusalOf(const Item& item) const;
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
