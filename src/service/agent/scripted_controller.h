// A controller for tests of the agent: accepts its stream, logs each event once, and sends what the
// test gives it.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/commands.grpc.pb.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"

namespace longhaul::service {

class ScriptedController final : private proto::Controller::Service {
 public:
  ScriptedController() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedController() override {
    Drop();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Sends a command on the present stream. Requires one.
  void Give(const proto::Command& command) {
    std::lock_guard lock(mutex_);
    proto::ToAgent message;
    *message.mutable_command() = command;
    stream_->Write(message);
  }
  // Requests a heartbeat at this period from now on. Requires a stream.
  void SetHeartbeatPeriod(int64_t nanoseconds) {
    std::lock_guard lock(mutex_);
    proto::ToAgent message;
    message.set_heartbeat_period_ns(nanoseconds);
    stream_->Write(message);
  }
  // Ends the present stream, if there is one. The agent will reconnect.
  void Drop() {
    std::lock_guard lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  // The term in later Welcomes.
  void SetTerm(uint64_t term) {
    std::lock_guard lock(mutex_);
    term_ = term;
  }
  // While true, streams are ended as soon as they open.
  void Refuse(bool refuse) {
    std::lock_guard lock(mutex_);
    refuse_ = refuse;
  }

  // Returns the log: each event once, in order.
  std::vector<proto::Event> events() const {
    std::lock_guard lock(mutex_);
    return events_;
  }
  // Streams that were sent Welcome.
  int streams() const {
    std::lock_guard lock(mutex_);
    return streams_;
  }
  int heartbeats() const {
    std::lock_guard lock(mutex_);
    return heartbeats_;
  }
  proto::AgentHello hello() const {
    std::lock_guard lock(mutex_);
    return hello_;
  }

 private:
  using Stream = grpc::ServerReaderWriter<proto::ToAgent, proto::FromAgent>;

  grpc::Status Connect(grpc::ServerContext* context, Stream* stream) override {
    proto::FromAgent message;
    if (!stream->Read(&message) || !message.has_hello()) return grpc::Status::CANCELLED;
    {
      std::lock_guard lock(mutex_);
      if (refuse_) return {grpc::StatusCode::UNAUTHENTICATED, "refused by the test"};
      hello_ = message.hello();
      context_ = context;
      stream_ = stream;
      proto::ToAgent welcome;
      welcome.mutable_welcome()->set_acknowledged(logged_);
      welcome.mutable_welcome()->set_heartbeat_period_ns(20'000'000);
      welcome.mutable_welcome()->set_term(term_);
      ++streams_;
      stream->Write(welcome);
    }
    while (stream->Read(&message)) Take(message);
    std::lock_guard lock(mutex_);
    if (context_ == context) {
      context_ = nullptr;
      stream_ = nullptr;
    }
    return grpc::Status::OK;
  }

  void Take(const proto::FromAgent& message) {
    std::lock_guard lock(mutex_);
    if (message.has_heartbeat()) ++heartbeats_;
    if (!message.has_event()) return;
    if (message.event().sequence() > logged_) {
      logged_ = message.event().sequence();
      events_.push_back(message.event());
    }
    if (stream_ == nullptr) return;
    proto::ToAgent answer;
    answer.set_acknowledged(logged_);
    stream_->Write(answer);
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;  // guards all below
  grpc::ServerContext* context_ = nullptr;
  Stream* stream_ = nullptr;
  bool refuse_ = false;
  uint64_t term_ = 0;
  int streams_ = 0;
  proto::AgentHello hello_;
  uint64_t logged_ = 0;
  int heartbeats_ = 0;
  std::vector<proto::Event> events_;
};

}  // namespace longhaul::service
