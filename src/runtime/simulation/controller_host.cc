// The controller's side of the simulated world, and the network between it and the agents.
#include "runtime/simulation/controller_host.h"

#include <algorithm>

#include "base/hash.h"
#include "runtime/simulation/faults.h"
#include "runtime/simulation/node_checks.h"
#include "runtime/simulation/nodes.h"

namespace longhaul::runtime::simulation {
namespace {

// Beyond so many events a controller crash keeps the state instead of replaying the log; the
// shorter runs show that this makes no difference.
constexpr size_t kReplayLimit = 100'000;
// Late, so that outboxes are never empty when something breaks.
constexpr Duration kAcknowledgeAfter = std::chrono::seconds(20);
// Of service/agent/link/reconnect_pauses.h, with heartbeats every 250 ms.
constexpr Duration kFirstRetry = std::chrono::milliseconds(40);
constexpr Duration kQuickRetry = std::chrono::milliseconds(166);
constexpr Duration kQuickTime = std::chrono::minutes(1);
constexpr Duration kLongestRetry = std::chrono::seconds(1);
constexpr Duration kFirstRetransmission = std::chrono::milliseconds(200);

std::string Deterministic(const proto::Event& event) { return event.SerializeAsString(); }

}  // namespace

SimulationResult ControllerHost::Run() {
  proto::Event started;
  started.mutable_controller_started();
  Feed(started);
  for (size_t i = 0; i < world_.nodes.size(); ++i) machines_.Boot(i);
  world_.queue.After(std::chrono::seconds(2), [this] { SubmitJob(); });
  if (world_.options.minimum_nodes > 0) PlanRival();
  faults_.PlanFault();
  faults_.PlanFlap();
  Look();
  const Instant stop_at = world_.end - std::chrono::minutes(10);
  world_.queue.At(stop_at, [this] {
    if (world_.job_over) return;
    proto::Event stop;
    stop.mutable_job_stop_requested()->set_job_id(world_.job_id);
    stop.mutable_job_stop_requested()->set_reason("the simulated time is over");
    Feed(stop);
  });
  while (world_.queue.RunNext(world_.end) && world_.audit.violations().empty()) {
  }
  const auto status = controller_.JobStatus(JobId(world_.job_id), world_.queue.now());
  if (!status.has_value()) {
    world_.audit.Violate("the job is unknown to the controller");
  } else {
    world_.audit.Compare(*status, world_.queue.now());
    if (world_.audit.violations().empty() && !IsTerminal(status->state())) {
      world_.audit.Violate("the job did not end: " + status->reason());
    }
    world_.result.status = *status;
  }
  CompareUsage();
  world_.result.happenings = world_.queue.happened();
  world_.result.steps_taken = world_.audit.steps_taken();
  world_.result.attempts = world_.attempt.attempt;
  world_.result.state_hash = controller_.StateHash();
  world_.result.nodes = controller_.AllNodes();
  world_.record.End(world_.queue.now());
  world_.result.causes = world_.record.costs();
  world_.result.slow_excess = world_.record.slow_excess();
  world_.result.redone_by_hand = world_.record.redone_by_hand();
  world_.result.violations = world_.audit.violations();
  if (!world_.result.replay_agrees)
    world_.result.violations.push_back("a replayed log gave another state");
  return world_.result;
}

void ControllerHost::SubmitJob() {
  proto::Event event;
  event.set_at_ns(ToNanoseconds(world_.queue.now()));
  proto::Job& job = *event.mutable_job_submitted()->mutable_job();
  job.set_id(world_.job_id);
  job.set_name("simulated");
  job.set_nodes(world_.options.nodes - SparesOf(world_.options));
  job.set_processes_per_node(world_.options.processes_per_node);
  if (world_.options.command) {
    job.mutable_workload()->add_command("scenario");
  } else {
    job.mutable_workload()->set_built_in(true);
  }
  job.set_max_restarts(1'000'000'000);
  *job.mutable_numeric() = world_.options.numeric;
  job.set_total_steps(world_.options.total_steps);
  job.mutable_snapshot()->set_keep(world_.options.keep);
  job.mutable_snapshot()->set_replicated(!world_.options.sharded);
  if (world_.options.pipeline > 0) {
    job.set_tensor(1);
    job.set_pipeline(world_.options.pipeline);
  }
  job.mutable_snapshot()->set_interval_steps(world_.options.snapshot_interval);
  job.mutable_data()->set_samples(1'000'003);
  job.mutable_data()->set_global_batch(kGlobalBatch);
  job.mutable_data()->set_seed(world_.options.seed);
  for (const proto::PlannedFault& fault : world_.options.planned) *job.add_faults() = fault;
  if (world_.options.minimum_nodes > 0) {
    job.set_minimum_nodes(world_.options.minimum_nodes);
    job.set_maximum_nodes(world_.options.nodes);
  }
  world_.audit.Sized(world_.queue.now(), world_.ranks);
  Feed(event);
}

void ControllerHost::PlanRival() {
  const double pause = ToSeconds(world_.options.physics.rival_pause);
  world_.queue.After(DurationFromSeconds(world_.random.Exponential(pause)), [this] {
    SubmitRival();
    PlanRival();
  });
}

// A job of higher priority that runs for a while; one at a time.
void ControllerHost::SubmitRival() {
  if (world_.job_over || !world_.controller_up || rival_.has_value()) return;
  rival_ = "rival-" + std::to_string(++rivals_);
  proto::Event event;
  event.set_at_ns(ToNanoseconds(world_.queue.now()));
  proto::Job& job = *event.mutable_job_submitted()->mutable_job();
  job.set_id(*rival_);
  const uint32_t most = std::max(1u, world_.options.nodes - world_.options.minimum_nodes);
  job.set_nodes(1 + static_cast<uint32_t>(world_.random.Below(most)));
  job.set_processes_per_node(world_.options.processes_per_node);
  job.mutable_workload()->add_command("rival");
  job.set_max_restarts(1'000);
  job.mutable_scheduling()->set_priority(10);
  Feed(event);
}

// What the controller says of sizes and ends, as the witness needs it.
void ControllerHost::Watch(const proto::Notification& notification) {
  const bool ends = notification.has_state() && IsTerminal(notification.state().state());
  if (rival_ == notification.job_id() && ends) {
    rival_.reset();
    if (notification.state().state() == proto::SUCCEEDED) ++world_.result.rivals;
  }
  const Instant at = InstantFromNanoseconds(notification.at_ns());
  const bool queued = notification.has_state() && notification.state().state() == proto::QUEUED;
  if (notification.has_attempt()) {
    world_.audit.Holds(notification.job_id(), at, notification.attempt().world());
  } else if (ends || queued) {
    world_.audit.Holds(notification.job_id(), at, 0);
  }
  if (notification.job_id() != world_.job_id) return;
  if (ends) {
    world_.job_over = true;
    world_.record.End(at);
    world_.audit.Over(at);
  } else if (queued) {
    world_.audit.Sized(at, world_.ranks);
  } else if (notification.has_attempt()) {
    if (world_.on_attempt) world_.on_attempt(notification.attempt());
    CheckRestore(notification.attempt());
    world_.audit.Sized(at, notification.attempt().world());
    const uint32_t nodes = notification.attempt().world() / world_.options.processes_per_node;
    const bool within =
        world_.options.minimum_nodes == 0
            ? notification.attempt().world() == world_.ranks
            : nodes >= world_.options.minimum_nodes && nodes <= world_.options.nodes;
    const bool whole =
        nodes * world_.options.processes_per_node == notification.attempt().world() &&
        notification.attempt().gang_size() == static_cast<int>(nodes);
    if (!within || !whole) {
      world_.audit.Violate("attempt " + std::to_string(notification.attempt().attempt()) + " has " +
                           std::to_string(notification.attempt().world()) + " ranks on " +
                           std::to_string(notification.attempt().gang_size()) + " nodes");
    }
  }
}

// A restart uses the newest complete snapshot that live nodes hold, whoever has reported it. Only
// where the gang keeps its size and no snapshot is damaged.
void ControllerHost::CheckRestore(const proto::AttemptNotification& attempt) {
  if (!world_.options.scenario.has_value()) return;
  const std::vector<std::string> gang(attempt.gang().begin(), attempt.gang().end());
  for (SimSeal& seal : world_.seals) {
    if (seal.step <= attempt.restore().step()) continue;
    if (!seal.given_up && world_.LiveNodesHold(seal, gang)) {
      world_.audit.Violate("attempt " + std::to_string(attempt.attempt()) + " begins from step " +
                           std::to_string(attempt.restore().step()) +
                           ", although live nodes hold step " + std::to_string(seal.step));
    }
    seal.given_up = true;
  }
}

// Looks at the whole now and then: the controller's own view against the witness's.
void ControllerHost::Look() {
  const auto status = controller_.JobStatus(JobId(world_.job_id), world_.queue.now());
  if (status.has_value()) {
    world_.audit.Compare(*status, world_.queue.now());
    world_.job_over = IsTerminal(status->state());
  }
  LookAtPlaces();
  CompareUsage();
  for (SimNode& node : world_.nodes) {
    if (node.core == nullptr) continue;
    if (Status ok = node.core->CheckInvariants(); !ok.ok()) {
      world_.audit.Violate(node.id.value() + ": " + ok.message());
    }
  }
  if (world_.options.on_progress)
    world_.options.on_progress(world_.queue.now() - InstantFromNanoseconds(kStartNs));
  if (!world_.job_over) world_.queue.After(std::chrono::hours(6), [this] { Look(); });
}

// What the accounting has is what was held, and what the goodput ledgers have.
void ControllerHost::CompareUsage() {
  // While the controller is away, its state and the time of its last event stand still.
  if (!world_.controller_up) return;
  world_.result.usage = controller_.CompareUsage(world_.queue.now());
  world_.audit.CompareUsage(world_.result.usage, world_.queue.now());
}

// What the scheduler has placed is what runs, nothing is over its capacity, no gang in part.
void ControllerHost::LookAtPlaces() {
  if (Status same = controller_.CheckPlaces(); !same.ok()) world_.audit.Violate(same.message());
}

// The service around the controller: log, step, let commands leave.
void ControllerHost::Feed(const proto::Event& event) {
  if (!world_.controller_up) return;
  const std::string bytes = Deterministic(event);
  const int64_t now_ns = ToNanoseconds(world_.queue.now());
  world_.result.log_hash = Hash64(bytes, world_.result.log_hash ^ static_cast<uint64_t>(now_ns));
  ++world_.result.events;
  if (world_.options.on_event) world_.options.on_event(event, world_.queue.now());
  log_kept_ = log_kept_ && log_.size() < kReplayLimit;
  if (log_kept_) {
    log_.emplace_back(world_.queue.now(), bytes);
  } else {
    log_.clear();
  }
  Actions actions = controller_.Step(event, world_.queue.now());
  if (Status ok = controller_.CheckInvariants(); !ok.ok()) {
    world_.audit.Violate("controller, event " + std::to_string(world_.result.events) + ": " +
                         ok.message());
  }
  for (auto& [id, command] : actions.commands)
    ToAgent(world_.index.at(id.value()), std::move(command));
  for (const proto::Notification& notification : actions.notifications) {
    Watch(notification);
  }
  for (const NodeCheckOrder& order : actions.checks) checks_.Begin(order);
  if (!event.node().empty()) Acknowledge(world_.index.at(event.node()));
  if (actions.kill_controller) return CrashController();
  ArmTick();
}

// A deadline may move while a tick is planned. A tick that is no longer the planned one has no
// effect, and the next one is planned when the deadline is known.
void ControllerHost::ArmTick() {
  const auto deadline = controller_.NextDeadline();
  if (!deadline.has_value() || (tick_.has_value() && *tick_ <= *deadline)) return;
  tick_ = *deadline;
  world_.queue.At(*deadline, [this, at = *deadline] {
    if (tick_ != at) return;
    tick_.reset();
    if (!world_.controller_up) return;
    const auto next = controller_.NextDeadline();
    if (next.has_value() && *next <= world_.queue.now()) {
      proto::Event event;
      event.mutable_tick();
      Feed(event);
    } else {
      ArmTick();
    }
  });
}

// A message belongs to the stream on which it was sent. If the stream breaks while the message is
// on its way, the message is lost, and the agent's outbox sends it again.
void ControllerHost::ToController(size_t index, proto::FromAgent message) {
  SimNode& node = world_.nodes[index];
  if (!node.connected || !message.has_event()) return;
  node.last_arrival_from =
      std::max(node.last_arrival_from, world_.queue.now() + world_.options.physics.message);
  Arrive(index, node.stream, node.last_arrival_from,
         [this, event = std::move(*message.mutable_event())] { Feed(event); });
}

// A stream keeps its order, so each of its messages arrives no earlier than the one before it.
void ControllerHost::Arrive(size_t index, uint64_t stream, Instant at,
                            std::function<void()> action) {
  world_.queue.At(at, [this, index, stream, action = std::move(action)] {
    TakeArrived(index, stream, action);
  });
}

void ControllerHost::TakeArrived(size_t index, uint64_t stream,
                                 const std::function<void()>& action) {
  SimNode& node = world_.nodes[index];
  if (!node.connected || node.stream != stream) return;  // lost with the stream
  if (!node.silent) return action();
  node.held_back.push_back([this, index, stream, action] { TakeArrived(index, stream, action); });
}

// The kernel sends again what was not acknowledged, so the traffic of a connection begins a while
// after the link is back. With one segment under way it does so after 200 ms (RFC 8985, section
// 7.2), and then after the retransmission timeout, of which Linux's least is 200 ms and which
// doubles each time (RFC 6298): after 0.2, 0.4, 0.8, 1.6 s and so on, as measured in the
// laboratory.
void ControllerHost::CutLink(size_t index, Duration lasts, std::function<void()> healed) {
  Duration flows = kFirstRetransmission;
  while (flows < lasts) flows *= 2;
  SimNode& node = world_.nodes[index];
  node.cut = node.silent = true;
  node.flows_again = world_.queue.now() + flows;
  const auto same = [this, index, life = node.life, cut = ++node.cuts] {
    return world_.nodes[index].life == life && world_.nodes[index].cuts == cut;
  };
  world_.queue.After(world_.options.physics.silence, [this, index, same] {
    if (same() && world_.nodes[index].silent) BreakStream(index, "silence");
  });
  world_.queue.After(lasts, [this, index, same] {
    if (same()) world_.nodes[index].cut = false;
  });
  world_.queue.After(flows, [this, index, same, healed = std::move(healed)] {
    if (same()) HealLink(index);
    healed();
  });
}

void ControllerHost::HealLink(size_t index) {
  world_.nodes[index].silent = false;
  const auto held_back = std::exchange(world_.nodes[index].held_back, {});
  for (const auto& arrive : held_back) arrive();
}

void ControllerHost::ToAgent(size_t index, proto::Command command) {
  SimNode& node = world_.nodes[index];
  if (!node.connected) return;
  node.last_arrival_here =
      std::max(node.last_arrival_here,
               world_.queue.now() + world_.options.physics.message + node.link_delay);
  Arrive(index, node.stream, node.last_arrival_here,
         [this, index, command = std::move(command)]() mutable {
           if (command.has_inject_fault()) return faults_.Inject(index, command.inject_fault());
           machines_.Input(index, CommandReceived{std::move(command)});
         });
}

// One acknowledgement for all that came meanwhile.
void ControllerHost::Acknowledge(size_t index) {
  SimNode& node = world_.nodes[index];
  if (node.acknowledging || !node.connected) return;
  node.acknowledging = true;
  world_.queue.After(kAcknowledgeAfter, [this, index, stream = node.stream] {
    SimNode& receiver = world_.nodes[index];
    receiver.acknowledging = false;
    if (!receiver.connected || receiver.stream != stream || !world_.controller_up) return;
    if (receiver.silent) return Acknowledge(index);
    machines_.Input(
        index, EventsAcknowledged{controller_.AcknowledgedSequence(receiver.id, receiver.life)});
  });
}

// Agents try again until they get through.
void ControllerHost::Connect(size_t index) {
  SimNode& node = world_.nodes[index];
  if (node.core == nullptr || node.connected) return;
  if (node.cut || !world_.controller_up) {
    world_.queue.After(PauseOfRetry(node), [this, index, life = node.life] {
      if (world_.nodes[index].life == life) Connect(index);
    });
    return;
  }
  node.connected = true;
  node.connected_at = world_.queue.now();
  node.retry = Duration(0);
  node.silent = false;
  ++node.stream;
  machines_.Input(index, Connected{controller_.AcknowledgedSequence(node.id, node.life)});
}

Duration ControllerHost::PauseOfRetry(SimNode& node) {
  if (!world_.options.retries_double) return world_.Around(std::chrono::milliseconds(300));
  const bool quick =
      world_.queue.now() - std::max(node.lost_controller_at, node.booted) < kQuickTime;
  node.retry = std::clamp(2 * node.retry, kFirstRetry, quick ? kQuickRetry : kLongestRetry);
  return DurationFromSeconds(ToSeconds(node.retry) * (0.5 + world_.random.Uniform()));
}

void ControllerHost::BreakStream(size_t index, const std::string& reason) {
  SimNode& node = world_.nodes[index];
  if (!node.connected) return;
  node.connected = false;
  node.lost_controller_at = world_.queue.now();
  proto::Event event;
  event.set_at_ns(ToNanoseconds(world_.queue.now()));
  event.set_node(node.id.value());
  event.set_incarnation(node.life);
  event.mutable_agent_disconnected()->set_reason(reason);
  world_.queue.After(world_.Delay(), [this, event] { Feed(event); });
  if (node.core == nullptr) return;
  machines_.Input(index, Disconnected{});
  world_.queue.After(world_.Around(std::chrono::milliseconds(100)),
                     [this, index, life = node.life] {
                       if (world_.nodes[index].life == life) Connect(index);
                     });
}

void ControllerHost::CrashController(std::optional<Duration> away) {
  if (!world_.controller_up) return;
  world_.controller_up = false;
  for (SimNode& node : world_.nodes) {
    if (!node.connected) continue;
    node.connected = false;
    node.lost_controller_at = world_.queue.now();
    const size_t index = world_.index.at(node.id.value());
    if (node.core == nullptr) continue;
    machines_.Input(index, Disconnected{});
    world_.queue.After(world_.Around(std::chrono::milliseconds(100)),
                       [this, index, life = node.life] {
                         if (world_.nodes[index].life == life) Connect(index);
                       });
  }
  // Drawn last, so that the draws before it do not depend on it.
  const Duration until =
      away.has_value() ? *away : world_.Around(world_.options.physics.controller_restart);
  world_.queue.After(until, [this] { RestartController(); });
}

void ControllerHost::RestartController() {
  if (log_kept_) {
    Controller replayed(world_.options.controller);
    proto::Event event;
    for (const auto& [now, bytes] : log_) {
      CHECK(event.ParseFromString(bytes));
      (void)replayed.Step(event, now);
    }
    ++world_.result.replays;
    if (replayed.StateHash() != controller_.StateHash()) world_.result.replay_agrees = false;
    controller_ = std::move(replayed);
    LookAtPlaces();
  }
  world_.controller_up = true;
  tick_.reset();
  proto::Event started;
  started.mutable_controller_started();
  Feed(started);
}

}  // namespace longhaul::runtime::simulation
