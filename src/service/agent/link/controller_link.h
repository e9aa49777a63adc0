// An agent's stream to the controller, which is reconnected whenever it fails.
//
// One thread connects and reads, a second one writes while a stream is open; both post everything
// to the loop. After a failure it tries again (reconnect_pauses.h). The core does the ordering,
// resending and acknowledging.
//
// With several addresses one of these controllers leads and the others stand by (docs/standby.md):
// the link tries them in turn. A leader sends something in each heartbeat period, so a stream that
// is silent for four of them is ended: its controller is paused or cut off.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/random.h"
#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "proto/commands.pb.h"
#include "service/agent/link/reconnect_pauses.h"

namespace grpc {
class ClientContext;
}

namespace longhaul::service {

struct ControllerLinkOptions {
  std::vector<std::string> addresses;  // "HOST:PORT" of each controller; at least one
  // Decides whether to follow a controller of this term. Called on the link's thread; empty: any.
  std::function<Status(uint64_t term)> accept_term;
  std::string token;
  std::string identity_directory;  // of agent_identity.h; empty: without TLS
  NodeId node;
  uint64_t incarnation = 0;
  Duration first_retry = std::chrono::milliseconds(20);
  Duration longest_retry = std::chrono::seconds(1);
};

// Called on the loop's thread, in the order of the events.
struct ControllerLinkObserver {
  std::function<void(uint64_t acknowledged)> on_connected;         // the controller sent Welcome
  std::function<void(const std::string& reason)> on_disconnected;  // after on_connected only
  // No stream was opened; it retries. `answered`: the controller has refused it.
  std::function<void(bool answered, const std::string& reason)> on_not_opened;
  std::function<void(const proto::Command&)> on_command;
  std::function<void(uint64_t sequence)> on_acknowledged;
  std::function<void(const proto::CheckOrder&)> on_check;
};

class ControllerLink {
 public:
  // Starts at once. All calls, the destructor too, on the loop's thread. Makes no calls after it.
  ControllerLink(io::EventLoop& loop, ControllerLinkOptions options,
                 ControllerLinkObserver observer);
  ~ControllerLink();
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  // Sends on the stream of the last on_connected; drops the message when that stream has ended.
  void Send(proto::FromAgent message);

 private:
  void RunReader();
  // Runs one stream from its beginning to its end. `patience`: how long the connection may take,
  // if there are several controllers.
  ConnectionEnd RunStream(const std::string& address, Duration patience);
  // Takes messages until the stream ends. Returns the reason if the link ends it.
  template <typename Stream>
  Status Read(Stream& stream, uint64_t number, std::thread& writer);
  // Ends the stream when it is silent. Runs until the stream has ended.
  void WatchSilence(uint64_t number, Duration patience);
  // Reports the end of a stream to the loop.
  void NotifyEnd(bool welcomed, bool answered, const std::string& reason);
  bool several() const { return options_.addresses.size() > 1; }
  template <typename Stream>
  void RunWriter(Stream& stream, uint64_t number);
  void TakeHeartbeatPeriod(int64_t nanoseconds);
  void Notify(std::function<void(const ControllerLinkObserver&)> what);
  void HandleMessage(const proto::ToAgent& message);

  io::EventLoop& loop_;
  const ControllerLinkOptions options_;
  // Shared with the callbacks on the loop, which may run after this object has ended.
  std::shared_ptr<const ControllerLinkObserver> observer_;
  uint64_t reported_stream_ = 0;  // the loop's view: the number of the last reported stream
  Random random_;                 // used by the reading thread, as the next two
  size_t at_ = 0;                 // the address to try
  ReconnectPauses pauses_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t stream_ = 0;  // the number of the newest stream
  bool stream_up_ = false;
  grpc::ClientContext* context_ = nullptr;                    // of the newest stream, to cancel it
  std::deque<std::pair<uint64_t, proto::FromAgent>> unsent_;  // with the stream they are for

  std::atomic<Duration> heartbeat_period_;  // of the newest stream
  std::atomic<Duration> longest_period_;    // the present one or the one before it
  std::atomic<bool> welcomed_ = false;      // the newest stream
  std::atomic<bool> silent_ = false;        // the newest stream, so that it was ended
  std::atomic<Instant> last_received_;      // on the newest stream, or its start
  std::thread reader_;
};

}  // namespace longhaul::service
