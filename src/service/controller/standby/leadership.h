// Which of several controllers leads: one row of the database that holds their event log.
//
// The row has the term (the number of leaders so far), the holder and the end of its lease by the
// clock of the database. The leader renews the lease three times within its length. The session
// that renews it also holds an advisory lock of the term, which the server frees when the session
// ends. A controller that stands by takes over (term + 1) when that lock is free, so at once after
// the leader's process has ended, or when the lease has ended, so also if the leader's machine has
// disappeared, is paused or is cut off from the database.
//
// A leader that could not renew for the length of the lease, by its own clock from before it sent
// the renewal, has lost it, and so has one whose term is no longer in the row. Appends check the
// term too (postgres_log.h), so safety does not depend on any clock. model/ has the model of the
// protocol. Clocks may differ in time, not much in speed.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/time.h"
#include "service/controller/standby/postgres_connection.h"

namespace longhaul::service {

struct LeadershipOptions {
  PostgresAddress address;
  Duration lease = std::chrono::seconds(1);
  std::string holder;  // this process, for people
  std::string rest;    // where it serves while it leads, for people
  std::string agents;
};

class Leadership {
 public:
  // Requires that the tables exist (PostgresLog::Open).
  explicit Leadership(LeadershipOptions options);
  ~Leadership();  // stops
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Looks at the row once and takes over if that is due. Returns this controller's term when it
  // leads from now on, nothing while another one leads.
  Result<std::optional<uint64_t>> Try();
  // The one that led at the last Try, for messages.
  const std::string& leader() const { return leader_; }

  // Renews the lease on a thread of its own. Call it right after Try has returned a term. `on_lost`
  // is called once, on that thread, when it is lost: the process must end.
  void Keep(std::function<void(const Status&)> on_lost);

  // Ends the session; another controller takes over at once. No calls of `on_lost` follow.
  void Stop();

 private:
  Status TakeOver(int64_t term, bool free);
  void Run(const std::function<void(const Status&)>& on_lost);
  // Renews once; kAborted: another controller leads.
  Status Renew();

  const LeadershipOptions options_;
  PostgresConnection connection_;
  std::string leader_;
  int64_t term_ = 0;
  uint64_t locked_session_ = 0;  // the session that holds the lock of the term
  Instant renewed_;              // when the newest renewal that succeeded was sent
  std::mutex mutex_;             // guards stopping_
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace longhaul::service
