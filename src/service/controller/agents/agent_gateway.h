// Where agents connect: the gRPC side of the controller (wire.Controller.Connect).
//
// One stream a node counts, its newest. The first message is AgentHello; a wrong token, a name that
// can't be a node's, or an incarnation older than the connected one ends the stream with the
// reason. Then Welcome goes out, events go to the core's loop with node and incarnation set from
// the hello (an agent speaks only for itself), and acknowledgements follow once events are logged.
// A stream that ends, or is silent for four heartbeat periods, becomes an AgentDisconnected event.
//
// At most kWindow events of a stream wait in the loop; then it isn't read until some are logged, so
// a flood is held back by TCP and not by memory.
#pragma once

#include <grpcpp/server.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/time.h"
#include "service/controller/core_loop.h"

namespace longhaul::service {

struct AgentGatewayOptions {
  std::string address = "127.0.0.1:0";  // HOST:PORT
  std::string token;
  Duration heartbeat_period = std::chrono::milliseconds(250);
};

// Whether a text can be a node's name: 1 to 63 of a-z, 0-9 and '-'.
bool IsNodeName(const std::string& name);

class AgentGateway final : public AgentPort {
 public:
  static constexpr int kWindow = 64;
  static constexpr size_t kLongestOutbox = 8192;  // messages; a stream that lags further is closed
  static constexpr int kLargestMessage = 4 << 20;
  static constexpr int kMissedHeartbeats = 4;

  // Listens at once; kAlreadyExists when the port is in use. Requires that `loop` outlives this.
  static Result<std::unique_ptr<AgentGateway>> Start(const AgentGatewayOptions& options,
                                                     CoreLoop& loop);
  ~AgentGateway() override;
  AgentGateway(const AgentGateway&) = delete;
  AgentGateway& operator=(const AgentGateway&) = delete;

  // Closes all streams without telling the core: it is the controller that goes.
  void Stop();

  void Deliver(const NodeId& node, const proto::Command& command) override;
  void Acknowledge(const NodeId& node, uint64_t incarnation, uint64_t sequence) override;

  uint16_t port() const { return port_; }
  size_t streams() const;

 private:
  class Stream;
  class Service;

  AgentGateway(const AgentGatewayOptions& options, CoreLoop& loop);
  Status Listen();
  // A stream said who it is. Returns why it is refused, if it is.
  Status Identify(const std::shared_ptr<Stream>& stream, const proto::AgentHello& hello);
  // A stream ended, for this reason.
  void Forget(const Stream* stream, const std::string& reason);
  std::shared_ptr<Stream> Find(const NodeId& node) const;
  void WatchSilence();

  const AgentGatewayOptions options_;
  CoreLoop& loop_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  uint16_t port_ = 0;
  std::thread watcher_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::map<NodeId, std::shared_ptr<Stream>> current_;
};

}  // namespace longhaul::service
