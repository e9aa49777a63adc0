#include "engines/kubernetes/client/client.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engines/kubernetes/client/watch_connection.h"
#include "engines/kubernetes/protocol/objects/api_status.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {

Result<std::unique_ptr<Client>> Client::Create(io::EventLoop& loop, Access access,
                                               const ClientSettings& settings) {
  std::unique_ptr<Client> client(new Client(loop, settings));
  ASSIGN_OR_RETURN(client->http_, HttpClient::Create(loop, std::move(access.http)));
  client->credentials_ = std::move(access.credentials);
  CHECK(client->credentials_ != nullptr);
  return client;
}

Client::Client(io::EventLoop& loop, const ClientSettings& settings)
    : loop_(loop), settings_(settings), random_(settings_.seed), queues_(settings_.traffic) {
  CHECK(settings_.attempts >= 1);
}

Client::~Client() {
  if (timer_) loop_.Cancel(*timer_);
  for (const auto& [id, pending] : pending_) {
    if (pending.timer) loop_.Cancel(*pending.timer);
    if (pending.limit_timer) loop_.Cancel(*pending.limit_timer);
  }
}

Result<Client::CallId> Client::Send(Result<Call> call, Done done) {
  if (!call.ok()) return call.status();
  return Send(*std::move(call), std::move(done));
}

Result<Client::CallId> Client::Send(Call call, Done done) {
  // The id is used up only by a call that is queued.
  const CallId id = last_id_ + 1;
  RETURN_IF_ERROR(queues_.Add(call.traffic, id));
  last_id_ = id;
  Pending& pending = pending_[id];
  if (call.limit) pending.limit_timer = loop_.After(*call.limit, [this, id] { OnLimit(id); });
  pending.call = std::move(call);
  pending.done = std::move(done);
  Pump();
  return id;
}

void Client::Pump() {
  if (pumping_) return;  // credentials that are known start a call at once
  pumping_ = true;
  const Instant now = io::MonotonicNow();
  while (const std::optional<uint64_t> id = queues_.Take(now)) Start(*id);
  pumping_ = false;
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  const std::optional<Instant> next = queues_.NextAt(now);
  if (!next) return;
  timer_ = loop_.After(*next - now, [this] {
    timer_.reset();
    Pump();
  });
}

void Client::Start(CallId id) {
  pending_.at(id).started = true;
  credentials_->Get(
      [this, id](const Result<CredentialSource::Shared>& result) { OnCredential(id, result); });
}

void Client::OnCredential(CallId id, const Result<CredentialSource::Shared>& credential) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;  // its limit has passed in the meantime
  Pending& pending = found->second;
  if (!credential.ok()) {
    Reply reply;
    reply.verdict = Unreachable(pending.call, credential.status());
    // Later: `done` must not run within Send, and this may be destroyed by it.
    pending.timer = loop_.After(Duration::zero(), [this, id, reply] {
      pending_.at(id).timer.reset();
      queues_.Finished(pending_.at(id).call.traffic);
      End(id, reply);
      Pump();
    });
    return;
  }
  ++pending.attempts;
  ++counts_.requests;
  HttpRequest request;
  request.method = pending.call.method;
  request.target = pending.call.target;
  request.content_type = pending.call.content_type;
  request.accept = pending.call.accept;
  request.body = pending.call.body;
  request.credential = *credential;
  pending.request = http_->Send(
      std::move(request), [this, id, used = *credential](const Result<HttpResponse>& response) {
        OnResponse(id, used, response);
      });
}

Verdict Client::VerdictOn(const Call& call, const Result<HttpResponse>& response) {
  if (!response.ok()) return Unreachable(call, response.status());
  ApiStatus details;
  if (response->status / 100 != 2) {
    // A proxy's refusal has another body, or none.
    const PaddedString body(response->body);
    const Result<ApiStatus> read = ReadApiStatus(parser_, body.view());
    if (read.ok()) details = *read;
  }
  return Judge(call, response->status, response->retry_after, details);
}

void Client::OnResponse(CallId id, const CredentialSource::Shared& credential,
                        const Result<HttpResponse>& response) {
  const auto found = pending_.find(id);
  CHECK(found != pending_.end());
  Pending& pending = found->second;
  // The connection is free again, even if the call is repeated later.
  pending.request.reset();
  pending.started = false;
  queues_.Finished(pending.call.traffic);
  Reply reply;
  reply.verdict = VerdictOn(pending.call, response);
  if (reply.verdict.outcome == Outcome::kUnauthenticated) credentials_->Refused(credential);
  if (!Repeat(id, pending, reply.verdict)) {
    if (response.ok()) {
      reply.http_status = response->status;
      reply.body = response->body;
    }
    End(id, reply);
  }
  Pump();
}

bool Client::Repeat(CallId id, Pending& pending, const Verdict& verdict) {
  const Outcome outcome = verdict.outcome;
  const TrafficClass traffic = pending.call.traffic;
  if (outcome == Outcome::kUnauthenticated && !pending.reauthenticated) {
    // Ahead of the others: it has waited already. A second 401 is the caller's.
    pending.reauthenticated = true;
    ++counts_.refreshed_credentials;
    queues_.AddAgain(traffic, id);
    return true;
  }
  const bool safe = outcome == Outcome::kRetry ||
                    (outcome == Outcome::kUnreachable && pending.call.method == "GET");
  if (!safe || pending.attempts >= settings_.attempts) return false;
  const int doublings = std::min(pending.attempts - 1, 16);
  const Duration longest =
      std::min(settings_.longest_delay, settings_.first_delay * (int64_t{1} << doublings));
  const double spread = 0.5 + 0.5 * random_.Uniform();
  Duration delay(static_cast<int64_t>(static_cast<double>(longest.count()) * spread));
  if (verdict.retry_after) {
    delay += *verdict.retry_after;
    // The server limits this client, not this call.
    queues_.Pause(traffic, io::MonotonicNow() + *verdict.retry_after);
  }
  ++counts_.repeated;
  pending.timer = loop_.After(delay, [this, id, traffic] {
    pending_.at(id).timer.reset();
    queues_.AddAgain(traffic, id);
    Pump();
  });
  return true;
}

void Client::OnLimit(CallId id) {
  Pending& pending = pending_.at(id);
  pending.limit_timer.reset();
  if (pending.timer) loop_.Cancel(*pending.timer);
  if (pending.request) http_->Cancel(*pending.request);
  if (pending.started) {
    queues_.Finished(pending.call.traffic);
  } else {
    queues_.Remove(pending.call.traffic, id);
  }
  Reply reply;
  reply.verdict = Unreachable(
      pending.call, DeadlineExceeded("no reply within " + longhaul::ToString(*pending.call.limit)));
  End(id, reply);
  Pump();
}

void Client::End(CallId id, const Reply& reply) {
  const auto found = pending_.find(id);
  if (found->second.limit_timer) loop_.Cancel(*found->second.limit_timer);
  // The entry is gone before the callback runs, which may send further calls.
  const Done done = std::move(found->second.done);
  pending_.erase(found);
  done(reply);
}

Result<std::unique_ptr<WatchConnection>> Client::Watch(WatchOptions options, WatchSink& sink) {
  ASSIGN_OR_RETURN(Call call, ListCall(options.resource, options.namespace_name));
  options.settings.path = call.target;
  return std::make_unique<WatchConnection>(*this, std::move(call), std::move(options.settings),
                                           random_.Next(), sink);
}

}  // namespace longhaul::engines::kubernetes
