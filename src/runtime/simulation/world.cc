// The controller's side of the simulated world, and the network between it and the agents.
#include "runtime/simulation/world.h"

#include <algorithm>

#include "base/hash.h"

namespace longhaul::runtime::simulation {
namespace {

constexpr int64_t kStartNs = 1'767'225'600'000'000'000;  // 2026-01-01T00:00:00Z
// Beyond so many events a controller crash keeps the state instead of replaying the log; the
// shorter runs show that this makes no difference.
constexpr size_t kReplayLimit = 100'000;
constexpr uint64_t kGlobalBatch = 2048;
// Late, so that outboxes are never empty when something breaks.
constexpr Duration kAcknowledgeAfter = std::chrono::seconds(20);

uint32_t Spares(const SimulationOptions& options) {
  if (options.spares > 0) return options.spares;
  return std::max<uint32_t>(1, options.nodes / 40);
}

std::string Deterministic(const wire::Event& event) { return event.SerializeAsString(); }

}  // namespace

SimulationResult Simulate(const SimulationOptions& options) { return World(options).Run(); }

World::World(const SimulationOptions& options)
    : options_(options),
      random_(options.seed),
      queue_(InstantFromNanoseconds(kStartNs)),
      end_(InstantFromNanoseconds(kStartNs) + options.length),
      controller_(options.controller),
      nodes_(options.nodes),
      in_epoch_(options.nodes),
      audit_(kGlobalBatch) {
  CHECK(options.nodes > Spares(options)) << "a gang needs a node beside the spares";
  world_ = (options.nodes - Spares(options)) * options.processes_per_node;
  for (const FaultRate& rate : kFaultRates) result_.faults[std::string(rate.name)] = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].id = NodeId("node-" + std::to_string(i + 1));
    index_[nodes_[i].id.value()] = i;
  }
}

Duration World::Delay() {
  return DurationFromSeconds(random_.Exponential(ToSeconds(options_.physics.message)));
}

Duration World::Around(Duration mean) {
  return DurationFromSeconds(ToSeconds(mean) * (2.0 / 3 + random_.Uniform() * 2 / 3));
}

SimulationResult World::Run() {
  wire::Event started;
  started.mutable_controller_started();
  Feed(started);
  for (size_t i = 0; i < nodes_.size(); ++i) Boot(i);
  queue_.After(std::chrono::seconds(2), [this] { SubmitJob(); });
  if (options_.minimum_nodes > 0) PlanRival();
  PlanFault();
  PlanFlap();
  Look();
  const Instant stop_at = end_ - std::chrono::minutes(10);
  queue_.At(stop_at, [this] {
    if (job_over_) return;
    wire::Event stop;
    stop.mutable_job_stop_requested()->set_job_id(job_id_);
    stop.mutable_job_stop_requested()->set_reason("the simulated time is over");
    Feed(stop);
  });
  while (queue_.RunNext(end_) && audit_.violations().empty()) {
  }
  const auto status = controller_.JobStatus(JobId(job_id_), queue_.now());
  if (!status.has_value()) {
    audit_.Violate("the job is unknown to the controller");
  } else {
    audit_.Compare(*status, queue_.now());
    if (audit_.violations().empty() && !IsTerminal(status->state())) {
      audit_.Violate("the job did not end: " + status->reason());
    }
    result_.status = *status;
  }
  result_.happenings = queue_.happened();
  result_.steps_taken = audit_.steps_taken();
  result_.epochs = epoch_.epoch;
  result_.state_hash = controller_.StateHash();
  result_.nodes = controller_.AllNodes();
  result_.violations = audit_.violations();
  if (!result_.replay_agrees) result_.violations.push_back("a replayed log gave another state");
  return result_;
}

