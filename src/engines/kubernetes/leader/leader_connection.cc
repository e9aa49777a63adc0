#include "engines/kubernetes/leader/leader_connection.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace longhaul::engines::kubernetes {

Result<std::unique_ptr<LeaderConnection>> LeaderConnection::Create(io::EventLoop& loop,
                                                                   Client& client, ObjectName lease,
                                                                   ElectionSettings settings,
                                                                   uint64_t seed,
                                                                   LeaderSink& sink) {
  RETURN_IF_ERROR(Check(settings));
  // Refuses names that a request could not have.
  RETURN_IF_ERROR(GetCall(Leases(), lease).status());
  settings.lease_name = lease.name;
  return std::unique_ptr<LeaderConnection>(
      new LeaderConnection(loop, client, std::move(lease), std::move(settings), seed, sink));
}

LeaderConnection::LeaderConnection(io::EventLoop& loop, Client& client, ObjectName lease,
                                   ElectionSettings settings, uint64_t seed, LeaderSink& sink)
    : loop_(loop),
      client_(client),
      lease_(std::move(lease)),
      request_limit_(settings.request_limit),
      sink_(sink),
      election_(std::move(settings), seed) {
  Wait(io::MonotonicNow());
}

LeaderConnection::~LeaderConnection() {
  if (timer_) loop_.Cancel(*timer_);
}

void LeaderConnection::Wait(std::optional<Instant> until) {
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  // The end of the leadership is reported even if no request is due.
  if (leading_ && election_.leads_until()) {
    until = until ? std::min(*until, *election_.leads_until()) : *election_.leads_until();
  }
  if (!until) return;
  timer_ = loop_.After(*until - io::MonotonicNow(), [this] {
    timer_.reset();
    Pump();
  });
}

void LeaderConnection::Pump() {
  ReportLeading();
  // The clock is read before the request is made: the leadership is counted from there.
  const Election::Action action = election_.Next(io::MonotonicNow(), io::Now());
  switch (action.kind) {
    case Election::Kind::kWait:
      return Wait(action.at);
    case Election::Kind::kBusy:
      return Wait(std::nullopt);
    case Election::Kind::kEnded:
      if (on_released_) std::exchange(on_released_, nullptr)();
      return;
    case Election::Kind::kGet:
    case Election::Kind::kCreate:
    case Election::Kind::kPatch:
      return Send(action);
  }
}

Result<Call> LeaderConnection::CallOf(const Election::Action& action) const {
  switch (action.kind) {
    case Election::Kind::kCreate:
      return CreateCall(Leases(), lease_.namespace_name, action.body);
    case Election::Kind::kPatch:
      return PatchCall(Leases(), lease_, "", PatchKind::kMerge, action.body);
    default:
      return GetCall(Leases(), lease_);
  }
}

void LeaderConnection::Send(const Election::Action& action) {
  Result<Call> call = CallOf(action);
  CHECK(call.ok()) << call.status().message();  // the names were checked
  call->limit = request_limit_;
  const Call copy = *call;
  const auto sent = client_.Send(
      std::move(call), [this, alive = std::weak_ptr<const bool>(alive_)](const Reply& reply) {
        if (!alive.expired()) OnReply(reply.verdict, reply.body);
      });
  // The queue is full.
  if (!sent.ok()) return OnReply(Unreachable(copy, sent.status()), "");
  Wait(std::nullopt);
}

void LeaderConnection::OnReply(const Verdict& verdict, const std::string& body) {
  ReportTrouble(election_.OnReply(verdict, body, io::MonotonicNow()));
  Pump();
}

void LeaderConnection::ReportLeading() {
  const bool leads = this->leads();
  const uint64_t term = election_.terms();
  // A loop that was blocked may find that it has ceased to lead and leads again.
  if (leading_ && (!leads || term != term_)) {
    leading_ = false;
    sink_.OnStops();
  }
  if (leads && !leading_) {
    leading_ = true;
    term_ = term;
    sink_.OnLeads();
  }
}

void LeaderConnection::ReportTrouble(const Status& status) {
  if (status.message() == trouble_) return;
  trouble_ = status.message();
  if (!status.ok()) sink_.OnTrouble(status);
}

void LeaderConnection::Release(std::function<void()> done) {
  on_released_ = std::move(done);
  election_.Release(io::MonotonicNow());
  Wait(io::MonotonicNow());
}

}  // namespace longhaul::engines::kubernetes
