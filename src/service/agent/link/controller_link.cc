#include "service/agent/link/controller_link.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>

#include "io/clock.h"
#include "proto/commands.grpc.pb.h"
#include "proto/commands.pb.h"
#include "service/agent/identity/controller_credentials.h"

namespace longhaul::service {
namespace {

constexpr Duration kDefaultHeartbeat = std::chrono::milliseconds(250);
// The first limits with several controllers, doubled after each round in which none has answered:
// for a connection, which a machine that has disappeared does not refuse, and for Welcome.
constexpr Duration kFirstPatience = std::chrono::milliseconds(300);
constexpr Duration kFirstWelcomeLimit = std::chrono::seconds(1);
constexpr size_t kRoundsPerDoubling = 4;
constexpr size_t kMostDoublings = 4;
constexpr int kMissedHeartbeats = 4;
constexpr int kLargestMessage = 64 << 20;  // bytes; a command carries a whole job

// The identity is read for each channel, because it may have been renewed.
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const ControllerLinkOptions& options) {
  if (options.identity_directory.empty()) return grpc::InsecureChannelCredentials();
  const Result<AgentIdentity> identity = ReadIdentity(options.identity_directory);
  // Without one the controller refuses the stream with the remedy.
  return CredentialsOf(identity.ok() ? *identity : AgentIdentity());
}

std::shared_ptr<grpc::Channel> MakeChannel(const ControllerLinkOptions& options,
                                           const std::string& address) {
  grpc::ChannelArguments arguments;
  // The pauses between tries are ours; gRPC's own, shared by all channels, would add to them.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  return grpc::CreateCustomChannel(address, CredentialsOf(options), arguments);
}

// Returns false as soon as the connection is refused, unlike WaitForConnected.
bool Connects(grpc::Channel& channel, Duration patience) {
  const auto deadline = std::chrono::system_clock::now() + patience;
  grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (!channel.WaitForStateChange(state, deadline)) return false;
    state = channel.GetState(/*try_to_connect=*/true);
  }
  return true;
}

}  // namespace

ControllerLink::ControllerLink(io::EventLoop& loop, ControllerLinkOptions options,
                               ControllerLinkObserver observer)
    : loop_(loop),
      options_(std::move(options)),
      observer_(std::make_shared<const ControllerLinkObserver>(std::move(observer))),
      random_(options_.incarnation),
      pauses_(options_.addresses.size(), options_.first_retry, options_.longest_retry,
              io::MonotonicNow()),
      reader_([this] { RunReader(); }) {}

ControllerLink::~ControllerLink() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.notify_all();
  reader_.join();
}

void ControllerLink::Send(proto::FromAgent message) {
  {
    std::lock_guard lock(mutex_);
    if (!stream_up_ || stream_ != reported_stream_) return;
    unsent_.emplace_back(reported_stream_, std::move(message));
  }
  changed_.notify_all();
}

void ControllerLink::Notify(std::function<void(const ControllerLinkObserver&)> what) {
  loop_.Post([weak = std::weak_ptr(observer_), what = std::move(what)] {
    if (const auto observer = weak.lock()) what(*observer);
  });
}

void ControllerLink::RunReader() {
  for (;;) {
    const size_t doublings = std::min(pauses_.rounds() / kRoundsPerDoubling, kMostDoublings);
    const Duration patience = kFirstPatience * (1 << doublings);
    const ConnectionEnd end = RunStream(options_.addresses[at_], patience);
    // The one that has led is probably gone, so the next one is tried first.
    at_ = (at_ + 1) % options_.addresses.size();
    const Duration pause = pauses_.Next(end, io::MonotonicNow(), random_);
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, pause, [this] { return stopping_; })) return;
  }
}

template <typename Stream>
Status ControllerLink::Read(Stream& stream, uint64_t number, std::thread& writer) {
  proto::ToAgent message;
  while (stream.Read(&message)) {
    last_received_ = io::MonotonicNow();
    if (!message.has_welcome()) {
      if (writer.joinable()) HandleMessage(message);
      continue;
    }
    if (writer.joinable()) continue;  // a second welcome means nothing
    if (options_.accept_term) RETURN_IF_ERROR(options_.accept_term(message.welcome().term()));
    {
      std::lock_guard lock(mutex_);
      stream_up_ = true;
    }
    TakeHeartbeatPeriod(message.welcome().heartbeat_period_ns());
    welcomed_ = true;
    writer = std::thread([this, &stream, number] { RunWriter(stream, number); });
    Notify([this, number, acknowledged = message.welcome().acknowledged()](const auto& observer) {
      reported_stream_ = number;
      observer.on_connected(acknowledged);
    });
  }
  return Status();
}

