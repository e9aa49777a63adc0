// The gRPC server of the controller for agents (longhaul.proto.Controller).
//
// With TLS an agent presents a certificate, which must be its node's (agent_admission.h); without
// it, on loopback only, the token. A stream ends when the certificate that it began with expires or
// is revoked.
//
// Only the newest stream of a node counts. Its first message is AgentHello. A wrong token, an
// invalid node name, or an incarnation older than the connected one ends the stream with the
// reason. Otherwise the gateway sends Welcome, passes events to the core's loop with the node and
// incarnation of the hello (so an agent can report only for itself), and sends acknowledgements
// once events are logged. A stream that ends, or is silent for four heartbeat periods, becomes an
// AgentDisconnected event. The period grows with the number of agents, so that the heartbeats of
// all of them cost the controller as much as those of about 500 agents at the shortest period. A
// message to each agent changes its period.
//
// At most kWindow events of a stream are queued in the loop. Then the stream isn't read until some
// are logged, so TCP slows down a flood before it fills memory.
#pragma once

#include <grpcpp/server.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "service/controller/agents/agent_admission.h"
#include "service/controller/core_loop.h"
#include "service/security/audit_log.h"

namespace longhaul::service {

struct AgentGatewayOptions {
  std::string address = "127.0.0.1:0";  // HOST:PORT
  std::string token;                    // which agents present without TLS
  AgentAdmission* admission = nullptr;  // none: without TLS; must outlive the gateway
  Duration heartbeat_period = std::chrono::milliseconds(250);  // the shortest one
  // Of the leadership (standby/leadership.h), in Welcome and in each command; 0: nobody stands by.
  // With one, agents receive a message in each period, so that they notice a controller that is
  // paused or cut off.
  uint64_t term = 0;
};

// The period at which so many agents send heartbeats: 500 us for each, but at least `shortest` and
// at most 1 s or `shortest`.
Duration HeartbeatPeriodOf(size_t agents, Duration shortest);

class AgentGateway final : public AgentPort {
 public:
  static constexpr int kWindow = 64;
  static constexpr size_t kLongestOutbox = 8192;  // messages; a slower stream is closed
  static constexpr int kLargestMessage = 4 << 20;
  static constexpr int kMissedHeartbeats = 4;

  // Starts to listen; kAlreadyExists when the port is in use. Requires that `loop` and `audit`
  // outlive this.
  static Result<std::unique_ptr<AgentGateway>> Start(const AgentGatewayOptions& options,
                                                     CoreLoop& loop, AuditLog& audit);
  ~AgentGateway() override;
  AgentGateway(const AgentGateway&) = delete;
  AgentGateway& operator=(const AgentGateway&) = delete;

  // Closes all streams without an event to the core, since the controller itself ends.
  void Stop();

  void Deliver(const NodeId& node, const proto::Command& command) override;
  void Acknowledge(const NodeId& node, uint64_t incarnation, uint64_t sequence) override;

  // Sends the order for a test of a node check to its agent; returns false if it is not connected.
  bool SendCheck(const NodeId& node, const proto::CheckOrder& order);
  // Calls `take` with the answers to such orders, on any thread, from now on. Answers do not go
  // through the loop, because they are not part of the core's state. An empty one ends this.
  using TakeCheck = std::function<void(const NodeId&, const proto::CheckAnswer&)>;
  void OnCheckAnswer(TakeCheck take);

  uint16_t port() const { return port_; }
  size_t streams() const;

 private:
  class Stream;
  class Service;

  AgentGateway(const AgentGatewayOptions& options, CoreLoop& loop, AuditLog& audit);
  Status Listen();
  void Audit(const std::string& peer, const proto::AgentHello& hello, const Status& status);
  // Handles a stream's hello. Returns the reason if the stream is refused.
  Status Identify(const std::shared_ptr<Stream>& stream, const proto::AgentHello& hello);
  // Returns until when the agent that presented this certificate may be connected as its node.
  Result<Instant> Authenticate(const std::string& certificate,
                               const proto::AgentHello& hello) const;
  // Counts a stream that has not identified itself; returns false if there are too many.
  bool Expect(const std::shared_ptr<Stream>& stream);
  void Unexpect(const Stream* stream);
  // Ends the stream of a node whose certificate was revoked.
  void EndRevoked(const NodeId& node);
  void TakeCheckAnswer(const NodeId& node, const proto::CheckAnswer& answer);
  // Handles the end of a stream, with its reason.
  void Forget(const Stream* stream, const std::string& reason);
  std::shared_ptr<Stream> Find(const NodeId& node) const;
  void WatchSilence();
  void AdaptPeriods(const std::vector<std::shared_ptr<Stream>>& streams) const;

  const AgentGatewayOptions options_;
  CoreLoop& loop_;
  AuditLog& audit_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  uint16_t port_ = 0;
  std::thread watcher_;

  std::mutex check_mutex_;  // held while take_check_ runs
  TakeCheck take_check_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::map<NodeId, std::shared_ptr<Stream>> current_;
  std::map<const Stream*, std::weak_ptr<Stream>> unidentified_;  // no AgentHello has arrived yet
};

}  // namespace longhaul::service
