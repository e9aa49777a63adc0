// An agent's end of the stream, driven by hand: for tests of the controller.
#pragma once

#include <grpcpp/create_channel.h>

#include <memory>
#include <optional>
#include <string>

#include "io/clock.h"
#include "proto/commands.grpc.pb.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"
#include "service/client/endpoint.h"

namespace longhaul::service {

class ScriptedAgent {
 public:
  explicit ScriptedAgent(const Endpoint& endpoint,
                         const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                             grpc::InsecureChannelCredentials())
      : stub_(proto::Controller::NewStub(grpc::CreateChannel(endpoint.agents, credentials))),
        stream_(stub_->Connect(&context_)) {}
  ~ScriptedAgent() {
    context_.TryCancel();
    (void)Finish();
  }
  ScriptedAgent(const ScriptedAgent&) = delete;
  ScriptedAgent& operator=(const ScriptedAgent&) = delete;

  void Hello(const std::string& token, const std::string& node, uint64_t incarnation) {
    proto::FromAgent message;
    message.mutable_hello()->set_token(token);
    message.mutable_hello()->set_node(node);
    message.mutable_hello()->set_incarnation(incarnation);
    stream_->Write(message);
  }
  void Join(uint64_t sequence, uint32_t slots) {
    proto::Event event;
    event.mutable_agent_joined()->set_slots(slots);
    event.mutable_agent_joined()->set_address("127.0.0.1");
    SendEvent(sequence, std::move(event));
  }
  void SendEvent(uint64_t sequence, proto::Event event) {
    proto::FromAgent message;
    *message.mutable_event() = std::move(event);
    message.mutable_event()->set_sequence(sequence);
    message.mutable_event()->set_at_ns(ToNanoseconds(io::Now()));
    Send(message);
  }
  bool Send(const proto::FromAgent& message) {
    return stream_->Write(message);
  }  // false: the stream has ended
  // Blocks until the next message; returns nothing when the stream has ended.
  std::optional<proto::ToAgent> Read() {
    proto::ToAgent message;
    if (!stream_->Read(&message)) return std::nullopt;
    return message;
  }
  // Reads up to the acknowledgement of `sequence`.
  bool AwaitAcknowledged(uint64_t sequence) {
    while (const auto message = Read()) {
      if (message->has_acknowledged() && message->acknowledged() >= sequence) return true;
    }
    return false;
  }
  // Returns how the stream ended. Requires that Read has returned nothing, or Break.
  grpc::Status Finish() {
    if (!ended_.has_value()) ended_ = stream_->Finish();  // gRPC allows this once
    return *ended_;
  }
  void Break() { context_.TryCancel(); }

 private:
  std::unique_ptr<proto::Controller::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::FromAgent, proto::ToAgent>> stream_;
  std::optional<grpc::Status> ended_;
};

}  // namespace longhaul::service