ConnectionEnd ControllerLink::RunStream(const std::string& address, Duration patience) {
  const auto channel = MakeChannel(options_, address);
  if (several() && !Connects(*channel, patience)) {
    NotifyEnd(false, false, address + " does not accept the connection");
    return {};
  }
  const std::unique_ptr<proto::Controller::Stub> stub = proto::Controller::NewStub(channel);
  grpc::ClientContext context;
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return {};
    context_ = &context;
    number = ++stream_;
  }
  heartbeat_period_ = longest_period_ = kDefaultHeartbeat;
  welcomed_ = silent_ = false;
  last_received_ = io::MonotonicNow();
  std::thread watch;
  if (several()) watch = std::thread([this, number, patience] { WatchSilence(number, patience); });
  const auto stream = stub->Connect(&context);
  proto::FromAgent hello;
  hello.mutable_hello()->set_token(options_.token);
  hello.mutable_hello()->set_node(options_.node.value());
  hello.mutable_hello()->set_incarnation(options_.incarnation);
  hello.mutable_hello()->set_version(LONGHAUL_VERSION);
  stream->Write(hello);  // a failure shows in Read

  std::thread writer;
  const Status refused = Read(*stream, number, writer);
  if (!refused.ok()) context.TryCancel();
  {
    std::lock_guard lock(mutex_);
    stream_up_ = false;
    unsent_.clear();
  }
  changed_.notify_all();
  const bool welcomed = writer.joinable();
  if (welcomed) writer.join();
  const grpc::Status status = stream->Finish();
  {
    std::lock_guard lock(mutex_);
    context_ = nullptr;
  }
  changed_.notify_all();
  if (watch.joinable()) watch.join();
  std::string reason = status.ok() ? "the controller closed the stream" : FailureOfCall(status);
  if (silent_) reason = address + " is silent: it is paused or cut off";
  const bool answered = status.error_code() != grpc::StatusCode::UNAVAILABLE && !silent_;
  NotifyEnd(welcomed, answered, refused.ok() ? reason : refused.message());
  return {welcomed, answered, heartbeat_period_.load()};
}

void ControllerLink::NotifyEnd(bool welcomed, bool answered, const std::string& reason) {
  Notify([welcomed, answered, reason](const auto& observer) {
    if (welcomed) {
      observer.on_disconnected(reason);
    } else {
      observer.on_not_opened(answered, reason);
    }
  });
}

void ControllerLink::WatchSilence(uint64_t number, Duration patience) {
  const Duration welcome_limit = patience * (kFirstWelcomeLimit / kFirstPatience);
  Instant last_look = io::MonotonicNow();
  std::unique_lock lock(mutex_);
  const auto ended = [this, number] { return context_ == nullptr || stream_ != number; };
  while (!changed_.wait_for(lock, heartbeat_period_.load() / 2, ended)) {
    const Instant now = io::MonotonicNow();
    const Duration limit = welcomed_ ? kMissedHeartbeats * longest_period_.load() : welcome_limit;
    // If this process was paused itself, the silence proves nothing.
    if (now - last_look > 2 * heartbeat_period_.load()) last_received_ = now;
    last_look = now;
    if (now - last_received_.load() <= limit) continue;
    silent_ = true;
    context_->TryCancel();
  }
}

template <typename Stream>
void ControllerLink::RunWriter(Stream& stream, uint64_t number) {
  proto::FromAgent heartbeat;
  heartbeat.mutable_heartbeat();
  for (;;) {
    std::deque<std::pair<uint64_t, proto::FromAgent>> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, heartbeat_period_.load(),
                        [this] { return !stream_up_ || !unsent_.empty(); });
      if (!stream_up_) return;
      batch.swap(unsent_);
    }
    if (batch.empty() && !stream.Write(heartbeat)) return;
    for (const auto& [stream_number, message] : batch) {
      if (stream_number == number && !stream.Write(message)) return;
    }
  }
}

void ControllerLink::TakeHeartbeatPeriod(int64_t nanoseconds) {
  if (nanoseconds <= 0) return;
  const Duration before = heartbeat_period_.exchange(Duration(nanoseconds));
  longest_period_ = std::max(before, Duration(nanoseconds));
}

void ControllerLink::HandleMessage(const proto::ToAgent& message) {
  if (message.kind_case() == proto::ToAgent::kHeartbeatPeriodNs) {
    return TakeHeartbeatPeriod(message.heartbeat_period_ns());
  }
  if (message.has_command()) {
    Notify([command = message.command()](const auto& observer) { observer.on_command(command); });
  } else if (message.kind_case() == proto::ToAgent::kAcknowledged) {
    Notify([sequence = message.acknowledged()](const auto& observer) {
      observer.on_acknowledged(sequence);
    });
  } else if (message.has_check()) {
    Notify([order = message.check()](const auto& observer) {
      if (observer.on_check) observer.on_check(order);
    });
  }
}

}  // namespace longhaul::service