void World::SubmitJob() {
  wire::Event event;
  event.set_at_ns(ToNanoseconds(queue_.now()));
  wire::Job& job = *event.mutable_job_submitted()->mutable_job();
  job.set_id(job_id_);
  job.set_name("simulated");
  job.set_nodes(options_.nodes - Spares(options_));
  job.set_processes_per_node(options_.processes_per_node);
  job.mutable_workload()->set_built_in(true);
  job.set_max_restarts(1'000'000'000);
  job.set_total_steps(options_.total_steps);
  job.mutable_snapshot()->set_keep(3);
  job.mutable_snapshot()->set_replicated(!options_.sharded);
  if (options_.pipeline > 0) {
    job.set_tensor(1);
    job.set_pipeline(options_.pipeline);
  }
  job.mutable_snapshot()->set_interval_steps(options_.snapshot_interval);
  job.mutable_data()->set_samples(1'000'003);
  job.mutable_data()->set_global_batch(kGlobalBatch);
  job.mutable_data()->set_seed(options_.seed);
  for (const wire::PlannedFault& fault : options_.planned) *job.add_faults() = fault;
  if (options_.minimum_nodes > 0) {
    job.set_minimum_nodes(options_.minimum_nodes);
    job.set_maximum_nodes(options_.nodes);
  }
  audit_.Sized(queue_.now(), world_);
  Feed(event);
}

void World::PlanRival() {
  const double pause = ToSeconds(options_.physics.rival_pause);
  queue_.After(DurationFromSeconds(random_.Exponential(pause)), [this] {
    SubmitRival();
    PlanRival();
  });
}

// A job of higher priority that runs for a while; one at a time.
void World::SubmitRival() {
  if (job_over_ || !controller_up_ || rival_.has_value()) return;
  rival_ = "rival-" + std::to_string(++rivals_);
  wire::Event event;
  event.set_at_ns(ToNanoseconds(queue_.now()));
  wire::Job& job = *event.mutable_job_submitted()->mutable_job();
  job.set_id(*rival_);
  const uint32_t most = std::max(1u, options_.nodes - options_.minimum_nodes);
  job.set_nodes(1 + static_cast<uint32_t>(random_.Below(most)));
  job.set_processes_per_node(options_.processes_per_node);
  job.mutable_workload()->add_command("rival");
  job.set_max_restarts(1'000);
  job.mutable_scheduling()->set_priority(10);
  Feed(event);
}

// What the controller says of sizes and ends, as the witness needs it.
void World::Watch(const wire::Notice& notice) {
  const bool ends = notice.has_state() && IsTerminal(notice.state().state());
  if (rival_ == notice.job_id() && ends) {
    rival_.reset();
    if (notice.state().state() == wire::SUCCEEDED) ++result_.rivals;
  }
  if (notice.job_id() != job_id_) return;
  const Instant at = InstantFromNanoseconds(notice.at_ns());
  if (ends) {
    job_over_ = true;
    audit_.Over(at);
  } else if (notice.has_state() && notice.state().state() == wire::QUEUED) {
    audit_.Sized(at, world_);
  } else if (notice.has_epoch()) {
    audit_.Sized(at, notice.epoch().world());
    const uint32_t nodes = notice.epoch().world() / options_.processes_per_node;
    const bool within = options_.minimum_nodes == 0
                            ? notice.epoch().world() == world_
                            : nodes >= options_.minimum_nodes && nodes <= options_.nodes;
    const bool whole = nodes * options_.processes_per_node == notice.epoch().world() &&
                       notice.epoch().gang_size() == static_cast<int>(nodes);
    if (!within || !whole) {
      audit_.Violate("epoch " + std::to_string(notice.epoch().epoch()) + " has " +
                     std::to_string(notice.epoch().world()) + " ranks on " +
                     std::to_string(notice.epoch().gang_size()) + " nodes");
    }
  }
}

// Looks at the whole now and then: the controller's own view against the witness's.
void World::Look() {
  const auto status = controller_.JobStatus(JobId(job_id_), queue_.now());
  if (status.has_value()) {
    audit_.Compare(*status, queue_.now());
    job_over_ = IsTerminal(status->state());
  }
  LookAtPlaces();
  for (SimNode& node : nodes_) {
    if (node.core == nullptr) continue;
    if (Status ok = node.core->CheckInvariants(); !ok.ok()) {
      audit_.Violate(node.id.value() + ": " + ok.message());
    }
  }
  if (options_.on_progress) options_.on_progress(queue_.now() - InstantFromNanoseconds(kStartNs));
  if (!job_over_) queue_.After(std::chrono::hours(6), [this] { Look(); });
}

// What the scheduler has placed is what runs, nothing is over its capacity, no gang in part.
void World::LookAtPlaces() {
  if (Status same = controller_.CheckPlaces(); !same.ok()) audit_.Violate(same.message());
}

// The service around the controller: log, step, let commands leave.
void World::Feed(const wire::Event& event) {
  if (!controller_up_) return;
  const std::string bytes = Deterministic(event);
  const int64_t now_ns = ToNanoseconds(queue_.now());
  result_.log_hash = Hash64(bytes, result_.log_hash ^ static_cast<uint64_t>(now_ns));
  ++result_.events;
  if (options_.on_event) options_.on_event(event, queue_.now());
  log_kept_ = log_kept_ && log_.size() < kReplayLimit;
  if (log_kept_) {
    log_.emplace_back(queue_.now(), bytes);
  } else {
    log_.clear();
  }
  Actions actions = controller_.Step(event, queue_.now());
  if (Status ok = controller_.CheckInvariants(); !ok.ok()) {
    audit_.Violate("controller, event " + std::to_string(result_.events) + ": " + ok.message());
  }
  for (auto& [id, command] : actions.commands) ToAgent(index_.at(id.value()), std::move(command));
  for (const wire::Notice& notice : actions.notices) {
    Watch(notice);
  }
  if (!event.node().empty()) Acknowledge(index_.at(event.node()));
  if (actions.kill_controller) return CrashController();
  ArmTick();
}

void World::ArmTick() {
  const auto deadline = controller_.NextDeadline();
  if (!deadline.has_value() || (tick_.has_value() && *tick_ <= *deadline)) return;
  tick_ = *deadline;
  queue_.At(*deadline, [this, at = *deadline] {
    if (tick_ != at) return;
    tick_.reset();
    if (!controller_up_) return;
    const auto next = controller_.NextDeadline();
    if (next.has_value() && *next <= queue_.now()) {
      wire::Event event;
      event.mutable_tick();
      Feed(event);
    } else {
      ArmTick();
    }
  });
}

void World::ToController(size_t index, wire::FromAgent message) {
  SimNode& node = nodes_[index];
  if (!node.connected || !message.has_event()) return;
  // A stream keeps its order, so all of its messages wait equally long.
  queue_.After(options_.physics.message,
               [this, index, stream = node.stream, event = std::move(*message.mutable_event())] {
                 const SimNode& sender = nodes_[index];
                 if (!sender.connected || sender.stream != stream) return;  // lost with the stream
                 Feed(event);
               });
}

void World::ToAgent(size_t index, wire::Command command) {
  const SimNode& node = nodes_[index];
  if (!node.connected) return;
  queue_.After(options_.physics.message,
               [this, index, stream = node.stream, command = std::move(command)]() mutable {
                 const SimNode& receiver = nodes_[index];
                 if (!receiver.connected || receiver.stream != stream) return;
                 if (command.has_inject_fault()) return Inject(index, command.inject_fault());
                 Input(index, CommandReceived{std::move(command)});
               });
}

// One acknowledgement for all that came meanwhile.
void World::Acknowledge(size_t index) {
  SimNode& node = nodes_[index];
  if (node.acknowledging || !node.connected) return;
  node.acknowledging = true;
  queue_.After(kAcknowledgeAfter, [this, index, stream = node.stream] {
    SimNode& receiver = nodes_[index];
    receiver.acknowledging = false;
    if (!receiver.connected || receiver.stream != stream || !controller_up_) return;
    Input(index, EventsAcknowledged{controller_.AcknowledgedSequence(receiver.id, receiver.life)});
  });
}

// Agents try again until they get through.
void World::Connect(size_t index) {
  SimNode& node = nodes_[index];
  if (node.core == nullptr || node.connected) return;
  if (node.cut || !controller_up_) {
    queue_.After(Around(std::chrono::milliseconds(300)), [this, index, life = node.life] {
      if (nodes_[index].life == life) Connect(index);
    });
    return;
  }
  node.connected = true;
  ++node.stream;
  Input(index, Connected{controller_.AcknowledgedSequence(node.id, node.life)});
}

void World::BreakStream(size_t index, const std::string& reason) {
  SimNode& node = nodes_[index];
  if (!node.connected) return;
  node.connected = false;
  wire::Event event;
  event.set_at_ns(ToNanoseconds(queue_.now()));
  event.set_node(node.id.value());
  event.set_incarnation(node.life);
  event.mutable_agent_disconnected()->set_reason(reason);
  queue_.After(Delay(), [this, event] { Feed(event); });
  if (node.core == nullptr) return;
  Input(index, Disconnected{});
  queue_.After(Around(std::chrono::milliseconds(100)), [this, index, life = node.life] {
    if (nodes_[index].life == life) Connect(index);
  });
}

void World::CrashController() {
  if (!controller_up_) return;
  controller_up_ = false;
  for (SimNode& node : nodes_) {
    if (!node.connected) continue;
    node.connected = false;
    const size_t index = index_.at(node.id.value());
    if (node.core == nullptr) continue;
    Input(index, Disconnected{});
    queue_.After(Around(std::chrono::milliseconds(100)), [this, index, life = node.life] {
      if (nodes_[index].life == life) Connect(index);
    });
  }
  queue_.After(Around(options_.physics.controller_restart), [this] { RestartController(); });
}

void World::RestartController() {
  if (log_kept_) {
    Controller replayed(options_.controller);
    wire::Event event;
    for (const auto& [now, bytes] : log_) {
      CHECK(event.ParseFromString(bytes));
      (void)replayed.Step(event, now);
    }
    ++result_.replays;
    if (replayed.StateHash() != controller_.StateHash()) result_.replay_agrees = false;
    controller_ = std::move(replayed);
    LookAtPlaces();
  }
  controller_up_ = true;
  tick_.reset();
  wire::Event started;
  started.mutable_controller_started();
  Feed(started);
}

}  // namespace longhaul::runtime::simulation
