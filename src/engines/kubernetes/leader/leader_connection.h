// Carries out what an Election decides: one candidate for one Lease, over a client.
//
// Its requests have the class of traffic of leases and the election's limit. All calls and
// callbacks are on the loop's thread. Requires rights to get, create and patch leases in the
// namespace.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/leader/election.h"
#include "io/clock.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class LeaderSink {
 public:
  virtual ~LeaderSink() = default;
  virtual void OnLeads() = 0;
  // It led and does so no longer. A loop that was blocked calls it late: leads() is exact.
  virtual void OnStops() = 0;
  // A request failed or a reply was not understood; the next attempt comes later. Called again only
  // when the failure has changed or something has succeeded in between.
  virtual void OnTrouble(const Status& status) = 0;
};

class LeaderConnection {
 public:
  // Begins with the loop's next turn. The name in the settings is replaced by that of `lease`.
  // kInvalidArgument for settings or names that cannot be. Requires that `loop`, `client` and
  // `sink` outlive the result, and that no callback destroys it.
  static Result<std::unique_ptr<LeaderConnection>> Create(io::EventLoop& loop, Client& client,
                                                          ObjectName lease,
                                                          ElectionSettings settings, uint64_t seed,
                                                          LeaderSink& sink);
  // Does not release the lease: others wait for its duration.
  ~LeaderConnection();
  LeaderConnection(const LeaderConnection&) = delete;
  LeaderConnection& operator=(const LeaderConnection&) = delete;

  // Whether this process may act as the leader now: to be called before each decision.
  bool leads() const { return election_.leads(io::MonotonicNow()); }
  const Election& election() const { return election_; }

  // Ceases to lead at once, and gives the lease up so that others need not wait. Calls `done` once,
  // later: when the lease is released, was not held, or could not be released in time.
  void Release(std::function<void()> done);

 private:
  LeaderConnection(io::EventLoop& loop, Client& client, ObjectName lease, ElectionSettings settings,
                   uint64_t seed, LeaderSink& sink);
  void Pump();
  void Send(const Election::Action& action);
  Result<Call> CallOf(const Election::Action& action) const;
  void OnReply(const Verdict& verdict, const std::string& body);
  void Wait(std::optional<Instant> until);
  void ReportLeading();
  void ReportTrouble(const Status& status);

  io::EventLoop& loop_;
  Client& client_;
  const ObjectName lease_;
  const Duration request_limit_;
  LeaderSink& sink_;
  Election election_;
  bool leading_ = false;  // as reported
  uint64_t term_ = 0;
  std::string trouble_;
  std::function<void()> on_released_;
  std::optional<io::EventLoop::TimerId> timer_;
  // Expired when a reply arrives after the end of this.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace longhaul::engines::kubernetes
