#include "engines/kubernetes/client/watch_connection.h"

#include <algorithm>
#include <utility>

#include "io/clock.h"

namespace longhaul::engines::kubernetes {

WatchConnection::WatchConnection(Client& client, Call list, WatchSettings settings, uint64_t seed,
                                 WatchSink& sink)
    : client_(client), call_(std::move(list)), state_(std::move(settings), seed, sink) {
  Wait(io::MonotonicNow());
}

WatchConnection::~WatchConnection() {
  if (timer_) client_.loop_.Cancel(*timer_);
  if (idle_timer_) client_.loop_.Cancel(*idle_timer_);
  if (request_) client_.http_->Cancel(*request_);
}

void WatchConnection::Wait(Instant until) {
  if (timer_) client_.loop_.Cancel(*timer_);
  timer_ = client_.loop_.After(until - io::MonotonicNow(), [this] {
    timer_.reset();
    Pump();
  });
}

void WatchConnection::Pump() {
  const WatchState::Action action = state_.Next(io::MonotonicNow());
  switch (action.kind) {
    case WatchState::Kind::kBusy:
      return;
    case WatchState::Kind::kWait:
      return Wait(action.at);
    case WatchState::Kind::kList:
    case WatchState::Kind::kStream:
      break;
  }
  call_.verb = action.kind == WatchState::Kind::kList ? "list" : "watch";
  client_.credentials_->Get([this, alive = std::weak_ptr<const bool>(alive_),
                             action](const Result<CredentialSource::Shared>& credential) {
    if (alive.expired()) return;
    if (credential.ok()) return Request(action, *credential);
    state_.OnRefused(Unreachable(call_, credential.status()), io::MonotonicNow());
    // Not at once: the source may have called back within Pump.
    Wait(io::MonotonicNow());
  });
}

void WatchConnection::Request(const WatchState::Action& action,
                              const CredentialSource::Shared& credential) {
  ++client_.counts_.requests;
  HttpRequest request;
  request.method = "GET";
  request.target = action.target;
  request.credential = credential;
  if (action.kind == WatchState::Kind::kList) {
    request_ = client_.http_->Send(std::move(request),
                                   [this, credential](const Result<HttpResponse>& response) {
                                     request_.reset();
                                     OnList(credential, response);
                                   });
    return;
  }
  // The rest of a line of the stream before is lost: the server sends the event again.
  lines_.Reset();
  request_ = client_.http_->Open(
      std::move(request), [this](std::string_view bytes) { OnBytes(bytes); },
      [this, credential](const Result<HttpResponse>& response) {
        request_.reset();
        OnStreamEnd(credential, response);
      });
  SetIdleTimer();
}

void WatchConnection::SetIdleTimer() {
  if (idle_timer_) return;  // it finds out itself that a line has arrived since
  const std::optional<Instant> idle_at = state_.idle_at();
  if (!idle_at) return;
  idle_timer_ = client_.loop_.After(*idle_at - io::MonotonicNow(), [this] {
    idle_timer_.reset();
    const std::optional<Instant> deadline = state_.idle_at();
    if (!deadline || !request_) return;
    if (io::MonotonicNow() < *deadline) return SetIdleTimer();
    Close();
    state_.OnIdle(io::MonotonicNow());
    Pump();
  });
}

void WatchConnection::Close() {
  if (request_) client_.http_->Cancel(*request_);
  request_.reset();
}

void WatchConnection::OnBytes(std::string_view bytes) {
  bool ended = false;
  const Status status = lines_.Append(bytes, [&](PaddedText line) {
    ended = !state_.OnLine(line, io::MonotonicNow());
    // An error stops the lines that follow; it is not reported further.
    return ended ? CancelledError("the watch has ended") : Status();
  });
  if (status.ok()) return;
  Close();
  // A line that the state did not understand has ended the request in the state already.
  if (!ended) state_.OnEnd(status, io::MonotonicNow());
  Pump();
}

void WatchConnection::OnList(const CredentialSource::Shared& credential,
                             const Result<HttpResponse>& response) {
  if (!response.ok() || response->status / 100 != 2) return OnRefused(credential, response);
  const PaddedString body(response->body);
  state_.OnPage(body.view(), io::MonotonicNow());
  Pump();
}

void WatchConnection::OnStreamEnd(const CredentialSource::Shared& credential,
                                  const Result<HttpResponse>& response) {
  if (response.ok() && response->status / 100 != 2) return OnRefused(credential, response);
  const bool whole = response.ok() && lines_.at_line_end();
  state_.OnEnd(whole ? Status()
               : response.ok()
                   ? Unavailable("the stream of " + call_.Text() + " ended within a line")
                   : response.status(),
               io::MonotonicNow());
  Pump();
}

void WatchConnection::OnRefused(const CredentialSource::Shared& credential,
                                const Result<HttpResponse>& response) {
  const Verdict verdict = client_.VerdictOn(call_, response);
  if (verdict.outcome == Outcome::kUnauthenticated) {
    client_.credentials_->Refused(credential);
    ++client_.counts_.refreshed_credentials;
  }
  state_.OnRefused(verdict, io::MonotonicNow());
  Pump();
}

}  // namespace longhaul::engines::kubernetes
