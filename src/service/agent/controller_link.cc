#include "service/agent/controller_link.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>

#include "proto/commands.grpc.pb.h"
#include "proto/commands.pb.h"
#include "service/agent/identity/controller_credentials.h"

namespace longhaul::service {
namespace {

constexpr Duration kDefaultHeartbeat = std::chrono::milliseconds(250);
constexpr int kLargestMessage = 64 << 20;  // bytes; a command carries a whole job

// The identity is read for each channel, because it may have been renewed.
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const ControllerLinkOptions& options) {
  if (options.identity_directory.empty()) return grpc::InsecureChannelCredentials();
  const Result<AgentIdentity> identity = ReadIdentity(options.identity_directory);
  // Without one the controller refuses the stream with the remedy.
  return CredentialsOf(identity.ok() ? *identity : AgentIdentity());
}

std::shared_ptr<grpc::Channel> MakeChannel(const ControllerLinkOptions& options) {
  grpc::ChannelArguments arguments;
  // The pauses between tries are ours; gRPC's own, shared by all channels, would add to them.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  return grpc::CreateCustomChannel(options.address, CredentialsOf(options), arguments);
}

}  // namespace

ControllerLink::ControllerLink(io::EventLoop& loop, ControllerLinkOptions options,
                               ControllerLinkObserver observer)
    : loop_(loop),
      options_(std::move(options)),
      observer_(std::make_shared<const ControllerLinkObserver>(std::move(observer))),
      random_(options_.incarnation),
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
  Duration pause = options_.first_retry;
  for (;;) {
    const bool welcomed = RunStream();
    pause = welcomed ? options_.first_retry : std::min(2 * pause, options_.longest_retry);
    const auto jittered =
        Duration(pause.count() / 2 +
                 static_cast<int64_t>(random_.Below(static_cast<uint64_t>(pause.count()))));
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, jittered, [this] { return stopping_; })) return;
  }
}

bool ControllerLink::RunStream() {
  const std::unique_ptr<proto::Controller::Stub> stub =
      proto::Controller::NewStub(MakeChannel(options_));
  grpc::ClientContext context;
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    context_ = &context;
    number = ++stream_;
  }
  const auto stream = stub->Connect(&context);
  proto::FromAgent hello;
  hello.mutable_hello()->set_token(options_.token);
  hello.mutable_hello()->set_node(options_.node.value());
  hello.mutable_hello()->set_incarnation(options_.incarnation);
  hello.mutable_hello()->set_version(LONGHAUL_VERSION);
  stream->Write(hello);  // a failure shows in Read

  std::thread writer;
  proto::ToAgent message;
  while (stream->Read(&message)) {
    if (!message.has_welcome()) {
      if (writer.joinable()) HandleMessage(message);
      continue;
    }
    if (writer.joinable()) continue;  // a second welcome means nothing
    {
      std::lock_guard lock(mutex_);
      stream_up_ = true;
    }
    heartbeat_period_ = kDefaultHeartbeat;
    TakeHeartbeatPeriod(message.welcome().heartbeat_period_ns());
    writer = std::thread([this, &stream, number] { RunWriter(*stream, number); });
    Notify([this, number, acknowledged = message.welcome().acknowledged()](const auto& observer) {
      reported_stream_ = number;
      observer.on_connected(acknowledged);
    });
  }
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
  const std::string reason =
      status.ok() ? "the controller closed the stream" : status.error_message();
  const bool answered = status.error_code() != grpc::StatusCode::UNAVAILABLE;
  Notify([welcomed, answered, reason](const auto& observer) {
    if (welcomed) {
      observer.on_disconnected(reason);
    } else {
      observer.on_not_opened(answered, reason);
    }
  });
  return welcomed;
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
  if (nanoseconds > 0) heartbeat_period_ = Duration(nanoseconds);
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
