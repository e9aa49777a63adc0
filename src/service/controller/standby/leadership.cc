#include "service/controller/standby/leadership.h"

#include <algorithm>
#include <utility>

#include "io/clock.h"

namespace longhaul::service {
namespace {

constexpr Duration kOneMillisecond = std::chrono::milliseconds(1);
constexpr Duration kLookLimit = std::chrono::seconds(2);
constexpr int kRenewalsPerLease = 3;

// The lock of a term. The table's number keeps it apart from the locks of other programs.
#define LONGHAUL_TERM_LOCK(term) \
  "('longhaul.leader'::regclass::oid::int, ((" term ") % 2147483647)::int)"

constexpr const char* kLook =
    "SELECT term, holder || ' (REST on ' || rest || ')', lease_end < clock_timestamp(), "
    "pg_try_advisory_lock" LONGHAUL_TERM_LOCK("term") " FROM longhaul.leader";
constexpr const char* kUnlock = "SELECT pg_advisory_unlock" LONGHAUL_TERM_LOCK("$1::bigint");
constexpr const char* kLock = "SELECT pg_try_advisory_lock" LONGHAUL_TERM_LOCK("$1::bigint");
constexpr const char* kTakeOver =
    "UPDATE longhaul.leader SET term = $1::bigint + 1, holder = $2::text, rest = $3::text, "
    "agents = $4::text, lease_end = clock_timestamp() + $5::bigint * interval '1 millisecond' "
    "WHERE term = $1::bigint AND ($6::bigint = 1 OR lease_end < clock_timestamp()) RETURNING term";
// A renewal that a crash of the database undoes does no harm, so it does not wait for the disk.
constexpr const char* kRenew =
    "UPDATE longhaul.leader SET lease_end = clock_timestamp() + $2::bigint * interval '1 "
    "millisecond' WHERE term = $1::bigint "
    "RETURNING term, set_config('synchronous_commit', 'off', true)";

#undef LONGHAUL_TERM_LOCK

}  // namespace

Leadership::Leadership(LeadershipOptions options)
    : options_(std::move(options)), connection_(options_.address) {}

Leadership::~Leadership() { Stop(); }

Result<std::optional<uint64_t>> Leadership::Try() {
  ASSIGN_OR_RETURN(const PostgresRows row, connection_.Query(kLook, {}, kLookLimit));
  if (row.size() != 1) {
    return DataLoss("longhaul.leader has " + std::to_string(row.size()) + " rows in " +
                    options_.address.shown + ", expected 1");
  }
  const int64_t term = row.Number(0, 0);
  leader_ = std::string(row.Text(0, 1));
  const bool ended = row.IsTrue(0, 2), free = row.IsTrue(0, 3);
  if (!ended && !free) return std::optional<uint64_t>();
  const Status taken = TakeOver(term, free);
  if (!taken.ok()) {
    connection_.Close();  // and with it all locks
    if (taken.code() == Code::kAborted) return std::optional<uint64_t>();
    return taken;
  }
  return std::optional(static_cast<uint64_t>(term_));
}

// The lock of the new term first: a row whose lock is free would be taken over by a third one.
// The update waits for appends under way of the old term; no other can follow.
Status Leadership::TakeOver(int64_t term, bool free) {
  const PostgresValue next[] = {ValueOf(term + 1)};
  ASSIGN_OR_RETURN(const PostgresRows locked, connection_.Query(kLock, next, kLookLimit));
  if (!locked.IsTrue(0, 0)) return Aborted("another controller takes over");
  const Instant sent = io::MonotonicNow();
  const PostgresValue values[] = {ValueOf(term),
                                  ValueOf(options_.holder),
                                  ValueOf(options_.rest),
                                  ValueOf(options_.agents),
                                  ValueOf(options_.lease / kOneMillisecond),
                                  ValueOf(int64_t{free ? 1 : 0})};
  ASSIGN_OR_RETURN(const PostgresRows taken, connection_.Query(kTakeOver, values, kLookLimit));
  if (taken.size() != 1) return Aborted("another controller has taken over");
  const PostgresValue old[] = {ValueOf(term)};
  if (free) RETURN_IF_ERROR(connection_.Query(kUnlock, old, kLookLimit).status());
  term_ = term + 1;
  renewed_ = sent;
  locked_session_ = connection_.sessions();
  return Status();
}

void Leadership::Keep(std::function<void(const Status&)> on_lost) {
  thread_ = std::thread([this, on_lost = std::move(on_lost)] { Run(on_lost); });
}

Status Leadership::Renew() {
  const Instant sent = io::MonotonicNow();
  // What is left of the lease, so that the loss is noticed in time.
  const Duration limit = renewed_ + options_.lease - sent;
  if (limit <= Duration(0)) return Unavailable("no renewal within the lease");
  const PostgresValue values[] = {ValueOf(term_), ValueOf(options_.lease / kOneMillisecond)};
  ASSIGN_OR_RETURN(const PostgresRows rows, connection_.Query(kRenew, values, limit));
  if (rows.size() != 1) {
    return Aborted("another controller has taken over: the term " + std::to_string(term_) +
                   " of this one has ended");
  }
  renewed_ = sent;
  if (locked_session_ == connection_.sessions()) return Status();
  // In a new session: one that stands by may hold the lock for a moment, then the next renewal
  // tries again.
  ASSIGN_OR_RETURN(const PostgresRows locked,
                   connection_.Query(kLock, std::span(values).first(1), options_.lease));
  if (locked.IsTrue(0, 0)) locked_session_ = connection_.sessions();
  return Status();
}

void Leadership::Run(const std::function<void(const Status&)>& on_lost) {
  const Duration period = options_.lease / kRenewalsPerLease;
  // After a failure, such as a restart of the database.
  const Duration retry = std::min<Duration>(period, 50 * kOneMillisecond);
  Status status;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, status.ok() ? period : retry, [this] { return stopping_; })) {
    lock.unlock();
    status = Renew();
    const bool ended = io::MonotonicNow() - renewed_ >= options_.lease;
    if (status.code() == Code::kAborted) return on_lost(status);
    if (!status.ok() && ended) {
      return on_lost(Aborted("the lease could not be renewed for " + ToString(options_.lease) +
                             ": " + status.message()));
    }
    lock.lock();
  }
}

void Leadership::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  connection_.Close();
}

}  // namespace longhaul::service
