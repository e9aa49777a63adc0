// Carries out what a WatchState decides: one connection for one resource.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/protocol/watch_lines.h"
#include "engines/kubernetes/protocol/watch_state.h"

namespace longhaul::engines::kubernetes {

class WatchConnection {
 public:
  // Begins with the loop's next turn. Requires that `client` and `sink` outlive this, and that no
  // callback of `sink` destroys this.
  WatchConnection(Client& client, Call list, WatchSettings settings, uint64_t seed,
                  WatchSink& sink);
  ~WatchConnection();
  WatchConnection(const WatchConnection&) = delete;
  WatchConnection& operator=(const WatchConnection&) = delete;

  const WatchState& state() const { return state_; }

 private:
  void Pump();
  void Wait(Instant until);
  void SetIdleTimer();
  void Request(const WatchState::Action& action, const CredentialSource::Shared& credential);
  void OnBytes(std::string_view bytes);
  void OnList(const CredentialSource::Shared& credential, const Result<HttpResponse>& response);
  void OnStreamEnd(const CredentialSource::Shared& credential,
                   const Result<HttpResponse>& response);
  void OnRefused(const CredentialSource::Shared& credential, const Result<HttpResponse>& response);
  void Close();

  Client& client_;
  Call call_;
  WatchState state_;
  WatchLines lines_;
  std::optional<HttpClient::RequestId> request_;
  std::optional<io::EventLoop::TimerId> timer_;  // until the next request
  std::optional<io::EventLoop::TimerId> idle_timer_;
  // Expired when credentials arrive after the end of this.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace longhaul::engines::kubernetes
